#include "kernels/norm/norm.h"

#include "base/check.h"
#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {

void AddRmsNorm(CpuContext& context, MatrixView<float> residual, MatrixView<const float> add,
                const RmsNormWeights& weights, const Matrix& out) {
  CHECK_EQ(out.rows, residual.rows);
  CHECK_EQ(out.cols, residual.cols);
  if (add.data != nullptr) CHECK_EQ(add.cols, residual.cols);
  const CpuKernels& kernels = context.kernels();
  const auto run = out.dtype == DType::kF32 ? kernels.norm_row_f32 : kernels.norm_row_bf16;
  context.threads().ParallelFor(residual.rows, [&](int64_t r) {
    run({.residual = residual.row(r),
         .add = add.data == nullptr ? nullptr : add.row(r),
         .add_weight = weights.add_weight,
         .weight = weights.weight,
         .eps = weights.eps,
         .size = residual.cols,
         .out = out.row(r)});
  });
}

}  // namespace aril::kernels
