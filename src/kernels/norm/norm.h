// RMSNorm (Zhang and Sennrich, 2019), with the residual addition that precedes it in a decoder
// layer, and the norm that some models put before that addition (Gemma 2).

#ifndef ARIL_KERNELS_NORM_NORM_H_
#define ARIL_KERNELS_NORM_NORM_H_

#include "kernels/cpu/context.h"
#include "kernels/matrix.h"

namespace aril::kernels {

struct RmsNormWeights {
  const float* weight = nullptr;      // [hidden]
  const float* add_weight = nullptr;  // [hidden], or null: what is added is not normed
  float eps = 0;
};

// residual [rows, hidden] += add [rows, hidden] (if add.data is set), normed by `add_weight` if
// there is one; then out [rows, hidden] = residual normed by `weight`, rounded once to out's dtype.
// x normed by w is x / sqrt(mean(x²) + eps) · w.
void AddRmsNorm(CpuContext& context, MatrixView<float> residual, MatrixView<const float> add,
                const RmsNormWeights& weights, const Matrix& out);

// The oracle for one row, in double arithmetic.
void RmsNormRef(const float* x, const float* weight, double eps, int64_t size, double* out);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_NORM_NORM_H_
