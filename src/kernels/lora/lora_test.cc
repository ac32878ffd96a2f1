#include "kernels/lora/lora.h"

#include <deque>

#include "gtest/gtest.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 5;

// Adapter matrices cut into runs of random length, as pages of a pool would cut them.
class TestAdapter {
 public:
  TestAdapter(DType dtype, int32_t rank, int64_t in, int64_t out, std::mt19937_64& random)
      : a_(dtype, rank, in, 1.0, random),
        b_(dtype, rank, out, 1.0, random),
        gain_(dtype, 2, out, 1.0, random) {
    weights_ = {.rank = rank,
                .scale = 0.5f + static_cast<float>(random() % 8),
                .a = Cut(a_, a_runs_, random),
                .b = Cut(b_, b_runs_, random)};
  }
  TestAdapter(const TestAdapter&) = delete;

  const LoraWeights& weights() const { return weights_; }
  LoraWeights WithGain(std::mt19937_64& random) {
    LoraWeights weights = weights_;
    weights.gain = Cut(gain_, gain_runs_, random);
    return weights;
  }
  const TestMatrix& a() const { return a_; }
  const TestMatrix& b() const { return b_; }

 private:
  static LoraMatrix Cut(const TestMatrix& m, std::vector<MatrixRun>& runs,
                        std::mt19937_64& random) {
    const auto rank = static_cast<int32_t>(m.view().rows);
    for (int32_t row = 0; row < rank;) {
      const auto length = std::min<int32_t>(rank - row, 1 + static_cast<int32_t>(random() % 7));
      runs.push_back({m.view().row(row), row, length});
      row += length;
    }
    return {runs, m.view().stride * static_cast<int64_t>(SizeOf(m.view().dtype))};
  }

  TestMatrix a_, b_, gain_;
  std::vector<MatrixRun> a_runs_, b_runs_, gain_runs_;
  LoraWeights weights_;
};

// A batch over two targets (of widths out0, out1) that share x.
struct TestBatch {
  int64_t in, out0, out1, rows;
  std::deque<TestAdapter> adapters;
  std::deque<std::vector<LoraWeights>> per_segment;
  std::vector<LoraSegment> segments;
  std::vector<LoraTarget> targets;

  LoraCall call(DType dtype) const { return {segments, targets, dtype}; }

  // A segment whose adapter has these ranks at the two targets; rank 0: does not touch it.
  void Add(DType dtype, int32_t first_row, int32_t num_rows, int32_t rank0, int32_t rank1,
           std::mt19937_64& random, float weight = 1, bool with_gain = false) {
    auto& weights = per_segment.emplace_back();
    for (const auto& [rank, out] : {std::pair{rank0, out0}, std::pair{rank1, out1}}) {
      weights.emplace_back();
      if (rank == 0) continue;
      TestAdapter& adapter = adapters.emplace_back(dtype, rank, in, out, random);
      weights.back() = with_gain ? adapter.WithGain(random) : adapter.weights();
    }
    segments.push_back({first_row, num_rows, weights, weight});
  }
};

TestBatch MakeBatch(int64_t in, int64_t out0, int64_t out1, int64_t rows) {
  TestBatch batch{.in = in, .out0 = out0, .out1 = out1, .rows = rows};
  batch.targets = {{0, out0}, {out0, out1}};
  return batch;
}

void RunLora(CpuContext& context, const TestMatrix& x, const LoraCall& call, MatrixView<float> y) {
  std::vector<float> v(static_cast<size_t>(LoraIntermediateSize(call)), NAN);
  LoraShrink(context, x.view(), call, v);
  LoraExpand(context, v, call, y);
}

// Compares with the oracle. The bound: shrink sums `in` products, expand adds `rank` terms to y,
// each in fp32; so (in + rank + 3) · eps times the sum of absolute values, which for unit normals
// is at most about |y| + scale · rank · in · 1 — taken with a factor 4 for the tails of the
// distribution. A gain multiplies all that by at most about 8, the sum of two such normals.
void ExpectMatches(CpuContext& context, const TestBatch& batch, DType dtype,
                   std::mt19937_64& random, const std::string& what) {
  const TestMatrix x(dtype, batch.rows, batch.in, 1.0, random);
  const TestMatrix y(DType::kF32, batch.rows, batch.out0 + batch.out1, 1.0, random);
  const int64_t cols = y.view().cols;
  std::vector<double> expected(static_cast<size_t>(batch.rows * cols));
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t c = 0; c < cols; ++c)
      expected[static_cast<size_t>(r * cols + c)] = y.floats().row(r)[c];
  }
  LoraRef(x.view(), batch.call(dtype), {expected.data(), batch.rows, cols, cols});
  RunLora(context, x, batch.call(dtype), y.floats());
  double max_rank = 0;
  for (const auto& segment : batch.segments) {
    for (const auto& weights : segment.targets) max_rank = std::max<double>(max_rank, weights.rank);
  }
  const double in = static_cast<double>(batch.in);
  const double gains = std::pow(8, std::ranges::count_if(batch.segments, [](const auto& segment) {
                                  return !segment.targets[0].gain.runs.empty();
                                }));
  const double bound = (in + max_rank + 3) * 2 * kFloatEps * (4 + 4 * 8 * max_rank * in) * gains;
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      ASSERT_NEAR(y.floats().row(r)[c], expected[static_cast<size_t>(r * cols + c)], bound)
          << what << " at " << r << "," << c << " seed " << kSeed;
    }
  }
}

TEST(Lora, MatchesTheReferenceForEveryRank) {
  std::mt19937_64 random(kSeed);
  std::vector<int32_t> ranks;
  for (int32_t rank = 1; rank <= 64; ++rank) ranks.push_back(rank);
  ranks.insert(ranks.end(), {96, 128, 256, 512});
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const int32_t rank : ranks) {
      TestBatch batch = MakeBatch(70, 40, 24, 7);
      batch.Add(dtype, 0, 1, rank, rank, random);
      batch.Add(dtype, 1, 5, rank, 0, random);
      std::ostringstream what;
      what << isa << " " << dtype << " rank " << rank;
      ASSERT_NO_FATAL_FAILURE(ExpectMatches(context, batch, dtype, random, what.str()));
    }
  }
}

TEST(Lora, MatchesTheReferenceForMixedSegmentsAndSizes) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(3);
    CpuContext context(threads, isa);
    for (const int64_t in : {8, 64, 172, 333}) {
      TestBatch batch = MakeBatch(in, 2100, 17, 100);  // 2100: more than one column task
      batch.Add(dtype, 0, 70, 16, 8, random);          // longer than one row task
      batch.Add(dtype, 70, 0, 4, 4, random);           // empty
      batch.Add(dtype, 71, 3, 0, 33, random);          // row 70 and the last rows: base only
      batch.Add(dtype, 74, 1, 5, 1, random);
      batch.Add(dtype, 75, 9, 64, 2, random);
      std::ostringstream what;
      what << isa << " " << dtype << " in " << in;
      ASSERT_NO_FATAL_FAILURE(ExpectMatches(context, batch, dtype, random, what.str()));
    }
  }
}

TEST(Lora, SeveralAdaptersOnOneRowAreAppliedInOrder) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    TestBatch batch = MakeBatch(48, 2100, 16, 6);
    batch.Add(dtype, 0, 4, 8, 8, random, 0.5f);
    batch.Add(dtype, 2, 3, 4, 16, random, -1.25f);
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(context, batch, dtype, random, "overlap"));
  }
}

// A gain applies to the base's part and to all that was added before it.
TEST(Lora, GainsScaleAllButTheBias) {
  std::mt19937_64 random(kSeed);
  const TestMatrix bias(DType::kF32, 1, 2100, 1.0, random);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    TestBatch batch = MakeBatch(48, 2100, 17, 90);
    batch.targets[0].bias = bias.floats().row(0);
    batch.Add(dtype, 0, 70, 8, 3, random, 1, true);
    batch.Add(dtype, 71, 5, 4, 0, random, 1, true);
    batch.Add(dtype, 72, 4, 4, 4, random, 0.5f);
    batch.Add(dtype, 73, 2, 5, 4, random, 1, true);
    ASSERT_NO_FATAL_FAILURE(ExpectMatches(context, batch, dtype, random, "gain"));
  }
}

TEST(Lora, RowsWithoutASegmentAreNotTouched) {
  std::mt19937_64 random(kSeed);
  ThreadPool threads(2);
  CpuContext context(threads, AvailableIsas().back());
  TestBatch batch = MakeBatch(32, 20, 20, 5);
  batch.Add(DType::kF32, 2, 1, 4, 0, random);
  const TestMatrix x(DType::kF32, 5, 32, 1.0, random), y(DType::kF32, 5, 40, 1.0, random);
  const std::vector<float> before(y.floats().data, y.floats().data + 5 * y.floats().stride);
  RunLora(context, x, batch.call(DType::kF32), y.floats());
  for (int64_t r = 0; r < 5; ++r) {
    const auto offset = static_cast<size_t>(r * y.floats().stride);
    const int64_t untouched_from = r == 2 ? 20 : 0;
    EXPECT_TRUE(BitwiseEqual(y.floats().row(r) + untouched_from, &before[offset] + untouched_from,
                             static_cast<size_t>(40 - untouched_from) * sizeof(float)));
  }
}

TEST(Lora, ARowIsBitwiseTheSameAloneAndInAnySegment) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool one(1), three(3);
    CpuContext alone(one, isa), shared(three, isa);
    constexpr int64_t kRows = 67, kCols = 96;
    const TestMatrix x(dtype, kRows, 200, 1.0, random);
    const TestMatrix start(DType::kF32, kRows, kCols, 1.0, random);
    TestBatch batch = MakeBatch(200, 70, 26, kRows);
    batch.Add(dtype, 0, kRows, 19, 6, random);
    std::vector<float> together(start.floats().data,
                                start.floats().data + kRows * start.floats().stride);
    const MatrixView<float> together_view{together.data(), kRows, kCols, start.floats().stride};
    RunLora(shared, x, batch.call(dtype), together_view);
    for (int32_t r = 0; r < kRows; ++r) {
      LoraSegment segment = batch.segments[0];
      segment.first_row = r;
      segment.num_rows = 1;
      const LoraCall call{{&segment, 1}, batch.targets, dtype};
      RunLora(alone, x, call, start.floats());
      ASSERT_TRUE(BitwiseEqual(start.floats().row(r), together_view.row(r), kCols * sizeof(float)))
          << isa << " " << dtype << " row " << r;
    }
  }
}

}  // namespace
}  // namespace aril::kernels
