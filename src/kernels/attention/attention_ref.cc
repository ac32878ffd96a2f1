#include <algorithm>
#include <cmath>

#include "kernels/attention/attention.h"

namespace aril::kernels {
namespace {

double Element(const KvLayout& layout, const AttentionSequence& sequence, int64_t block_offset,
               int64_t token, int64_t d) {
  const std::byte* row = sequence.pages[static_cast<size_t>(token / layout.page_tokens)] +
                         block_offset + token % layout.page_tokens * layout.row_bytes();
  return layout.dtype == DType::kF32 ? reinterpret_cast<const float*>(row)[d]
                                     : ToFloat(reinterpret_cast<const BF16*>(row)[d]);
}

void OneHead(const ConstMatrix& q, const AttentionCall& call, const KvLayout& layout,
             const AttentionSequence& sequence, int64_t r, int64_t head, MatrixView<double> out) {
  const int64_t row = sequence.first_row + r;
  const int64_t position = sequence.first_position + r;
  const int64_t kv_head = head / (call.num_heads / layout.num_kv_heads);
  const int64_t first =
      std::max<int64_t>(0, position + 1 - call.sliding_window.value_or(position + 1));
  std::vector<double> p;
  for (int64_t token = first; token <= position; ++token) {
    double score = 0;
    for (int64_t d = 0; d < layout.head_dim; ++d) {
      score += static_cast<double>(q.At(row, head * layout.head_dim + d)) *
               Element(layout, sequence, layout.KeyOffset(call.layer, kv_head), token, d);
    }
    score *= static_cast<double>(call.scale);
    const auto cap = static_cast<double>(call.softcap);
    p.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
  }
  double max = *std::max_element(p.begin(), p.end());
  double sum = 0;
  if (call.sinks != nullptr) {
    const auto sink = static_cast<double>(call.sinks[head]);
    max = std::max(max, sink);
    sum = std::exp(sink - max);
  }
  for (double& score : p) sum += score = std::exp(score - max);
  for (int64_t d = 0; d < layout.head_dim; ++d) {
    double value = 0;
    for (int64_t token = first; token <= position; ++token) {
      value += p[static_cast<size_t>(token - first)] *
               Element(layout, sequence, layout.ValueOffset(call.layer, kv_head), token, d);
    }
    out.row(row)[head * layout.head_dim + d] = value / sum;
  }
}

}  // namespace

void AttentionRef(const ConstMatrix& q, const AttentionCall& call, const KvLayout& layout,
                  std::span<const AttentionSequence> sequences, MatrixView<double> out) {
  for (const AttentionSequence& sequence : sequences) {
    for (int64_t r = 0; r < sequence.num_rows; ++r) {
      for (int64_t head = 0; head < call.num_heads; ++head) {
        OneHead(q, call, layout, sequence, r, head, out);
      }
    }
  }
}

}  // namespace aril::kernels
