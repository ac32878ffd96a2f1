// Products with matrices of four bits, of bytes, of FP8 or of codes on a device: of all rows with
// one matrix, or of groups of rows with one each, the experts of a mixture.
//
// Arithmetic. x is not rounded, and neither is what a level stands for: in BF16 and F16 the tensor
// cores multiply x with levels less their zero point, which are small integers, or with levels of
// FP8, which both types hold; only a codebook's numbers are rounded to the type. They add 16
// products at a time, along k, to one sum in fp32; in F32 one product after the other is added.
// Except of bytes, such a sum is of a group, which is multiplied by the group's factor and added to
// a sum of groups in fp32. k is eight slices; a slice's end ends a group. Slices are added in their
// order, then come the output's scale and the bias. So a row of the result is a function of its row
// of x and of the matrix only.

#ifndef ARIL_KERNELS_GEMM_QUANTIZED_GEMM_CUDA_H_
#define ARIL_KERNELS_GEMM_QUANTIZED_GEMM_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/cuda/context.h"
#include "kernels/gemm/quantized_layout.h"
#include "tensor/dtype.h"

namespace aril::kernels {

inline constexpr int kQuantizedGemmMaxGroups = 1024;

// y = x · Wᵀ + bias for each group's rows with its W. Strides in elements. What lies behind the
// last group's rows of y stays.
struct QuantizedGemmArgs {
  int32_t rows = 0;  // of a group, at most; of the one group, if first_rows is null, exactly
  const int32_t* first_rows = nullptr;  // as of GroupedGemmArgs; null: one group, of all rows
  const int32_t* x_rows = nullptr;      // likewise; null: the row of the same number
  const std::byte* x = nullptr;         // in the dtype
  int64_t x_stride = 0;
  // Which column of x each input of W is for, [groups, k]; null: that of its number.
  const int32_t* inputs = nullptr;
  const std::byte* w = nullptr;  // [groups] of `layout`, one behind the other, aligned to 16 bytes
  QuantizedLayout layout;
  int32_t groups = 1;           // at most kQuantizedGemmMaxGroups
  const float* bias = nullptr;  // [groups, n]; null: none
  float* y = nullptr;           // [rows, n]
  int64_t y_stride = 0;
};

}  // namespace aril::kernels

// May be captured in a graph: it reads who has which rows when it runs. Returns a CUDA error, or 0.
// The dtype is kF32, kBF16 or kF16.
#define ARIL_DECLARE_QUANTIZED_GEMM_CUDA(target)                                \
  namespace aril::kernels::target {                                             \
  int QuantizedGemm(const CudaContext&, DType dtype, const QuantizedGemmArgs&); \
  }

ARIL_DECLARE_QUANTIZED_GEMM_CUDA(cuda)
ARIL_DECLARE_QUANTIZED_GEMM_CUDA(emulated)

#endif  // ARIL_KERNELS_GEMM_QUANTIZED_GEMM_CUDA_H_
