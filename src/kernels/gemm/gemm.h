// Dense matrix product with pre-packed weights: y = x · Wᵀ (+ bias).
//
// The sum over K is taken in order with one fp32 accumulator per output, so that a row's result is
// bitwise the same whatever rows share the call, however many threads run it.
//
// Packed layout: [ceil(N / block_cols)] blocks of k_groups × block_cols groups of 4 bytes (one
// float, two BF16 or four bytes that are neighbours along K); missing columns and the rest of the
// last group are zero. block_cols, and how a block lies in itself, depend on the instruction set
// (gemm_tile.h).
//
// Weights of 8 bits: W[n][k] = scale[n] · q[n][k] with |q| ≤ 127, rounded to nearest when packed.
// Each row of x is rounded in the same way when it is multiplied, x[r][k] = s[r] · p[r][k]; the
// products p · q are added exactly, as integers, so that all instruction sets give the same bits.

#ifndef ARIL_KERNELS_GEMM_GEMM_H_
#define ARIL_KERNELS_GEMM_GEMM_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/matrix.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace aril::kernels {

// W of shape [n, k], packed for one instruction set. Immutable; move-only.
struct PackedMatrix {
  Isa isa = Isa::kPortable;
  DType dtype = DType::kF32;  // kF32, kBF16 or kI8
  int64_t n = 0;
  int64_t k = 0;
  Buffer data;
  // Of kI8, [n]: what a row's integers are multiplied by, and their sum.
  std::vector<float> scales;
  std::vector<int32_t> sums;
};

// Packs the rows of `parts`, one below the other, as one matrix: each is [n_i, k], of dtype F32,
// BF16 or F16, and is converted to `dtype`. For kI8 k must be at most kMaxInt8Depth.
PackedMatrix Pack(CpuContext& context, const std::vector<TensorView>& parts, DType dtype);

// A sum of so many products of bytes still fits 32 bits.
inline constexpr int64_t kMaxInt8Depth = 65'536;

// y [rows, n] (fp32) = x [rows, k] · Wᵀ + bias [n] (null: none). x has W's dtype; for a W of kI8 it
// is F32 or BF16.
void Gemm(CpuContext& context, const ConstMatrix& x, const PackedMatrix& w, const float* bias,
          MatrixView<float> y);

// Rows of x and y that have a W of their own: at least one.
struct GemmPart {
  int64_t first_row = 0;
  int64_t num_rows = 1;
  const PackedMatrix* w = nullptr;
};

// The same, without a bias, for each of several parts of x at once, which follow one another from
// its first row to the last. Their matrices have the same shape and dtype.
void GemmParts(CpuContext& context, const ConstMatrix& x, std::span<const GemmPart> parts,
               MatrixView<float> y);

// The oracle: the same in plain double arithmetic, from the unpacked weights.
void GemmRef(const ConstMatrix& x, const TensorView& w, const float* bias, MatrixView<double> y);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_H_
