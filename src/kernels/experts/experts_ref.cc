#include <cmath>

#include "kernels/experts/experts.h"

namespace aril::kernels {

void ExpertWeightsRef(std::span<const float> logits, const Routing& routing,
                      std::span<const int32_t> experts, double* weights) {
  double all = 0, chosen = 0;
  for (const float logit : logits) all += std::exp(static_cast<double>(logit));
  for (size_t i = 0; i < experts.size(); ++i) {
    weights[i] = std::exp(static_cast<double>(logits[static_cast<size_t>(experts[i])])) / all;
    chosen += weights[i];
  }
  if (!routing.normalized) return;
  for (size_t i = 0; i < experts.size(); ++i) weights[i] /= chosen;
}

}  // namespace aril::kernels
