// The per-instruction-set entry points of activation_cpu.cc.

#ifndef ARIL_KERNELS_ACTIVATION_ACTIVATION_CPU_H_
#define ARIL_KERNELS_ACTIVATION_ACTIVATION_CPU_H_

#include "kernels/activation/activation_tile.h"

#define ARIL_DECLARE_ACTIVATION(isa)     \
  namespace aril::kernels::isa {         \
  void GluRowF32(const GluRow&);         \
  void GluRowBF16(const GluRow&);        \
  void SoftcapValues(const SoftcapRow&); \
  void GateRowF32(const GateRow&);       \
  void GateRowBF16(const GateRow&);      \
  }

ARIL_DECLARE_ACTIVATION(portable)
ARIL_DECLARE_ACTIVATION(avx2)
ARIL_DECLARE_ACTIVATION(avx512)

#endif  // ARIL_KERNELS_ACTIVATION_ACTIVATION_CPU_H_
