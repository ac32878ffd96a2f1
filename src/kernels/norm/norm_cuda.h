// AddRmsNorm (norm.h) on a device. Sums of squares are functions of the size only: each thread's
// elements in order, a tree over lanes, warps in order.

#ifndef ARIL_KERNELS_NORM_NORM_CUDA_H_
#define ARIL_KERNELS_NORM_NORM_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/cuda/context.h"
#include "tensor/dtype.h"

namespace aril::kernels {

// Strides in elements.
struct AddRmsNormArgs {
  float* residual = nullptr;  // [rows, size]
  int64_t residual_stride = 0;
  const float* add = nullptr;  // [rows, size], or null
  int64_t add_stride = 0;
  const float* add_weight = nullptr;  // [size], by which `add` is normed, or null
  const float* weight = nullptr;      // [size]
  float eps = 0;
  int32_t rows = 0;
  int32_t size = 0;
  std::byte* out = nullptr;  // [rows, size] in the dtype
  int64_t out_stride = 0;
};

}  // namespace aril::kernels

// Returns a CUDA error, or 0. The dtype, kF32, kBF16 or kF16, is out's.
#define ARIL_DECLARE_NORM_CUDA(target)                                    \
  namespace aril::kernels::target {                                       \
  int AddRmsNorm(const CudaContext&, DType dtype, const AddRmsNormArgs&); \
  }

ARIL_DECLARE_NORM_CUDA(cuda)
ARIL_DECLARE_NORM_CUDA(emulated)

#endif  // ARIL_KERNELS_NORM_NORM_CUDA_H_
