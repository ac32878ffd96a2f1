// Glu and Softcap (activation.h) on a device.

#ifndef ARIL_KERNELS_ACTIVATION_ACTIVATION_CUDA_H_
#define ARIL_KERNELS_ACTIVATION_ACTIVATION_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/activation/activation_tile.h"
#include "kernels/cuda/context.h"
#include "tensor/dtype.h"

namespace aril::kernels {

// Strides in elements.
struct GluArgs {
  Activation f = Activation::kSilu;
  const float* gate_up = nullptr;  // [rows, 2 size]
  int64_t gate_up_stride = 0;
  int32_t rows = 0;
  int32_t size = 0;
  std::byte* out = nullptr;  // [rows, size] in the dtype
  int64_t out_stride = 0;
};

struct SoftcapArgs {
  float cap = 0;
  float* values = nullptr;  // [rows, size]
  int64_t stride = 0;
  int32_t rows = 0;
  int32_t size = 0;
};

}  // namespace aril::kernels

// They return a CUDA error, or 0. The dtype, kF32, kBF16 or kF16, is out's.
#define ARIL_DECLARE_ACTIVATION_CUDA(target)                \
  namespace aril::kernels::target {                         \
  int Glu(const CudaContext&, DType dtype, const GluArgs&); \
  int Softcap(const CudaContext&, const SoftcapArgs&);      \
  }

ARIL_DECLARE_ACTIVATION_CUDA(cuda)
ARIL_DECLARE_ACTIVATION_CUDA(emulated)

#endif  // ARIL_KERNELS_ACTIVATION_ACTIVATION_CUDA_H_
