// How the weights of a matrix are kept for products.

#ifndef ARIL_KERNELS_GEMM_WEIGHT_FORMAT_H_
#define ARIL_KERNELS_GEMM_WEIGHT_FORMAT_H_

#include <cstdint>
#include <ostream>
#include <string_view>

#include "tensor/dtype.h"

namespace aril::kernels {

enum class WeightFormat {
  kF32,
  kBF16,
  kInt8,    // bytes, with a factor for each row
  kInt4,    // four bits, with a factor and a zero point for each kInt4GroupSize of a row
  kFloat8,  // F8E4M3, with a factor for each row, or for each kFloat8GroupSize of it
  // Four bits that stand for numbers of a codebook, with a factor for each so many of a row:
  kCodebook4,      // kCodebook4GroupSize (NF4)
  kCodebook4By32,  // kCodebook4SmallGroupSize (MXFP4)
};

// "f32", "bf16", "int8", "int4", "fp8", "codebook4", "codebook4-by-32".
std::string_view Name(WeightFormat format);
std::ostream& operator<<(std::ostream& out, WeightFormat format);

// That of F32 or BF16 as it is.
WeightFormat FormatOf(DType dtype);

// Of a large matrix: what lies beside each row is not counted.
double BytesPerWeight(WeightFormat format);

// Of codes, in either size of groups.
bool IsCodebook4(WeightFormat format);
// Inputs that share a factor; of codes only.
int64_t Codebook4GroupSize(WeightFormat format);

// Not of numbers as they are.
bool IsQuantized(WeightFormat format);

// Of bytes or four bits: on the CPU rows of x are rounded to bytes when they are multiplied, and
// may be F32 or BF16, as beside FP8 and codes; else x has the type of W.
bool RoundsActivations(WeightFormat format);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_WEIGHT_FORMAT_H_
