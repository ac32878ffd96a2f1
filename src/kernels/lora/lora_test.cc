#include "kernels/lora/lora.h"

#include "gtest/gtest.h"
#include "kernels/lora/lora_test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 5;

void RunLora(CpuContext& context, const TestMatrix& x, const LoraCall& call, MatrixView<float> y) {
  std::vector<float> v(static_cast<size_t>(LoraIntermediateSize(call)), NAN);
  LoraShrink(context, x.view(), call, v);
  LoraExpand(context, v, call, y);
}

void ExpectMatches(CpuContext& context, const TestBatch& batch, DType dtype,
                   std::mt19937_64& random, const std::string& what) {
  const TestMatrix x(dtype, batch.rows, batch.in, 1.0, random);
  const TestMatrix y(DType::kF32, batch.rows, batch.out0 + batch.out1, 1.0, random);
  const int64_t cols = y.view().cols;
  const std::vector<double> expected = ExpectedOutput(batch, dtype, x, y);
  RunLora(context, x, batch.call(dtype), y.floats());
  const double bound = LoraErrorBound(batch);
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      ASSERT_NEAR(y.floats().row(r)[c], expected[static_cast<size_t>(r * cols + c)], bound)
          << what << " at " << r << "," << c << " seed " << kSeed;
    }
  }
}

TEST(Lora, MatchesTheReferenceForEveryRank) {
  std::mt19937_64 random(kSeed);
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool threads(2);
    CpuContext context(threads, isa);
    for (const int32_t rank : TestRanks()) {
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
      const TestBatch batch = MixedBatch(dtype, in, random);
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
    const TestBatch batch = OverlappingBatch(dtype, random);
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
    const TestBatch batch = GainBatch(dtype, bias.floats().row(0), random);
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

// Segments of few rows and of many are computed in tiles of other shapes, and cut for the threads.
TEST(Lora, ARowIsBitwiseTheSameAloneAndInAnySegment) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kRows = 67, kCols = 396;
  for (const auto& [isa, dtype] : KernelCases()) {
    ThreadPool one(1), three(3);
    CpuContext alone(one, isa), shared(three, isa);
    const TestMatrix x(dtype, kRows, 200, 1.0, random);
    const TestMatrix start(DType::kF32, kRows, kCols, 1.0, random);
    const int64_t stride = start.floats().stride;
    TestBatch batch = MakeBatch(200, 370, 26, kRows);
    batch.Add(dtype, 0, kRows, 19, 6, random);
    std::vector<float> rows(start.floats().data, start.floats().data + kRows * stride);
    for (int32_t r = 0; r < kRows; ++r) {
      LoraSegment segment = batch.segments[0];
      segment.first_row = r;
      segment.num_rows = 1;
      RunLora(alone, x, {{&segment, 1}, batch.targets, dtype}, {rows.data(), kRows, kCols, stride});
    }
    for (const int32_t size : {2, 3, 4, 5, 8, 9, 15, 67}) {
      std::vector<float> together(start.floats().data, start.floats().data + kRows * stride);
      LoraSegment segment = batch.segments[0];
      segment.num_rows = size;
      RunLora(shared, x, {{&segment, 1}, batch.targets, dtype},
              {together.data(), kRows, kCols, stride});
      for (int32_t r = 0; r < size; ++r) {
        ASSERT_TRUE(BitwiseEqual(&rows[static_cast<size_t>(r * stride)],
                                 &together[static_cast<size_t>(r * stride)], kCols * sizeof(float)))
            << isa << " " << dtype << " row " << r << " of " << size;
      }
    }
  }
}

}  // namespace
}  // namespace aril::kernels
