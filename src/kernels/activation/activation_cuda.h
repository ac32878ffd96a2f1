// Glu, Softcap and GateHeads (activation.h) on a device.

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

// GateHeads (activation.h).
struct GateHeadsArgs {
  const float* gated = nullptr;  // [rows, heads · 2 head_dim], of each head its query and its gate
  int64_t gated_stride = 0;
  int32_t rows = 0;
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  std::byte* values = nullptr;  // [rows, heads · head_dim] in the dtype
  int64_t values_stride = 0;
};

}  // namespace aril::kernels

// They return a CUDA error, or 0. The dtype, kF32, kBF16 or kF16, is that of out, or of values.
#define ARIL_DECLARE_ACTIVATION_CUDA(target)                            \
  namespace aril::kernels::target {                                     \
  int Glu(const CudaContext&, DType dtype, const GluArgs&);             \
  int Softcap(const CudaContext&, const SoftcapArgs&);                  \
  int GateHeads(const CudaContext&, DType dtype, const GateHeadsArgs&); \
  }

ARIL_DECLARE_ACTIVATION_CUDA(cuda)
ARIL_DECLARE_ACTIVATION_CUDA(emulated)

#endif  // ARIL_KERNELS_ACTIVATION_ACTIVATION_CUDA_H_
