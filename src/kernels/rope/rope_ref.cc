#include <cmath>

#include "kernels/rope/rope.h"

namespace aril::kernels {

void RopeRef(const double* in, const std::vector<double>& inverse_frequencies, int64_t position,
             double factor, double* out) {
  const size_t half = inverse_frequencies.size();
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * inverse_frequencies[i];
    const double cos = factor * std::cos(angle), sin = factor * std::sin(angle);
    out[i] = in[i] * cos - in[half + i] * sin;
    out[half + i] = in[half + i] * cos + in[i] * sin;
  }
}

}  // namespace aril::kernels
