// Products of groups of rows with a matrix each, on a device: the experts of a mixture. How many
// rows a group has is known on the device only.
//
// Arithmetic. In BF16 and F16 the tensor cores add 16 products at a time, along k, to one sum in
// fp32; in F32 one product after the other is added; the bias comes last. So a row of the result is
// a function of its row of x and of the matrix only.

#ifndef ARIL_KERNELS_GEMM_GROUPED_GEMM_CUDA_H_
#define ARIL_KERNELS_GEMM_GROUPED_GEMM_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/cuda/context.h"
#include "tensor/dtype.h"

namespace aril::kernels {

inline constexpr int kGroupedGemmMaxGroups = 1024;

// y = x · Wᵀ + bias for each group's rows with its W and bias. Strides in elements. What lies
// behind the last group's rows of y stays.
struct GroupedGemmArgs {
  const int32_t* first_rows = nullptr;  // [groups + 1]: of each group's rows of y, ascending from 0
  const int32_t* x_rows = nullptr;      // per row of y, its row of x; null: the one of its number
  const std::byte* x = nullptr;         // in the dtype
  int64_t x_stride = 0;
  const std::byte* w = nullptr;  // [groups, n, k] in the dtype
  const float* bias = nullptr;   // [groups, n]; null: none
  int32_t groups = 0;            // at most kGroupedGemmMaxGroups
  int32_t n = 0;
  int32_t k = 0;
  float* y = nullptr;  // [rows, n]
  int64_t y_stride = 0;
};

}  // namespace aril::kernels

// May be captured in a graph: it reads who has which rows when it runs. Returns a CUDA error, or 0.
// The dtype is kF32, kBF16 or kF16.
#define ARIL_DECLARE_GROUPED_GEMM_CUDA(target)                              \
  namespace aril::kernels::target {                                         \
  int GroupedGemm(const CudaContext&, DType dtype, const GroupedGemmArgs&); \
  }

ARIL_DECLARE_GROUPED_GEMM_CUDA(cuda)
ARIL_DECLARE_GROUPED_GEMM_CUDA(emulated)

#endif  // ARIL_KERNELS_GEMM_GROUPED_GEMM_CUDA_H_
