// Attention (attention.h) on a device: every row by itself, whether it belongs to a prefill or a
// decode, over what has been appended to the pool.
//
// Arithmetic. The keys of a row are cut into splits of 256 at absolute positions. Each split has
// its own softmax: scores as a fixed tree over the head's elements, the sum of weights as a tree
// over positions, values token after token. Splits are merged in order. So a row's bits are a
// function of the row and its keys only: a prefill in chunks, a decode and a recomputation give the
// same, and two schedules, one block for each split or one for all of them, may be chosen freely.
//
// Prefills read K and V once for each row, mostly from the L2: right, and slow for long prompts. A
// kernel that shares these loads between rows must keep to the arithmetic above.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_CUDA_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/attention/kv_cuda.h"
#include "kernels/cuda/context.h"
#include "tensor/dtype.h"

namespace aril::kernels {

inline constexpr int kAttentionSplit = 256;
inline constexpr int kAttentionMaxHeadDim = 256;

// Strides in elements. head_dim is at most kAttentionMaxHeadDim, num_heads a multiple of the
// layer's num_kv_heads.
struct AttentionArgs {
  const std::byte* q = nullptr;  // [rows, num_heads · head_dim] in the dtype
  int64_t q_stride = 0;
  const KvRow* sequence_rows = nullptr;  // [rows]
  KvLayer layer;
  int32_t rows = 0;
  int32_t num_heads = 0;
  int64_t window = INT64_MAX;  // keys visible to a query, itself included
  float scale = 0;             // of the scores: 1 / sqrt(head_dim)
  std::byte* out = nullptr;    // as q; rows of no sequence are not written
  int64_t out_stride = 0;
  // Null: one block computes all splits of a row. Else memory of AttentionPartialFloats(), and a
  // block computes one split: for few rows with long contexts. Each row has at most max_splits,
  // else the kernels trap; a captured launch has AttentionSplits() of the longest context that is
  // served.
  float* partials = nullptr;
  int32_t max_splits = 0;
};

// Of a context of `num_keys`, a window or not: splits stand at absolute positions.
inline int32_t AttentionSplits(int64_t num_keys) {
  return static_cast<int32_t>((num_keys + kAttentionSplit - 1) / kAttentionSplit);
}

// [rows, num_heads, max_splits, head_dim + 2].
inline int64_t AttentionPartialFloats(const AttentionArgs& args) {
  return static_cast<int64_t>(args.rows) * args.num_heads * args.max_splits *
         (args.layer.head_dim + 2);
}

}  // namespace aril::kernels

// Returns a CUDA error, or 0. The dtype, kF32, kBF16 or kF16, is that of q, out and the cache.
#define ARIL_DECLARE_ATTENTION_CUDA(target)                             \
  namespace aril::kernels::target {                                     \
  int Attention(const CudaContext&, DType dtype, const AttentionArgs&); \
  }

ARIL_DECLARE_ATTENTION_CUDA(cuda)
ARIL_DECLARE_ATTENTION_CUDA(emulated)

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_CUDA_H_
