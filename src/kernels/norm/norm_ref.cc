#include <cmath>

#include "kernels/norm/norm.h"

namespace aril::kernels {

void RmsNormRef(const float* x, const float* weight, double eps, int64_t size, double* out) {
  double squares = 0;
  for (int64_t i = 0; i < size; ++i) squares += static_cast<double>(x[i]) * x[i];
  const double rms = std::sqrt(squares / static_cast<double>(size) + eps);
  for (int64_t i = 0; i < size; ++i) out[i] = x[i] / rms * weight[i];
}

}  // namespace aril::kernels
