// What the rotary embedding's tests on CPUs and devices share.

#ifndef ARIL_KERNELS_ROPE_TEST_SUPPORT_H_
#define ARIL_KERNELS_ROPE_TEST_SUPPORT_H_

#include <cmath>
#include <cstdint>
#include <vector>

namespace aril::kernels {

// [num_pairs], as without scaling.
inline std::vector<double> RopeTestFrequencies(int64_t num_pairs) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < num_pairs; ++i) {
    frequencies.push_back(
        std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(num_pairs)));
  }
  return frequencies;
}

// Of the pair that element `d` of a head is rotated in; beyond those its own. Cancellation in
// a·cos - b·sin makes errors relative to this, not to the result.
inline double RopeTestSize(const std::vector<double>& head, int64_t num_pairs, int64_t d) {
  const double own = head[static_cast<size_t>(d)];
  if (d >= 2 * num_pairs) return std::abs(own);
  return std::hypot(own, head[static_cast<size_t>((d + num_pairs) % (2 * num_pairs))]);
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_ROPE_TEST_SUPPORT_H_
