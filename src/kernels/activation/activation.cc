#include "kernels/activation/activation.h"

#include "base/check.h"
#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {

void SiluMul(CpuContext& context, MatrixView<const float> gate_up, const Matrix& out) {
  CHECK_EQ(gate_up.rows, out.rows);
  CHECK_EQ(gate_up.cols, 2 * out.cols);
  const CpuKernels& kernels = context.kernels();
  const auto run = out.dtype == DType::kF32 ? kernels.silu_mul_row_f32 : kernels.silu_mul_row_bf16;
  context.threads().ParallelFor(out.rows, [&](int64_t r) {
    const float* row = gate_up.row(r);
    run({.gate = row, .up = row + out.cols, .size = out.cols, .out = out.row(r)});
  });
}

}  // namespace aril::kernels
