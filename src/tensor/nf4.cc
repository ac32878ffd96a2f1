#include "tensor/nf4.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace aril {
namespace {

// Between two numbers: what is at most this has the lower code.
constexpr auto kBounds = [] {
  std::array<float, kNf4.size() - 1> bounds = {};
  for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = (kNf4[i] + kNf4[i + 1]) / 2;
  return bounds;
}();

// A smaller scale is divided by as if it were this: a block may be of zeros.
constexpr float kSmallestScale = 1e-38f;

}  // namespace

float Nf4Scale(std::span<const float> block) {
  float largest = 0;
  for (const float value : block) largest = std::max(largest, std::fabs(value));
  return largest;
}

void RoundToNf4(std::span<const float> block, std::span<uint8_t> codes) {
  CHECK_EQ(block.size(), codes.size());
  const float inverse = 1 / std::max(Nf4Scale(block), kSmallestScale);
  for (size_t i = 0; i < block.size(); ++i) {
    const float scaled = block[i] * inverse;
    uint8_t code = 0;
    for (const float bound : kBounds) code += scaled > bound ? 1 : 0;
    codes[i] = code;
  }
}

}  // namespace aril
