#include "kernels/attention/attention.h"

#include <numeric>

#include "gtest/gtest.h"
#include "kernels/attention/attention_test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 17;

// Lengths of contexts, and how many of their last tokens are rows of the batch.
const std::vector<int64_t> kLengths = {1, 16, 17, 40, 100, 5};
const std::vector<int32_t> kNewRows = {1, 1, 17, 9, 1, 2};

TEST(Attention, MatchesTheReference) {
  std::mt19937_64 random(kSeed);
  const int64_t rows = std::accumulate(kNewRows.begin(), kNewRows.end(), int64_t{0});
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const AttentionCase& c : kAttentionCases) {
      const KvLayout layout{2, c.kv_heads, c.page_tokens, c.head_dim, dtype};
      const TestCache cache(layout, kLengths, random);
      const auto sequences = MakeSequences(cache, kLengths, kNewRows);
      const TestMatrix q(dtype, rows, c.heads * c.head_dim, 1.0, random),
          out(dtype, rows, c.heads * c.head_dim, 1.0, random);
      const std::vector<float> sinks = c.Sinks();
      const AttentionCall call = c.Call(sinks, 1);
      Attention(context, q.view(), call, layout, sequences, out.view());
      std::vector<double> expected(static_cast<size_t>(rows * q.view().cols));
      const MatrixView<double> expected_view{expected.data(), rows, q.view().cols, q.view().cols};
      AttentionRef(q.view(), call, layout, sequences, expected_view);
      const double bound = AttentionErrorBound(c, dtype == DType::kF32 ? kFloatEps : 2 * kBf16Eps);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t d = 0; d < q.view().cols; ++d) {
          ASSERT_NEAR(out.view().At(r, d), expected_view.row(r)[d], bound)
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
    for (const AttentionCase& c : kAttentionCases) {
      const KvLayout layout{1, c.kv_heads, c.page_tokens, c.head_dim, dtype};
      constexpr int64_t kLength = 90;
      const TestCache cache(layout, {kLength}, random);
      const TestMatrix q(dtype, kLength, c.heads * c.head_dim, 1.0, random);
      const TestMatrix together(dtype, kLength, q.view().cols, 1.0, random),
          single(dtype, kLength, q.view().cols, 1.0, random);
      const std::vector<float> sinks = c.Sinks();
      const AttentionCall call = c.Call(sinks);
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

TEST(Attention, ARowIsBitwiseTheSameAloneAndInABatchOfDecodes) {
  std::mt19937_64 random(kSeed);
  constexpr int32_t kLength = 90;
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(1);
    CpuContext context(threads, isa);
    for (const AttentionCase& c : kAttentionCases) {
      const KvLayout layout{1, c.kv_heads, c.page_tokens, c.head_dim, dtype};
      const TestCache cache(layout, {kLength}, random);
      const TestMatrix q(dtype, kLength, c.heads * c.head_dim, 1.0, random);
      const TestMatrix together(dtype, kLength, q.view().cols, 1.0, random),
          single(dtype, kLength, q.view().cols, 1.0, random);
      const std::vector<float> sinks = c.Sinks();
      const AttentionCall call = c.Call(sinks);
      // So many sequences that the kv heads of one are computed together.
      std::vector<AttentionSequence> rows;
      for (int32_t r = 0; r < kLength; ++r) rows.push_back({r, 1, r, cache.table(0)});
      Attention(context, q.view(), call, layout, rows, together.view());
      for (const AttentionSequence& row : rows) {
        Attention(context, q.view(), call, layout, {&row, 1}, single.view());
      }
      ASSERT_TRUE(BitwiseEqual(single.view().row(0), together.view().row(0),
                               static_cast<size_t>(kLength * q.view().cols) * SizeOf(dtype)))
          << isa << " " << dtype << " heads " << c.heads << "/" << c.kv_heads << " head_dim "
          << c.head_dim << " seed " << kSeed;
    }
  }
}

TEST(Attention, ATokenThatIsNotFiniteReachesNoEarlierRow) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kLength = 90, kTainted = 70;
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const AttentionCase& c : kAttentionCases) {
      const KvLayout layout{1, c.kv_heads, c.page_tokens, c.head_dim, dtype};
      TestCache cache(layout, {kLength}, random);
      const TestMatrix q(dtype, kLength, c.heads * c.head_dim, 1.0, random);
      const TestMatrix before(dtype, kLength, q.view().cols, 1.0, random),
          after(dtype, kLength, q.view().cols, 1.0, random);
      const std::vector<float> sinks = c.Sinks();
      const AttentionCall call = c.Call(sinks);
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
        // A capped score of an infinite one is finite: what comes out is what V has.
        const float tainted = after.view().At(kTainted, 0);
        EXPECT_TRUE(c.softcap > 0 ? !std::isfinite(tainted) : std::isnan(tainted))
            << isa << " " << dtype;
      }
    }
  }
}

}  // namespace
}  // namespace aril::kernels
