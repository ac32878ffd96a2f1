#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace aril {
namespace {

// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between
// interpolated.
double Llama3Scaled(const RopeSpec& rope, double frequency) {
  const double context = static_cast<double>(rope.original_max_position_embeddings);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < context / rope.high_freq_factor) return frequency;
  if (wavelength > context / rope.low_freq_factor) return frequency / rope.factor;
  const double smooth = (context / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

// The dimension, of `head_dim`, whose wave turns so often in the positions that YaRN starts from.
double YarnDimension(const RopeSpec& rope, int64_t head_dim, double turns) {
  const double context = static_cast<double>(rope.original_max_position_embeddings);
  return static_cast<double>(head_dim) * std::log(context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

// How far pair i is on YaRN's way from its own frequency (0) to the stretched one (1).
double YarnRamp(const RopeSpec& rope, int64_t head_dim, int64_t i) {
  double low = YarnDimension(rope, head_dim, rope.beta_fast);
  double high = YarnDimension(rope, head_dim, rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;  // as transformers does
  return std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

}  // namespace

std::vector<double> RopeInverseFrequencies(const RopeSpec& rope, int64_t head_dim) {
  if (rope.num_pairs) head_dim = 2 * *rope.num_pairs;  // as much of it as is rotated
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim; i += 2) {
    const double frequency =
        std::pow(rope.theta, -static_cast<double>(i) / static_cast<double>(head_dim));
    switch (rope.scaling) {
      case RopeSpec::Scaling::kNone:
        frequencies.push_back(frequency);
        break;
      case RopeSpec::Scaling::kLinear:
        frequencies.push_back(frequency / rope.factor);
        break;
      case RopeSpec::Scaling::kLlama3:
        frequencies.push_back(Llama3Scaled(rope, frequency));
        break;
      case RopeSpec::Scaling::kYarn: {
        const double ramp = YarnRamp(rope, head_dim, i / 2);
        frequencies.push_back(ramp * frequency / rope.factor + (1 - ramp) * frequency);
        break;
      }
      case RopeSpec::Scaling::kLongRope:
        frequencies.push_back(frequency / rope.wavelength_factors[static_cast<size_t>(i / 2)]);
        break;
      case RopeSpec::Scaling::kNoRotation:
        frequencies.push_back(0);
        break;
    }
  }
  return frequencies;
}

kernels::RopeTable MakeRopeTable(const RopeSpec& rope, int64_t head_dim, int64_t max_positions) {
  return {RopeInverseFrequencies(rope, head_dim), max_positions, rope.attention_factor};
}

}  // namespace aril
