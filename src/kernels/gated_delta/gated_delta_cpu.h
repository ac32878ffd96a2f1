// The per-instruction-set entry points of gated_delta_cpu.cc.

#ifndef ARIL_KERNELS_GATED_DELTA_GATED_DELTA_CPU_H_
#define ARIL_KERNELS_GATED_DELTA_GATED_DELTA_CPU_H_

#include "kernels/gated_delta/gated_delta_tile.h"

#define ARIL_DECLARE_GATED_DELTA(isa)         \
  namespace aril::kernels::isa {              \
  void DeltaConv(const DeltaConvHead&);       \
  void DeltaScan(const DeltaTile&);           \
  void DeltaNormRowF32(const DeltaNormRow&);  \
  void DeltaNormRowBF16(const DeltaNormRow&); \
  }

ARIL_DECLARE_GATED_DELTA(portable)
ARIL_DECLARE_GATED_DELTA(avx2)
ARIL_DECLARE_GATED_DELTA(avx512)

#endif  // ARIL_KERNELS_GATED_DELTA_GATED_DELTA_CPU_H_
