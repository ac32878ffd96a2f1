// KV caches of random content for the tests of attention, the same for every backend.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_TEST_SUPPORT_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/test_support.h"

namespace aril::kernels {

// A pool of random K and V with its pages dealt out at random; everything beyond the last token is
// NaN, as a poisoned page would be.
class TestCache {
 public:
  TestCache(const KvLayout& layout, const std::vector<int64_t>& lengths, std::mt19937_64& random)
      : layout_(layout) {
    size_t num_pages = 0;
    for (const int64_t length : lengths) num_pages += PagesFor(length);
    pool_ = Buffer(num_pages * static_cast<size_t>(layout.page_bytes()));
    Fill(num_pages, random);
    std::vector<size_t> order(num_pages);
    std::iota(order.begin(), order.end(), 0u);
    std::shuffle(order.begin(), order.end(), random);
    size_t next = 0;
    for (const int64_t length : lengths) {
      auto& pages = tables_.emplace_back();
      for (size_t i = 0; i < PagesFor(length); ++i) {
        pages.push_back(pool_.data() + order[next++] * static_cast<size_t>(layout.page_bytes()));
      }
      Poison(pages.back(), length);
    }
  }

  const Buffer& pool() const { return pool_; }
  const std::vector<std::byte*>& table(size_t sequence) const { return tables_[sequence]; }

  // K and V of a token, in all heads of layer 0.
  void SetToken(size_t sequence, int64_t token, float value) {
    std::byte* page = tables_[sequence][static_cast<size_t>(token / layout_.page_tokens)];
    const int64_t first = token % layout_.page_tokens * layout_.head_dim;
    for (int64_t block = 0; block < 2 * layout_.num_kv_heads; ++block) {
      for (int64_t i = first; i < first + layout_.head_dim; ++i) {
        SetElement(page + block * layout_.block_bytes(), i, value);
      }
    }
  }

 private:
  size_t PagesFor(int64_t tokens) const {
    return static_cast<size_t>((tokens + layout_.page_tokens - 1) / layout_.page_tokens);
  }

  void SetElement(std::byte* data, int64_t index, float value) {
    if (layout_.dtype == DType::kF32) {
      reinterpret_cast<float*>(data)[index] = value;
    } else {
      reinterpret_cast<BF16*>(data)[index] = ToBF16(value);
    }
  }

  void Fill(size_t num_pages, std::mt19937_64& random) {
    std::normal_distribution<float> normal;
    const auto elements = static_cast<int64_t>(num_pages) * layout_.page_bytes() /
                          static_cast<int64_t>(SizeOf(layout_.dtype));
    for (int64_t i = 0; i < elements; ++i) SetElement(pool_.data(), i, normal(random));
  }

  void Poison(std::byte* page, int64_t length) {
    const int64_t first = (length - 1) % layout_.page_tokens + 1;
    const int64_t blocks = layout_.num_layers * 2 * layout_.num_kv_heads;
    for (int64_t block = 0; block < blocks; ++block) {
      for (int64_t i = first * layout_.head_dim; i < layout_.page_tokens * layout_.head_dim; ++i) {
        SetElement(page + block * layout_.block_bytes(), i, NAN);
      }
    }
  }

  KvLayout layout_;
  Buffer pool_;
  std::vector<std::vector<std::byte*>> tables_;
};

struct AttentionCase {
  int64_t heads, kv_heads, head_dim, page_tokens;
  std::optional<int64_t> window;
  float softcap = 0;
  double query_scalar = 0;  // Gemma's query_pre_attn_scalar; 0: head_dim
  bool has_sinks = false;

  // As there are heads, or none: far below all scores, among them, and far above.
  std::vector<float> Sinks() const {
    if (!has_sinks) return {};
    std::vector<float> sinks(static_cast<size_t>(heads));
    constexpr float kScores[] = {-200, 0.5f, 3, 120, -3};
    for (size_t i = 0; i < sinks.size(); ++i) sinks[i] = kScores[i % std::size(kScores)];
    return sinks;
  }
  float scale() const {
    return static_cast<float>(
        1 / std::sqrt(query_scalar > 0 ? query_scalar : static_cast<double>(head_dim)));
  }
  // The sinks must outlive it.
  AttentionCall Call(const std::vector<float>& sinks, int64_t layer = 0) const {
    return {.num_heads = heads,
            .layer = layer,
            .sliding_window = window,
            .scale = scale(),
            .softcap = softcap,
            .sinks = sinks.empty() ? nullptr : sinks.data()};
  }
};

inline const AttentionCase kAttentionCases[] = {
    {4, 4, 16, 16, {}},
    {8, 4, 8, 4, {}},
    {14, 2, 64, 16, {}},
    {32, 4, 64, 8, {}},
    {6, 1, 80, 1, {}},
    {8, 2, 128, 32, {}},
    {4, 2, 32, 16, 7},
    {4, 1, 48, 2, 33},
    {16, 1, 256, 16, {}},
    // As in Gemma 2. Caps so low that most scores meet them, and one that few do.
    {8, 4, 256, 16, 20, 2, 144},
    {4, 2, 128, 8, {}, 50},
    {6, 3, 48, 16, {}, 1},
    // As in gpt-oss.
    {64, 8, 64, 16, 20, 0, 0, true},
    {6, 2, 64, 16, {}, 0, 0, true},
    {8, 2, 128, 8, {}, 50, 0, true},
};

// Sequences of these lengths, whose last `new_rows` tokens are the batch's rows, in order.
inline std::vector<AttentionSequence> MakeSequences(const TestCache& cache,
                                                    const std::vector<int64_t>& lengths,
                                                    const std::vector<int32_t>& new_rows) {
  std::vector<AttentionSequence> sequences;
  int32_t row = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    sequences.push_back({row, new_rows[i], lengths[i] - new_rows[i], cache.table(i)});
    row += new_rows[i];
  }
  return sequences;
}

// Scores of unit normals have size |s| ≤ ~6; a dot product of head_dim terms errs by head_dim · eps
// · sqrt(head_dim), which the exponential turns into a relative error of p; then a weighted mean of
// values ≤ ~5, rounded to a dtype with this relative error. In BF16 p may be rounded, too.
inline double AttentionErrorBound(const AttentionCase& c, double of_dtype) {
  const double dim = static_cast<double>(c.head_dim);
  return 5 * (2 * (dim * std::sqrt(dim) + 100 + 8) * kFloatEps + of_dtype);
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_TEST_SUPPORT_H_
