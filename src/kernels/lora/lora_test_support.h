// Batches of random adapters for the tests of the LoRA operator, the same for every backend.

#ifndef ARIL_KERNELS_LORA_LORA_TEST_SUPPORT_H_
#define ARIL_KERNELS_LORA_LORA_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "kernels/lora/lora.h"
#include "kernels/test_support.h"

namespace aril::kernels {

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
  const TestMatrix& gain() const { return gain_; }

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

inline TestBatch MakeBatch(int64_t in, int64_t out0, int64_t out1, int64_t rows) {
  TestBatch batch{.in = in, .out0 = out0, .out1 = out1, .rows = rows};
  batch.targets = {{0, out0}, {out0, out1}};
  return batch;
}

// Every rank up to 64, and the larger ones that adapters have.
inline std::vector<int32_t> TestRanks() {
  std::vector<int32_t> ranks;
  for (int32_t rank = 1; rank <= 64; ++rank) ranks.push_back(rank);
  ranks.insert(ranks.end(), {96, 128, 256, 512});
  return ranks;
}

// The shapes that a batch may have. Each sets up `batch` for any dtype.
inline TestBatch MixedBatch(DType dtype, int64_t in, std::mt19937_64& random) {
  TestBatch batch = MakeBatch(in, 2100, 17, 100);  // 2100: more than one column task
  batch.Add(dtype, 0, 70, 16, 8, random);          // longer than one row task
  batch.Add(dtype, 70, 0, 4, 4, random);           // empty
  batch.Add(dtype, 71, 3, 0, 33, random);          // row 70 and the last rows: base only
  batch.Add(dtype, 74, 1, 5, 1, random);
  batch.Add(dtype, 75, 9, 64, 2, random);
  return batch;
}

inline TestBatch OverlappingBatch(DType dtype, std::mt19937_64& random) {
  TestBatch batch = MakeBatch(48, 2100, 16, 6);
  batch.Add(dtype, 0, 4, 8, 8, random, 0.5f);
  batch.Add(dtype, 2, 3, 4, 16, random, -1.25f);
  return batch;
}

// `bias` [2100] is what the gains leave alone.
inline TestBatch GainBatch(DType dtype, const float* bias, std::mt19937_64& random) {
  TestBatch batch = MakeBatch(48, 2100, 17, 90);
  batch.targets[0].bias = bias;
  batch.Add(dtype, 0, 70, 8, 3, random, 1, true);
  batch.Add(dtype, 71, 5, 4, 0, random, 1, true);
  batch.Add(dtype, 72, 4, 4, 4, random, 0.5f);
  batch.Add(dtype, 73, 2, 5, 4, random, 1, true);
  return batch;
}

// x · Aᵀ sums `in` products and y `rank` terms, each in fp32; so (in + rank + 3) · eps times the
// sum of absolute values, which for unit normals is at most about |y| + scale · rank · in · 1 —
// taken with a factor 4 for the tails of the distribution. A gain multiplies all that by at most
// about 8, the sum of two such normals.
inline double LoraErrorBound(const TestBatch& batch) {
  double max_rank = 0;
  for (const auto& segment : batch.segments) {
    for (const auto& weights : segment.targets) max_rank = std::max<double>(max_rank, weights.rank);
  }
  const double in = static_cast<double>(batch.in);
  const double gains = std::pow(8, std::ranges::count_if(batch.segments, [](const auto& segment) {
                                  return !segment.targets[0].gain.runs.empty();
                                }));
  return (in + max_rank + 3) * 2 * kFloatEps * (4 + 4 * 8 * max_rank * in) * gains;
}

// What the operator must leave in y, [rows, out0 + out1], by the oracle.
inline std::vector<double> ExpectedOutput(const TestBatch& batch, DType dtype, const TestMatrix& x,
                                          const TestMatrix& y) {
  const int64_t cols = y.view().cols;
  std::vector<double> expected(static_cast<size_t>(batch.rows * cols));
  for (int64_t r = 0; r < batch.rows; ++r) {
    for (int64_t c = 0; c < cols; ++c)
      expected[static_cast<size_t>(r * cols + c)] = y.floats().row(r)[c];
  }
  LoraRef(x.view(), batch.call(dtype), {expected.data(), batch.rows, cols, cols});
  return expected;
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_LORA_LORA_TEST_SUPPORT_H_
