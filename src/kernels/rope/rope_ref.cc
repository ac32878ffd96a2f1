#include <cmath>

#include "kernels/rope/rope.h"

namespace aril::kernels {

void RopeRef(const double* in, const std::vector<double>& inverse_frequencies, int64_t position,
             double* out) {
  const size_t half = inverse_frequencies.size();
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * inverse_frequencies[i];
    out[i] = in[i] * std::cos(angle) - in[half + i] * std::sin(angle);
    out[half + i] = in[half + i] * std::cos(angle) + in[i] * std::sin(angle);
  }
}

}  // namespace aril::kernels
