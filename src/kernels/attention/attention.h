// Causal attention of the batch's rows over the paged KV cache: prefill chunks and decodes alike,
// grouped query heads, optional sliding window.
//
// K and V of all rows of the call must have been appended before (kernels/rope): attention reads
// only the pool, so that prefill, chunked prefill, decode and recomputation share one arithmetic.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention/kv_layout.h"
#include "kernels/cpu/context.h"
#include "kernels/matrix.h"

namespace aril::kernels {

// Consecutive rows of the batch that continue one sequence.
struct AttentionSequence {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int64_t first_position = 0;  // of its first row
  std::span<std::byte* const>
      pages;  // page i holds positions [i · page_tokens, (i + 1) · page_tokens)
  // Those of its state (kernels/gated_delta), where there is one: of all positions before the first
  // row's; or, if the row repeats one that has been run, of that one as well.
  std::span<std::byte* const> state = {};
  bool repeats = false;
};

struct AttentionCall {
  int64_t num_heads = 0;
  int64_t layer = 0;
  std::optional<int64_t> sliding_window;  // keys visible to a query, itself included
  float scale = 0;                        // of the scores; 1 / sqrt(head_dim) in most models
  float softcap = 0;                      // of the scaled scores; 0: none
  // [num_heads]: a score of each head's that has no key and no value (Xiao et al. 2023; gpt-oss);
  // null: none.
  const float* sinks = nullptr;
};

// out [rows, num_heads · head_dim] = softmax(cap(scale · q · Kᵀ)) · V for the rows of `sequences`;
// q has the same shape and dtype. cap(s) is softcap · tanh(s / softcap) (Gemma 2), or s without
// one. A sink is one of the scores that the softmax is over, and takes its share of the weights
// along. num_heads must be a multiple of the layout's num_kv_heads. Rows of no sequence are not
// written.
void Attention(CpuContext& context, const ConstMatrix& q, const AttentionCall& call,
               const KvLayout& layout, std::span<const AttentionSequence> sequences,
               const Matrix& out);

// The oracle, in double arithmetic with a plain softmax.
void AttentionRef(const ConstMatrix& q, const AttentionCall& call, const KvLayout& layout,
                  std::span<const AttentionSequence> sequences, MatrixView<double> out);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_H_
