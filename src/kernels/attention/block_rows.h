// Where consecutive tokens of a sequence lie in its pages. Included by the per-instruction-set code
// of attention only (see cpu/simd.h).

#ifndef ARIL_KERNELS_ATTENTION_BLOCK_ROWS_H_
#define ARIL_KERNELS_ATTENTION_BLOCK_ROWS_H_

#include "kernels/attention/attention_tile.h"
#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

// rows[i] + t.key_offset is token start + i's row of keys, rows[i] + t.value_offset that of values.
ARIL_INLINE void FindRows(const AttentionTile& t, int64_t start, int64_t tokens,
                          int64_t element_bytes, const std::byte** rows) {
  const int64_t row_bytes = t.head_dim * element_bytes;
  int64_t page = start / t.page_tokens, slot = start % t.page_tokens;
  for (int64_t i = 0; i < tokens; ++i) {
    rows[i] = t.pages[page] + slot * row_bytes;
    if (++slot < t.page_tokens) continue;
    slot = 0;
    ++page;
  }
}

}  // namespace
}  // namespace aril::kernels::ARIL_ISA

#endif  // ARIL_KERNELS_ATTENTION_BLOCK_ROWS_H_
