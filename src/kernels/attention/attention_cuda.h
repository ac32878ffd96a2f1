// Attention (attention.h) on a device: prefills and decodes in one launch, over what has been
// appended to the pool. attention_plan.h makes its tables.
//
// The heads of one row, or of several of a sequence, that share a K and V are a tile's queries,
// for which K and V are read once. BF16 and F16 are computed by the tensor cores, after
// FlashAttention-2 (Dao, 2023); F32 without them.
//
// Arithmetic. The keys of a query are cut into splits of 256 at absolute positions, and those into
// units of 64. A unit's scores are matrix products; its weights are relative to the largest score
// of the split so far and rounded to the dtype, and it is the rounded ones that are summed, in
// fp32. Its values are a product that
// begins from zero, and are added to those of the split outside of the tensor core, which does not
// round. (F32: fused multiply-adds, and no units.) Splits are merged in order. What a query does
// not see of a unit has the weight zero; what is no number among the values there is left out.
//
// So a row's bits are a function of the row and its keys only: a prefill in chunks, a decode and a
// recomputation give the same, and who is in which tile, and which blocks compute its splits, may
// be chosen freely.

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

// Queries of a tile. A narrow tile's are of one row: its block's warps take a unit each. A wide
// one's are of several: its block's warps take 16 of them each. Wide tiles have head_dims up to
// 128, and not F32.
inline constexpr int kAttentionNarrowQueries = 16;
inline constexpr int kAttentionWideQueries = 64;
inline constexpr int kAttentionF32Queries = 8;  // narrow
inline constexpr int kAttentionMaxWideHeadDim = 128;

// Consecutive queries of one sequence's rows in the batch, for each of the K and V heads. Query i
// of the sequence is head i % group, of those that share K and V, of its row i / group.
struct AttentionDeviceTile {
  std::byte* const* pages = nullptr;  // as KvRow's
  int64_t first_position = 0;         // of the sequence's first row
  int32_t first_row = 0;              // that row, in the batch
  int32_t first_query = 0;
  int32_t num_queries = 0;
  int32_t is_wide = 0;
  int32_t first_split = 0;     // that one of its queries sees
  int32_t first_partial = -1;  // of its results for each split; -1: its one item has them all
};

// What a block computes, for one K and V head: splits [first_split, end_split) of a tile.
struct AttentionItem {
  int32_t tile = 0;
  int32_t first_split = 0;
  int32_t end_split = 0;
};

struct AttentionTables {
  const AttentionDeviceTile* tiles = nullptr;
  const AttentionItem* items = nullptr;
  int32_t num_tiles = 0;
  int32_t num_items = 0;
  int32_t num_partials = 0;  // of queries and splits, for each K and V head
};

// Strides in elements, and even, as head_dim is, which is at most kAttentionMaxHeadDim. num_heads
// is a multiple of the layer's num_kv_heads.
struct AttentionArgs {
  const AttentionTables* tables = nullptr;  // device memory
  // The launches' sizes: the kernels trap on tables with more. Without max_tiles none may be split,
  // without has_wide_tiles none may be wide: there is room for more blocks at a time then.
  int32_t max_items = 0;
  int32_t max_tiles = 0;
  int32_t max_partials = 0;
  bool has_wide_tiles = true;
  float* partials = nullptr;     // [AttentionPartialFloats()]
  const std::byte* q = nullptr;  // [rows, num_heads · head_dim] in the dtype
  int64_t q_stride = 0;
  KvLayer layer;
  int32_t num_heads = 0;
  int64_t window = INT64_MAX;    // keys visible to a query, itself included
  float scale = 0;               // of the scores
  float softcap = 0;             // of the scaled scores; 0: none
  const float* sinks = nullptr;  // as AttentionCall's, there
  std::byte* out = nullptr;      // as q; rows of no tile are not written
  int64_t out_stride = 0;
};

inline int64_t AttentionPartialFloats(const KvLayer& layer, int64_t max_partials) {
  return max_partials * layer.num_kv_heads * (layer.head_dim + 2);
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
