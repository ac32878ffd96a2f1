// The gated activation of the MLP: silu(gate) · up.

#ifndef ARIL_KERNELS_ACTIVATION_ACTIVATION_H_
#define ARIL_KERNELS_ACTIVATION_ACTIVATION_H_

#include "kernels/cpu/context.h"
#include "kernels/matrix.h"

namespace aril::kernels {

// out [rows, n] = silu(gate_up[:, :n]) · gate_up[:, n:], gate_up [rows, 2 n] fp32, rounded once to
// out's dtype.
void SiluMul(CpuContext& context, MatrixView<const float> gate_up, const Matrix& out);

// The oracle for one element, in double arithmetic.
double SiluMulRef(double gate, double up);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ACTIVATION_ACTIVATION_H_
