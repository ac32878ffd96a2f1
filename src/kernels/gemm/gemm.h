// Dense matrix product with pre-packed weights: y = x · Wᵀ (+ bias).
//
// The sum over K is taken in order with one fp32 accumulator per output, so that a row's result is
// bitwise the same whatever rows share the call, however many threads run it.
//
// Packed layout: [ceil(N / block_cols)][k_groups][block_cols] groups of 4 bytes (one float, or two
// BF16 that are neighbours along K); missing columns and the odd half of the last group are zero.
// block_cols depends on the instruction set (64, 16, 8).

#ifndef ARIL_KERNELS_GEMM_GEMM_H_
#define ARIL_KERNELS_GEMM_GEMM_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/matrix.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace aril::kernels {

// W of shape [n, k], packed for one instruction set. Immutable; move-only.
struct PackedMatrix {
  Isa isa = Isa::kPortable;
  DType dtype = DType::kF32;  // kF32 or kBF16
  int64_t n = 0;
  int64_t k = 0;
  Buffer data;
};

// Packs the rows of `parts`, one below the other, as one matrix: each is [n_i, k], of dtype F32,
// BF16 or F16, and is converted to `dtype`.
PackedMatrix Pack(CpuContext& context, const std::vector<TensorView>& parts, DType dtype);

// y [rows, n] (fp32) = x [rows, k] · Wᵀ + bias [n] (null: none). x has W's dtype.
void Gemm(CpuContext& context, const ConstMatrix& x, const PackedMatrix& w, const float* bias,
          MatrixView<float> y);

// The oracle: the same in plain double arithmetic, from the unpacked weights.
void GemmRef(const ConstMatrix& x, const TensorView& w, const float* bias, MatrixView<double> y);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_H_
