// RopeAppend (rope.h) on a device.

#ifndef ARIL_KERNELS_ROPE_ROPE_CUDA_H_
#define ARIL_KERNELS_ROPE_ROPE_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/attention/kv_cuda.h"
#include "kernels/cuda/context.h"
#include "tensor/dtype.h"

namespace aril::kernels {

// Strides in elements. head_dim is even, at most 256.
struct RopeAppendArgs {
  const float* qkv = nullptr;  // [rows, (num_heads + 2 kv_heads) · head_dim], or as rope.h says
  int64_t qkv_stride = 0;
  const KvRow* sequence_rows = nullptr;  // [rows]
  const float* cos = nullptr;            // [positions, num_pairs], of RopeTable
  const float* sin = nullptr;
  const float* q_norm = nullptr;  // [head_dim] or null
  const float* k_norm = nullptr;
  float norm_eps = 0;
  int32_t rows = 0;
  int32_t num_heads = 0;
  bool gated_queries = false;  // RopeCall
  int32_t num_pairs = 0;       // that are rotated, at most head_dim / 2
  KvLayer layer;
  std::byte* q = nullptr;  // [rows, num_heads · head_dim] in the dtype
  int64_t q_stride = 0;
};

}  // namespace aril::kernels

// Returns a CUDA error, or 0. The dtype, kF32, kBF16 or kF16, is q's and the cache's.
#define ARIL_DECLARE_ROPE_CUDA(target)                                    \
  namespace aril::kernels::target {                                       \
  int RopeAppend(const CudaContext&, DType dtype, const RopeAppendArgs&); \
  }

ARIL_DECLARE_ROPE_CUDA(cuda)
ARIL_DECLARE_ROPE_CUDA(emulated)

#endif  // ARIL_KERNELS_ROPE_ROPE_CUDA_H_
