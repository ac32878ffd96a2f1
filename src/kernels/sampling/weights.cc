#include "kernels/sampling/weights.h"

#include <algorithm>
#include <array>

namespace aril::kernels {
namespace {

// The sum of term(value): eight running sums, so that the additions do not wait for one another,
// added up left to right.
template <typename Term>
double Sum(std::span<const float> values, const Term& term) {
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(values[i + lane]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < values.size(); ++i) sum += term(values[i]);
  return sum;
}

}  // namespace

void WeightTable::Assign(std::span<const float> logits, float largest, float temperature) {
  weights_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    weights_[i] = Weight(logits[i], largest, temperature);
  }
  block_sums_.clear();
  total_ = 0;
  for (size_t begin = 0; begin < weights_.size(); begin += kBlockSize) {
    const size_t size = std::min(kBlockSize, weights_.size() - begin);
    block_sums_.push_back(
        Sum(weights().subspan(begin, size), [](float weight) { return double{weight}; }));
    total_ += block_sums_.back();
  }
}

double WeightTable::SumAtLeast(float floor) const {
  return Sum(weights_, [&](float weight) { return weight >= floor ? double{weight} : 0.0; });
}

int32_t WeightTable::Find(double target) const {
  double sum = 0;
  size_t block = 0;
  while (block + 1 < block_sums_.size() && sum + block_sums_[block] <= target) {
    sum += block_sums_[block++];
  }
  const size_t begin = block * kBlockSize;
  const size_t end = std::min(begin + kBlockSize, weights_.size());
  // Rounding may let the sum end just short of a target near the block's end; then it is the last
  // token that can be drawn at all.
  size_t last = begin;
  for (size_t i = begin; i < end; ++i) {
    if (weights_[i] == 0) continue;
    last = i;
    sum += weights_[i];
    if (sum > target) break;
  }
  return static_cast<int32_t>(last);
}

}  // namespace aril::kernels
