// RMSNorm (Zhang and Sennrich, 2019), with the residual addition that precedes it in a decoder
// layer.

#ifndef ARIL_KERNELS_NORM_NORM_H_
#define ARIL_KERNELS_NORM_NORM_H_

#include "kernels/cpu/context.h"
#include "kernels/matrix.h"

namespace aril::kernels {

// residual [rows, hidden] += add [rows, hidden] (if add.data is set), then
// out [rows, hidden] = residual / sqrt(mean(residual²) + eps) · weight [hidden], rounded once to
// out's dtype.
void AddRmsNorm(CpuContext& context, MatrixView<float> residual, MatrixView<const float> add,
                const float* weight, float eps, const Matrix& out);

// The oracle for one row, in double arithmetic.
void RmsNormRef(const float* x, const float* weight, double eps, int64_t size, double* out);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_NORM_NORM_H_
