// Apart from the rest of the emulator because it is compiled without sanitizers: the tests of
// kernels would spend a third of their time here, on arrays whose sizes the compiler knows.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/emulator.h"

namespace aril::kernels::emulator {
namespace {

constexpr int kTensorProducts = 8;

// Adds eight products to each of a row of MultiplyInTensorCore, all columns at a time.
void AddProducts(float (&c)[kTensorCols], const double* a, const double (*b)[kTensorCols]) {
  constexpr int kFloatBits = 23, kDoubleBits = 52, kBias = 1023;  // of the fractions; of exponents
  constexpr uint64_t kExponent = uint64_t{0x7FF} << kDoubleBits;
  double addends[kTensorProducts + 1][kTensorCols];
  double sums[kTensorCols] = {};
  double largest[kTensorCols];
  std::fill_n(largest, kTensorCols, 0x1p-512);  // less than any, so that 1 / largest is a number
  for (int i = 0; i <= kTensorProducts; ++i) {
    for (int col = 0; col < kTensorCols; ++col) {
      const double addend = i == 0 ? static_cast<double>(c[col]) : a[i - 1] * b[i - 1][col];
      addends[i][col] = addend;
      sums[col] += addend;
      largest[col] = std::max(largest[col], std::abs(addend));
    }
  }
  for (int col = 0; col < kTensorCols; ++col) {
    c[col] = static_cast<float>(sums[col]);
    if (std::isfinite(c[col])) continue;
    for (auto& addend : addends) addend[col] = 0;  // below is for numbers
  }
  double per_unit[kTensorCols];
  int32_t units[kTensorCols] = {};
  for (int col = 0; col < kTensorCols; ++col) {
    const uint64_t exponent = std::bit_cast<uint64_t>(largest[col]) & kExponent;
    per_unit[col] =
        std::bit_cast<double>((uint64_t{2 * kBias + kFloatBits + 1} << kDoubleBits) - exponent);
  }
  for (const auto& addend : addends) {
    for (int col = 0; col < kTensorCols; ++col) {
      units[col] += static_cast<int32_t>(addend[col] * per_unit[col]);
    }
  }
  constexpr uint64_t kKept = ~uint64_t{0} << (kDoubleBits - kFloatBits);
  for (int col = 0; col < kTensorCols; ++col) {
    if (!std::isfinite(c[col])) continue;
    const double sum = units[col] / per_unit[col];
    c[col] = static_cast<float>(std::bit_cast<double>(std::bit_cast<uint64_t>(sum) & kKept));
  }
}

template <float (*to_float)(uint16_t)>
void Mma(WarpSlots slots) {
  double left[kTensorRows][kTensorDepth], right[kTensorDepth][kTensorCols];
  float sums[kTensorRows][kTensorCols];
  const auto half = [](uint32_t word, int i) {
    return static_cast<double>(to_float(static_cast<uint16_t>(word >> 16 * i)));
  };
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& [c, a, b] = *static_cast<const MmaOperands*>(slots[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 2; ++i) {
      for (int r = 0; r < 4; ++r) left[g + r % 2 * 8][2 * t + i + r / 2 * 8] = half(a[r], i);
      for (int r = 0; r < 2; ++r) right[2 * t + i + r * 8][g] = half(b[r], i);
    }
    for (int i = 0; i < 4; ++i) sums[g + i / 2 * 8][2 * t + i % 2] = c[i];
  }
  MultiplyInTensorCore(sums, left, right);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    float(&c)[4] = static_cast<const MmaOperands*>(slots[lane])->c;
    for (int i = 0; i < 4; ++i) c[i] = sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

}  // namespace

void MultiplyInTensorCore(float (&c)[kTensorRows][kTensorCols],
                          const double (&a)[kTensorRows][kTensorDepth],
                          const double (&b)[kTensorDepth][kTensorCols]) {
  for (int row = 0; row < kTensorRows; ++row) {
    for (int first = 0; first < kTensorDepth; first += kTensorProducts) {
      AddProducts(c[row], &a[row][first], &b[first]);
    }
  }
}

void MmaBf16(WarpSlots operands) { Mma<Bf16ToFloat>(operands); }
void MmaF16(WarpSlots operands) { Mma<F16ToFloat>(operands); }

}  // namespace aril::kernels::emulator
