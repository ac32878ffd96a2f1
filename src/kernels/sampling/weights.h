// Unnormalized probabilities of a row of logits: exp((logit - largest) / temperature), in [0, 1],
// exactly 1 for the largest.
//
// Weights are float with a relative error below 3e-7 (weights_test.cc measures it), sums of them
// double: a probability is off by less than 1e-6 of itself. The exponential is our own, so that it
// vectorizes and gives the same bits whatever libm is installed.

#ifndef ARIL_KERNELS_SAMPLING_WEIGHTS_H_
#define ARIL_KERNELS_SAMPLING_WEIGHTS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace aril::kernels {

// e^x for x ≤ 0, -inf included; 0 from -87 down, where the result would leave the normal range. The
// range is checked on the bits: compilers must keep floating-point comparisons, which may trap, out
// of vector code.
inline float ExpNonPositive(float x) {
  constexpr int32_t kLimit = std::bit_cast<int32_t>(87.0f);
  constexpr float kLog2E = 1.44269504f;
  // ln 2 in two parts; the first has 9 significant bits, so that n times it is exact.
  constexpr float kLn2High = 0.693359375f;
  constexpr float kLn2Low = -2.12194440e-4f;
  // Adding 1.5·2^23 rounds to an integer: no bits are left for a fraction.
  constexpr float kRounder = 12582912.0f;
  const int32_t magnitude = std::bit_cast<int32_t>(x) & 0x7FFFFFFF;
  const float y = std::bit_cast<float>(magnitude < kLimit ? magnitude : kLimit);  // |x|
  const float n = (y * kLog2E + kRounder) - kRounder;
  const float r = (n * kLn2High - y) + n * kLn2Low;  // e^x = 2^-n · e^r, |r| ≤ ln(2)/2
  // Taylor to r^7: the rest is below 0.3466^8 / 8! = 6e-9.
  float e = 1.0f / 5040;
  e = e * r + 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  const float power = std::bit_cast<float>((127 - static_cast<int32_t>(n)) << 23);
  const int32_t in_range = magnitude < kLimit ? -1 : 0;
  return std::bit_cast<float>(std::bit_cast<int32_t>(e * power) & in_range);
}

inline float Weight(float logit, float largest, float temperature) {
  return ExpNonPositive((logit - largest) / temperature);
}

// The weights of a whole row with the sums of its blocks, so that a draw need not add up the row
// one by one.
class WeightTable {
 public:
  static constexpr size_t kBlockSize = 512;

  // `largest` is the largest of `logits`, `temperature` > 0. Reuses the table's memory.
  void Assign(std::span<const float> logits, float largest, float temperature);

  std::span<const float> weights() const { return weights_; }
  double total() const { return total_; }

  // The sum of the weights that are at least `floor`.
  double SumAtLeast(float floor) const;

  // The first token whose cumulative weight, in order of ids, exceeds `target` in [0, total).
  int32_t Find(double target) const;

 private:
  std::vector<float> weights_;      // [vocab_size]
  std::vector<double> block_sums_;  // [ceil(vocab_size / kBlockSize)]
  double total_ = 0;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_SAMPLING_WEIGHTS_H_
