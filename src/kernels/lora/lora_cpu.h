// The per-instruction-set entry points of lora_cpu.cc.

#ifndef ARIL_KERNELS_LORA_LORA_CPU_H_
#define ARIL_KERNELS_LORA_LORA_CPU_H_

#include "kernels/lora/lora_tile.h"

#define ARIL_DECLARE_LORA(isa)                \
  namespace aril::kernels::isa {              \
  void LoraShrinkF32(const LoraShrinkTile&);  \
  void LoraShrinkBF16(const LoraShrinkTile&); \
  void LoraExpandF32(const LoraExpandTile&);  \
  void LoraExpandBF16(const LoraExpandTile&); \
  void LoraGainF32(const LoraGainTile&);      \
  void LoraGainBF16(const LoraGainTile&);     \
  }

ARIL_DECLARE_LORA(portable)
ARIL_DECLARE_LORA(avx2)
ARIL_DECLARE_LORA(avx512)

#endif  // ARIL_KERNELS_LORA_LORA_CPU_H_
