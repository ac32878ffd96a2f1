// Dense matrix product with pre-packed weights: y = x · Wᵀ (+ bias).
//
// The sum over K is taken in order with one accumulator per output, in fp32 or of integers, so that
// a row's result is bitwise the same whatever rows share the call, however many threads run it.
//
// Packed layout: ceil(N / block_cols) blocks of columns; missing columns and what K lacks of a
// multiple are zero. block_cols, and how a block lies in itself, depend on the instruction set and
// the format (GemmKernel::Layout).
//
// Weights of 8 bits: W[n][k] = scale[n] · q[n][k], |q| ≤ 127, rounded to nearest when packed; or as
// a checkpoint has them, then q may be −128.
// Each row of x is rounded in the same way when it is multiplied, x[r][k] = s[r] · p[r][k]; the
// products p · q are added exactly, as integers, so that all instruction sets give the same bits.
//
// Weights of 4 bits: W[n][k] = scale[n] · f[n][g] · (q[n][k] − z[n][g]) with 0 ≤ q < 16, where g is
// k / kInt4GroupSize (int4_weights.h). Rows of x are rounded to bytes with a factor for each g as
// well. Products are added exactly within a group, groups in order in fp32. If neighbours are no
// group in a checkpoint, K is in another order, and so is x before it is rounded.
//
// Weights of FP8: W[n][k] = scale[n][g] · q[n][k], q an F8E4M3 (tensor/dtype.h), where g is
// k / kFloat8GroupSize. x is not rounded, and neither is q. Products are added within a group, and
// groups in order, in fp32.
//
// Weights of codes of four bits: W[n][k] = scale[n][g] · codebook[q[n][k]], where g is k /
// Codebook4GroupSize; likewise, but that an instruction set with products of BF16 has the codebook
// rounded to it beside an x in BF16.

#ifndef ARIL_KERNELS_GEMM_GEMM_H_
#define ARIL_KERNELS_GEMM_GEMM_H_

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/gemm/weight_format.h"
#include "kernels/matrix.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"
#include "tensor/weight_view.h"

namespace aril::kernels {

// W of shape [n, k], packed for one instruction set. Immutable; move-only.
struct PackedMatrix {
  Isa isa = Isa::kPortable;
  WeightFormat format = WeightFormat::kF32;
  int64_t n = 0;
  int64_t k = 0;
  Buffer data;
  // What a row's sums are multiplied by: of kInt8 and kInt4, [n]; of kFloat8, [groups, n], with
  // zeros up to whole blocks, where one group is all of K if no row has several scales.
  std::vector<float> scales;
  bool has_group_scales = false;
  std::vector<int32_t> sums;  // of kInt8, [n]: those of a row's integers
  // Of codes, whose scales lie in `data`: in floats, and rounded to BF16, twice.
  Codebook4 codebook = {};
  std::array<uint16_t, 32> codebook_bf16 = {};
  // Of kInt4, [k]: which column of x each of `data` is for; empty: its own.
  std::vector<int32_t> order;
};

// Whether all of `parts` have four bits and the same groups of inputs: then they can be one matrix
// of four bits, exactly.
bool AreInt4(const std::vector<WeightView>& parts);
// Whether all of `parts` are bytes, of so many inputs that they can be one matrix of kInt8.
bool AreInt8(const std::vector<WeightView>& parts);

// Whether all of `parts` are floats of eight bits whose scales are of groups that kernels have.
bool AreFloat8(const std::vector<WeightView>& parts);

// Whether all of `parts` are codes of one codebook, and each group of that format of codes has one
// scale.
bool AreCodebook4(const std::vector<WeightView>& parts, WeightFormat format);

// Packs the rows of `parts`, one below the other, as one matrix: each is [n_i, k], of dtype F32,
// BF16 or F16, of bytes, of FP8, of codes, or of four bits (which HasExactFactors), finite, and is
// converted to `format`. In kInt4 those of four bits stay what they are; if in one neighbours are
// no group, all must be AreInt4. In kInt8 bytes stay what they are; k must be at most
// kMaxInt8Depth. In kFloat8 all must be AreFloat8, and stay what they are; in formats of
// codes, AreCodebook4.
PackedMatrix Pack(CpuContext& context, const std::vector<WeightView>& parts, WeightFormat format);

// A sum of so many products of bytes still fits 32 bits.
inline constexpr int64_t kMaxInt8Depth = 65'536;

// y [rows, n] (fp32) = x [rows, k] · Wᵀ + bias [n] (null: none). x has W's type; for a W that
// rounds activations it is F32 or BF16.
void Gemm(CpuContext& context, const ConstMatrix& x, const PackedMatrix& w, const float* bias,
          MatrixView<float> y);

// Rows of x and y that have a W of their own: at least one.
struct GemmPart {
  int64_t first_row = 0;
  int64_t num_rows = 1;
  const PackedMatrix* w = nullptr;
  const float* bias = nullptr;  // [n]; null: none
};

// The same for each of several parts of x at once, which follow one another from
// its first row to the last. Their matrices have the same shape and format.
void GemmParts(CpuContext& context, const ConstMatrix& x, std::span<const GemmPart> parts,
               MatrixView<float> y);

// The oracle: the same in plain double arithmetic, from the unpacked weights.
void GemmRef(const ConstMatrix& x, const TensorView& w, const float* bias, MatrixView<double> y);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_H_
