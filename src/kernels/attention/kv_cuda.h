// The paged KV cache as kernels on a device see it.

#ifndef ARIL_KERNELS_ATTENTION_KV_CUDA_H_
#define ARIL_KERNELS_ATTENTION_KV_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/attention/kv_layout.h"

namespace aril::kernels {

// One row of the batch: where it stands in which sequence. Rows of one sequence share its pages.
struct KvRow {
  std::byte* const* pages = nullptr;  // device addresses, in device memory; null: no sequence's row
  int64_t position = 0;
};

// One layer of a KvLayout.
struct KvLayer {
  int64_t key_offset = 0;    // in a page, of the first head's block
  int64_t value_offset = 0;  // likewise
  int64_t block_bytes = 0;   // from one head to the next
  int32_t page_tokens = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
};

inline KvLayer LayerOf(const KvLayout& layout, int64_t layer) {
  return {layout.KeyOffset(layer, 0),
          layout.ValueOffset(layer, 0),
          layout.block_bytes(),
          static_cast<int32_t>(layout.page_tokens),
          static_cast<int32_t>(layout.num_kv_heads),
          static_cast<int32_t>(layout.head_dim)};
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ATTENTION_KV_CUDA_H_
