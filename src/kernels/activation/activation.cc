#include "kernels/activation/activation.h"

#include "base/check.h"
#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {

void Glu(CpuContext& context, Activation f, MatrixView<const float> gate_up, const Matrix& out) {
  CHECK_EQ(gate_up.rows, out.rows);
  CHECK_EQ(gate_up.cols, 2 * out.cols);
  const CpuKernels& kernels = context.kernels();
  const auto run = out.dtype == DType::kF32 ? kernels.glu_row_f32 : kernels.glu_row_bf16;
  context.threads().ParallelFor(out.rows, [&](int64_t r) {
    const float* row = gate_up.row(r);
    run({.f = f, .gate = row, .up = row + out.cols, .size = out.cols, .out = out.row(r)});
  });
}

void GateHeads(CpuContext& context, MatrixView<const float> gated, int64_t head_dim,
               const Matrix& values) {
  CHECK_EQ(gated.rows, values.rows);
  CHECK_EQ(values.cols % head_dim, 0);
  CHECK_LE(2 * values.cols, gated.cols);
  const CpuKernels& kernels = context.kernels();
  const auto run = values.dtype == DType::kF32 ? kernels.gate_row_f32 : kernels.gate_row_bf16;
  const int64_t head_bytes = head_dim * static_cast<int64_t>(SizeOf(values.dtype));
  context.threads().ParallelFor(values.rows, [&](int64_t r) {
    for (int64_t h = 0; h < values.cols / head_dim; ++h) {
      run({.gate = gated.row(r) + (2 * h + 1) * head_dim,
           .size = head_dim,
           .values = values.row(r) + h * head_bytes});
    }
  });
}

void Softcap(CpuContext& context, float cap, MatrixView<float> values) {
  CHECK(cap > 0);
  const CpuKernels& kernels = context.kernels();
  context.threads().ParallelFor(values.rows, [&](int64_t r) {
    kernels.softcap_row({.cap = cap, .values = values.row(r), .size = values.cols});
  });
}

}  // namespace aril::kernels
