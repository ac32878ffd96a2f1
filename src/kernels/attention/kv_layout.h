// How K and V lie in a page of the pool: [layers, 2, kv_heads, page_tokens, head_dim]. Layers with
// linear attention have none.

#ifndef ARIL_KERNELS_ATTENTION_KV_LAYOUT_H_
#define ARIL_KERNELS_ATTENTION_KV_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "base/sequence_pages.h"
#include "kernels/gated_delta/delta_shape.h"
#include "tensor/dtype.h"

namespace aril::kernels {

struct KvLayout {
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;
  int64_t page_tokens = 0;
  int64_t head_dim = 0;
  DType dtype = DType::kF32;  // kF32 or kBF16; kF16 on a GPU
  // What a sequence has beside K and V, in pages of its own; of other layers.
  StateLayout state = {};

  int64_t row_bytes() const { return head_dim * static_cast<int64_t>(SizeOf(dtype)); }
  int64_t block_bytes() const { return page_tokens * row_bytes(); }
  int64_t page_bytes() const { return num_layers * 2 * num_kv_heads * block_bytes(); }

  SequencePages pages() const { return {page_tokens, state.num_pages()}; }

  // Offset in a page of the [page_tokens, head_dim] block of K or V.
  int64_t KeyOffset(int64_t layer, int64_t kv_head) const {
    return (layer * 2 * num_kv_heads + kv_head) * block_bytes();
  }
  int64_t ValueOffset(int64_t layer, int64_t kv_head) const {
    return ((layer * 2 + 1) * num_kv_heads + kv_head) * block_bytes();
  }
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ATTENTION_KV_LAYOUT_H_
