// What packing W and multiplying with it must agree about.

#ifndef ARIL_KERNELS_GEMM_GEMM_LAYOUT_H_
#define ARIL_KERNELS_GEMM_GEMM_LAYOUT_H_

#include <cstdint>

#include "kernels/cpu/context.h"
#include "kernels/gemm/gemm_tile.h"
#include "kernels/gemm/weight_format.h"

namespace aril::kernels {

// `x`: the type of x, F32 or BF16. It says which kernel multiplies with kFloat8 and
// codes, and nothing of how these are packed.
const GemmKernel& KernelFor(const CpuContext& context, WeightFormat format, DType x);

// The words that a row of x has for a kernel, its padding included: the k groups, and for weights
// of four bits what stands between them.
int64_t XWords(int64_t k, WeightFormat format, const GemmKernel& kernel);

// The words of W's block that so many of x's meet.
int64_t BlockWords(const GemmKernel& kernel, int64_t x_words);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_LAYOUT_H_
