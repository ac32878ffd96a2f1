// What the per-instruction-set attention code is called with. Plain structs only (see cpu/simd.h).

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_TILE_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_TILE_H_

#include <stdint.h>
#include <cstddef>

namespace aril::kernels {

// Tokens whose scores are computed and folded into the running softmax together, by vectors; blocks
// begin at multiples of it, so that a query meets the same blocks however its sequence was chunked.
inline constexpr int64_t kAttentionBlockTokens = 16;
// Queries that share one pass over K and V: one after the other, and with a lane for each.
inline constexpr int64_t kAttentionVectorQueries = 8;
inline constexpr int64_t kAttentionLaneQueries = 64;
// Of one sequence, kv heads with few queries are computed together: theirs are neighbours in a
// page, which is read as one stream.
inline constexpr int64_t kAttentionHeads = 4;
inline constexpr int64_t kAttentionHeadQueries = 16;

// Queries [first_query, first_query + num_queries) of one sequence and each of some kv heads,
// numbered row · group + head of the group.
struct AttentionTile {
  const void* q;       // row r, head h of a group: q + r * row_stride + h * head_dim elements
  void* out;           // the same layout
  int64_t row_stride;  // elements
  int64_t group;       // query heads per kv head
  int64_t first_query;
  int64_t num_queries;     // ≤ AttentionKernel::tile_queries
  int64_t num_kv_heads;    // consecutive; more than one (≤ kAttentionHeads) with few queries only
  int64_t first_position;  // of row 0
  int64_t window;          // keys visible to a query, itself included
  float scale;
  float softcap;       // 0: none
  const float* sinks;  // [num_kv_heads · group], or null
  int64_t head_dim;    // ≤ kMaxHeadDim
  std::byte* const* pages;
  int64_t page_tokens;
  int64_t key_offset;  // bytes into a page, of the first kv head
  int64_t value_offset;
};

// One of the tile's kv heads alone; `element_bytes` of q.
inline AttentionTile HeadOf(const AttentionTile& tile, int64_t head, int64_t element_bytes) {
  AttentionTile result = tile;
  const int64_t offset = head * tile.group * tile.head_dim * element_bytes;
  const int64_t block_bytes = tile.page_tokens * tile.head_dim * element_bytes;
  result.q = static_cast<const std::byte*>(tile.q) + offset;
  result.out = static_cast<std::byte*>(tile.out) + offset;
  result.num_kv_heads = 1;
  if (tile.sinks != nullptr) result.sinks += head * tile.group;
  result.key_offset += head * block_bytes;
  result.value_offset += head * block_bytes;
  return result;
}

using AttentionTileFunction = void (*)(const AttentionTile&);

struct AttentionKernel {
  AttentionTileFunction run;
  int64_t tile_queries;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_TILE_H_
