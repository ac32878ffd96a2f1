// How far rounding goes in gated activations, for their tests on every backend.

#ifndef ARIL_KERNELS_ACTIVATION_ACTIVATION_TEST_SUPPORT_H_
#define ARIL_KERNELS_ACTIVATION_ACTIVATION_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/activation/activation_tile.h"

namespace aril::kernels {

// Each of them is x / (1 + e^-y) times something: the size of y, as far as it is rounded.
inline double RoundedExponent(Activation f, double x) {
  switch (f) {
    case Activation::kSilu:
      return 0;
    case Activation::kGeluTanh:
      return std::fabs(2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x));
    case Activation::kClampedSwiglu:
      return std::fabs(double{kSwigluAlpha} * std::min(x, double{kSwigluLimit}));
  }
  return 0;
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ACTIVATION_ACTIVATION_TEST_SUPPORT_H_
