#include "kernels/experts/experts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "kernels/sampling/weights.h"

namespace aril::kernels {

void ChooseExperts(std::span<const float> logits, const Routing& routing, int32_t* experts,
                   float* weights) {
  const auto count = static_cast<size_t>(routing.experts_per_row);
  CHECK(count >= 1 && count <= logits.size());
  // One after the other: few of few. A comparison with NaN is false, and the first that is left is
  // taken.
  for (size_t i = 0; i < count; ++i) {
    const auto is_taken = [&](size_t expert) {
      return std::find(experts, experts + i, static_cast<int32_t>(expert)) != experts + i;
    };
    size_t best = logits.size();
    for (size_t expert = 0; expert < logits.size(); ++expert) {
      const bool is_better = best == logits.size() || logits[expert] > logits[best];
      if (is_better && !is_taken(expert)) best = expert;
    }
    experts[i] = static_cast<int32_t>(best);
  }
  const float largest = logits[static_cast<size_t>(experts[0])];
  std::sort(experts, experts + count);
  float sum = 0;
  for (size_t i = 0; i < count; ++i) {
    weights[i] = ExpNonPositive(logits[static_cast<size_t>(experts[i])] - largest);
    sum += weights[i];
  }
  if (!routing.normalized) {
    sum = 0;
    for (const float logit : logits) sum += ExpNonPositive(logit - largest);
  }
  for (size_t i = 0; i < count; ++i) weights[i] /= sum;
}

void ExpertRows::Assign(CpuContext& context, MatrixView<const float> logits,
                        const Routing& routing) {
  per_row_ = routing.experts_per_row;
  const auto total = static_cast<size_t>(logits.rows * per_row_);
  experts_.resize(total);
  weights_.resize(total);
  context.threads().ParallelFor(logits.rows, [&](int64_t r) {
    ChooseExperts({logits.row(r), static_cast<size_t>(logits.cols)}, routing,
                  experts_.data() + r * per_row_, weights_.data() + r * per_row_);
  });
  // A counting sort. Until the places are given, first_ has where the next one of each expert is.
  first_.assign(static_cast<size_t>(logits.cols) + 1, 0);
  for (const int32_t expert : experts_) ++first_[static_cast<size_t>(expert)];
  std::exclusive_scan(first_.begin(), first_.end(), first_.begin(), int64_t{0});
  places_.resize(total);
  rows_.resize(total);
  for (size_t i = 0; i < total; ++i) {
    places_[i] = first_[static_cast<size_t>(experts_[i])]++;
    rows_[static_cast<size_t>(places_[i])] =
        static_cast<int32_t>(i / static_cast<size_t>(per_row_));
  }
  std::shift_right(first_.begin(), first_.end(), 1);
  first_.front() = 0;
}

void ExpertRows::Gather(CpuContext& context, const ConstMatrix& x, int64_t first,
                        const Matrix& out) const {
  CHECK_LE(first + out.rows, num_places());
  CHECK_EQ(out.cols, x.cols);
  CHECK_EQ(out.dtype, x.dtype);
  const size_t row_bytes = static_cast<size_t>(x.cols) * SizeOf(x.dtype);
  context.threads().ParallelFor(
      out.rows, [&](int64_t i) { std::memcpy(out.row(i), x.row(RowAt(first + i)), row_bytes); });
}

void ExpertRows::AddWeighted(CpuContext& context, MatrixView<const float> y, int64_t first,
                             MatrixView<float> sum) const {
  CHECK_LE(first + y.rows, num_places());
  CHECK_EQ(sum.rows * per_row_, num_places());
  CHECK_EQ(y.cols, sum.cols);
  context.threads().ParallelFor(sum.rows, [&](int64_t r) {
    float* to = sum.row(r);
    for (int64_t i = r * per_row_; i < (r + 1) * per_row_; ++i) {
      const int64_t place = places_[static_cast<size_t>(i)] - first;
      if (place < 0 || place >= y.rows) continue;
      const float weight = weights_[static_cast<size_t>(i)];
      const float* from = y.row(place);
      for (int64_t c = 0; c < y.cols; ++c) to[c] += weight * from[c];
    }
  });
}

}  // namespace aril::kernels
