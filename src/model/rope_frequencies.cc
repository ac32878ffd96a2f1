#include "model/rope_frequencies.h"

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

}  // namespace

std::vector<double> RopeInverseFrequencies(const RopeSpec& rope, int64_t head_dim) {
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
    }
  }
  return frequencies;
}

}  // namespace aril
