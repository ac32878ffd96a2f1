#include "kernels/gemm/int4_weights.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/checked.h"

namespace aril::kernels {
namespace {

constexpr float kMostLevels = 15;
constexpr int kTurns = 3;

using Values = std::array<float, kInt4GroupSize>;

// The integers nearest to v / factor + zero that four bits hold, as floats. (Adding 1.5 · 2^23
// rounds to an integer, and vectorizes where nearbyint does not.)
void Round(const Values& v, float factor, float zero, Values& q) {
  constexpr float kShifter = 12582912.0f;
  const float inverse = 1 / factor;
  for (size_t i = 0; i < v.size(); ++i) {
    const float clamped = std::clamp(v[i] * inverse + zero, 0.0f, kMostLevels);
    q[i] = (clamped + kShifter) - kShifter;
  }
}

// With the best of all factors for these integers, Σ (v − factor (q − zero))² is Σ v² less `gain`.
struct Fit {
  float factor = 0;
  float zero = 0;
  float gain = -1;
};

Fit BestFactor(const Values& v, const Values& q, float zero) {
  float products = 0, squares = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    const float level = q[i] - zero;
    products += v[i] * level;
    squares += level * level;
  }
  if (squares == 0) return {};
  return {products / squares, zero, products * products / squares};
}

// What has the least square of differences of what turns find from the factor that the range gives.
Fit FitWithZero(const Values& v, float factor, float zero) {
  Fit best;
  Values q;
  for (int turn = 0; turn < kTurns; ++turn) {
    Round(v, factor, zero, q);
    const Fit fit = BestFactor(v, q, zero);
    // Never negative as long as rounding keeps the order; and 0 says nothing of a next turn.
    if (!(fit.factor > 0)) break;
    if (fit.gain > best.gain) best = fit;
    factor = fit.factor;
  }
  return best;
}

Int4Group QuantizeGroup(const Values& v) {
  Int4Group group;
  const float low = std::min(0.0f, *std::ranges::min_element(v));
  const float high = std::max(0.0f, *std::ranges::max_element(v));
  if (low == high) return group;
  const float factor = (high - low) / kMostLevels, zero = std::min(-low / factor, kMostLevels);
  Fit fit = FitWithZero(v, factor, std::floor(zero));
  if (const float above = std::ceil(zero); above != fit.zero) {
    const Fit other = FitWithZero(v, factor, above);
    if (other.gain > fit.gain) fit = other;
  }
  group.factor = ToF16(fit.factor);
  group.zero = static_cast<uint8_t>(fit.zero);
  const float rounded = ToFloat(group.factor);
  if (rounded == 0) {  // nothing beside what else is in the row
    group.q.fill(group.zero);
    return group;
  }
  Values q;
  Round(v, rounded, fit.zero, q);
  std::ranges::transform(q, group.q.begin(),
                         [](float level) { return static_cast<uint8_t>(level); });
  return group;
}

// The power of two over which `largest` is below 2^top. It and its reciprocal are normal numbers.
float PowerBelow(float largest, int top) {
  return std::ldexp(1.0f, std::clamp(std::ilogb(largest) + 1 - top, -125, 125));
}

// What the scales of a row are divided by, for FP16 to hold as small ones as it can beside its
// largest one.
float ScaleOfRow(const Int4View& from, int64_t row) {
  if (from.scales.dtype == DType::kF16) return 1;
  float largest = 0;
  for (int64_t group = 0; group < from.groups(); ++group) {
    largest = std::max(largest, std::fabs(from.Scale(row, group)));
  }
  constexpr int kTop = 15;
  return largest == 0 || !std::isfinite(largest) ? 1 : PowerBelow(largest, kTop);
}

}  // namespace

float QuantizeToInt4(std::span<const float> row, std::span<Int4Group> groups) {
  CHECK_EQ(static_cast<int64_t>(groups.size()),
           CeilDiv(static_cast<int64_t>(row.size()), kInt4GroupSize));
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::fabs(value));
  if (largest == 0) {
    std::ranges::fill(groups, Int4Group{});
    return 1;
  }
  // A factor that least squares find is at most √kInt4GroupSize times as large as the largest
  // value, and FP16 ends at 2^16.
  const float scale = PowerBelow(largest, 12), inverse = 1 / scale;
  for (size_t g = 0; g < groups.size(); ++g) {
    Values v = {};
    const auto part = row.subspan(g * v.size(), std::min(v.size(), row.size() - g * v.size()));
    std::ranges::transform(part, v.begin(), [&](float value) { return value * inverse; });
    groups[g] = QuantizeGroup(v);
  }
  return scale;
}

float CopyInt4(const Int4View& from, int64_t row, std::span<const int32_t> inputs,
               std::span<Int4Group> groups) {
  CHECK(from.group_size % kInt4GroupSize == 0 || from.groups() == 1);
  CHECK_EQ(static_cast<int64_t>(groups.size()), CeilDiv(from.cols, kInt4GroupSize));
  std::vector<uint8_t> levels(static_cast<size_t>(from.cols));
  from.CopyLevels(row, 0, from.cols, levels.data());
  const float scale = ScaleOfRow(from, row);
  for (size_t g = 0; g < groups.size(); ++g) {
    const size_t first = g * static_cast<size_t>(kInt4GroupSize);
    const int64_t in_file = static_cast<int64_t>(first) / from.group_size;
    Int4Group& group = groups[g];
    group.factor = ToF16(from.Scale(row, in_file) / scale);
    group.zero = static_cast<uint8_t>(from.Zero(row, in_file));
    for (size_t i = 0; i < group.q.size(); ++i) {
      const size_t at = first + i;
      group.q[i] = at >= levels.size() ? group.zero
                   : inputs.empty()    ? levels[at]
                                       : levels[static_cast<size_t>(inputs[at])];
    }
  }
  return scale;
}

bool HasExactFactors(const Int4View& view) {
  if (view.scales.dtype == DType::kF16) return AllFinite(view.scales);
  for (int64_t row = 0; row < view.rows; ++row) {
    const float scale = ScaleOfRow(view, row);
    for (int64_t group = 0; group < view.groups(); ++group) {
      const float in_file = view.Scale(row, group);
      const float factor = ToFloat(ToF16(in_file / scale));
      if (!std::isfinite(factor) || factor * scale != in_file) return false;
    }
  }
  return true;
}

}  // namespace aril::kernels
