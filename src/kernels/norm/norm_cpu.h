// The per-instruction-set entry points of norm_cpu.cc.

#ifndef ARIL_KERNELS_NORM_NORM_CPU_H_
#define ARIL_KERNELS_NORM_NORM_CPU_H_

#include "kernels/norm/norm_tile.h"

#define ARIL_DECLARE_NORM(isa)      \
  namespace aril::kernels::isa {    \
  void NormRowF32(const NormRow&);  \
  void NormRowBF16(const NormRow&); \
  }

ARIL_DECLARE_NORM(portable)
ARIL_DECLARE_NORM(avx2)
ARIL_DECLARE_NORM(avx512)

#endif  // ARIL_KERNELS_NORM_NORM_CPU_H_
