#include "kernels/attention/attention.h"

#include <numeric>

#include "gtest/gtest.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 17;

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

struct Case {
  int64_t heads, kv_heads, head_dim, page_tokens;
  std::optional<int64_t> window;
};

const Case kCases[] = {
    {4, 4, 16, 16, {}}, {8, 4, 8, 4, {}},  {14, 2, 64, 16, {}},
    {32, 4, 64, 8, {}}, {6, 1, 80, 1, {}}, {8, 2, 128, 32, {}},
    {4, 2, 32, 16, 7},  {4, 1, 48, 2, 33}, {16, 1, 256, 16, {}},
};

// Lengths of contexts, and how many of their last tokens are rows of the batch.
const std::vector<int64_t> kLengths = {1, 16, 17, 40, 100, 5};
const std::vector<int32_t> kNewRows = {1, 1, 17, 9, 1, 2};

std::vector<AttentionSequence> MakeSequences(const TestCache& cache) {
  std::vector<AttentionSequence> sequences;
  int32_t row = 0;
  for (size_t i = 0; i < kLengths.size(); ++i) {
    sequences.push_back({row, kNewRows[i], kLengths[i] - kNewRows[i], cache.table(i)});
    row += kNewRows[i];
  }
  return sequences;
}

TEST(Attention, MatchesTheReference) {
  std::mt19937_64 random(kSeed);
  const int64_t rows = std::accumulate(kNewRows.begin(), kNewRows.end(), int64_t{0});
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const Case& c : kCases) {
      const KvLayout layout{2, c.kv_heads, c.page_tokens, c.head_dim, dtype};
      const TestCache cache(layout, kLengths, random);
      const auto sequences = MakeSequences(cache);
      const TestMatrix q(dtype, rows, c.heads * c.head_dim, 1.0, random),
          out(dtype, rows, c.heads * c.head_dim, 1.0, random);
      const AttentionCall call{.num_heads = c.heads, .layer = 1, .sliding_window = c.window};
      Attention(context, q.view(), call, layout, sequences, out.view());
      std::vector<double> expected(static_cast<size_t>(rows * q.view().cols));
      const MatrixView<double> expected_view{expected.data(), rows, q.view().cols, q.view().cols};
      AttentionRef(q.view(), call, layout, sequences, expected_view);
      // Scores of unit normals have size |s| ≤ ~6; a dot product of head_dim terms errs by head_dim
      // · eps · sqrt(head_dim), which the exponential turns into a relative error of p; then a
      // weighted mean of values ≤ ~5, rounded to dtype. In BF16 p may be rounded, too.
      const double dim = static_cast<double>(c.head_dim);
      const double relative = 2 * (dim * std::sqrt(dim) + 100 + 8) * kFloatEps +
                              (dtype == DType::kF32 ? kFloatEps : 2 * kBf16Eps);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t d = 0; d < q.view().cols; ++d) {
          ASSERT_NEAR(out.view().At(r, d), expected_view.row(r)[d], 5 * relative)
              << isa << " " << dtype << " heads " << c.heads << "/" << c.kv_heads << " head_dim "
              << c.head_dim << " row " << r << " seed " << kSeed;
        }
      }
    }
  }
}

TEST(Attention, ARowIsBitwiseTheSameAloneAndInAnyChunk) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool one(1), three(3);
    CpuContext alone(one, isa), shared(three, isa);
    for (const Case& c : kCases) {
      const KvLayout layout{1, c.kv_heads, c.page_tokens, c.head_dim, dtype};
      constexpr int64_t kLength = 90;
      const TestCache cache(layout, {kLength}, random);
      const TestMatrix q(dtype, kLength, c.heads * c.head_dim, 1.0, random);
      const TestMatrix together(dtype, kLength, q.view().cols, 1.0, random),
          single(dtype, kLength, q.view().cols, 1.0, random);
      const AttentionCall call{.num_heads = c.heads, .sliding_window = c.window};
      const AttentionSequence whole{0, kLength, 0, cache.table(0)};
      Attention(shared, q.view(), call, layout, {&whole, 1}, together.view());
      for (int32_t r = 0; r < kLength; ++r) {
        const AttentionSequence row{r, 1, r, cache.table(0)};
        Attention(alone, q.view(), call, layout, {&row, 1}, single.view());
        ASSERT_TRUE(BitwiseEqual(single.view().row(r), together.view().row(r),
                                 static_cast<size_t>(q.view().cols) * SizeOf(dtype)))
            << isa << " " << dtype << " row " << r << " head_dim " << c.head_dim;
      }
    }
  }
}

TEST(Attention, ATokenThatIsNotFiniteReachesNoEarlierRow) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kLength = 90, kTainted = 70;
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const Case& c : kCases) {
      const KvLayout layout{1, c.kv_heads, c.page_tokens, c.head_dim, dtype};
      TestCache cache(layout, {kLength}, random);
      const TestMatrix q(dtype, kLength, c.heads * c.head_dim, 1.0, random);
      const TestMatrix before(dtype, kLength, q.view().cols, 1.0, random),
          after(dtype, kLength, q.view().cols, 1.0, random);
      const AttentionCall call{.num_heads = c.heads, .sliding_window = c.window};
      const AttentionSequence whole{0, kLength, 0, cache.table(0)};
      Attention(context, q.view(), call, layout, {&whole, 1}, before.view());
      for (const float value : {INFINITY, NAN}) {
        cache.SetToken(0, kTainted, value);
        Attention(context, q.view(), call, layout, {&whole, 1}, after.view());
        for (int64_t r = 0; r < kTainted; ++r) {
          ASSERT_TRUE(BitwiseEqual(before.view().row(r), after.view().row(r),
                                   static_cast<size_t>(q.view().cols) * SizeOf(dtype)))
              << isa << " " << dtype << " row " << r << " head_dim " << c.head_dim;
        }
        EXPECT_TRUE(std::isnan(after.view().At(kTainted, 0))) << isa << " " << dtype;
      }
    }
  }
}

}  // namespace
}  // namespace aril::kernels
