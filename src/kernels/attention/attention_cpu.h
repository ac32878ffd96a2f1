// The per-instruction-set entry points of attention_cpu.cc and attention_amx.cc.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_CPU_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_CPU_H_

#include "kernels/attention/attention_tile.h"

#define ARIL_DECLARE_ATTENTION(isa)             \
  namespace aril::kernels::isa {                \
  void AttentionTileF32(const AttentionTile&);  \
  void AttentionTileBF16(const AttentionTile&); \
  }

ARIL_DECLARE_ATTENTION(portable)
ARIL_DECLARE_ATTENTION(avx2)
ARIL_DECLARE_ATTENTION(avx512)

// attention_amx.cc: not for floats.
namespace aril::kernels::amx {
void AttentionTileBF16(const AttentionTile&);
}

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_CPU_H_
