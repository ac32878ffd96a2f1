// The per-instruction-set entry points of rope_cpu.cc.

#ifndef ARIL_KERNELS_ROPE_ROPE_CPU_H_
#define ARIL_KERNELS_ROPE_ROPE_CPU_H_

#include "kernels/rope/rope_tile.h"

#define ARIL_DECLARE_ROPE(isa)        \
  namespace aril::kernels::isa {      \
  void RopeHeadF32(const RopeHead&);  \
  void RopeHeadBF16(const RopeHead&); \
  }

ARIL_DECLARE_ROPE(portable)
ARIL_DECLARE_ROPE(avx2)
ARIL_DECLARE_ROPE(avx512)

#endif  // ARIL_KERNELS_ROPE_ROPE_CPU_H_
