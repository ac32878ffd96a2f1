// The per-instruction-set entry points of probe_cpu.cc and probe_amx.cc.

#ifndef ARIL_KERNELS_PROBE_PROBE_CPU_H_
#define ARIL_KERNELS_PROBE_PROBE_CPU_H_

#include "kernels/probe/probe_tile.h"

#define ARIL_DECLARE_PROBE(isa)                \
  namespace aril::kernels::isa {               \
  uint32_t ReadBytes(const void*, int64_t);    \
  extern const ArithmeticLoop kArithmeticF32;  \
  extern const ArithmeticLoop kArithmeticBF16; \
  extern const ArithmeticLoop kArithmeticInt8; \
  }

ARIL_DECLARE_PROBE(portable)
ARIL_DECLARE_PROBE(avx2)
ARIL_DECLARE_PROBE(avx512)

// probe_amx.cc: what tiles do.
namespace aril::kernels::amx {
extern const ArithmeticLoop kArithmeticBF16;
extern const ArithmeticLoop kArithmeticInt8;
}  // namespace aril::kernels::amx

#endif  // ARIL_KERNELS_PROBE_PROBE_CPU_H_
