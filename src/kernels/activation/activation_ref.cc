#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/activation/activation.h"

namespace aril::kernels {

// (1 + tanh u) / 2 is 1 / (1 + e^-2u), of which nothing is lost far below zero.
double GluRef(Activation f, double gate, double up) {
  if (f == Activation::kClampedSwiglu) {
    constexpr double kLimit = kSwigluLimit;
    const double x = std::min(gate, kLimit);
    return x / (1.0 + std::exp(-double{kSwigluAlpha} * x)) * (1 + std::clamp(up, -kLimit, kLimit));
  }
  double exponent = gate;
  if (f == Activation::kGeluTanh) {
    exponent = 2 * std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
  }
  return gate / (1.0 + std::exp(-exponent)) * up;
}

double GateRef(double gate, double value) { return value / (1 + std::exp(-gate)); }

double SoftcapRef(double cap, double value) { return cap * std::tanh(value / cap); }

}  // namespace aril::kernels
