// How far two engines' distributions of the next token are apart, in tests.

#ifndef ARIL_TESTS_SUPPORT_DISTRIBUTIONS_H_
#define ARIL_TESTS_SUPPORT_DISTRIBUTIONS_H_

#include <cstdint>
#include <ostream>
#include <vector>

#include "engine/engine.h"

namespace aril {

using Texts = std::vector<std::vector<int32_t>>;
using Logits = std::vector<std::vector<float>>;  // of each position of each text

Logits LogitsOf(Engine& engine, const Texts& texts, const AdapterMix& adapters = {});

// What one engine makes of texts, beside another.
struct Comparison {
  double divergence = 0;  // of the next token's distribution, nats, mean over the positions
  double agreement = 0;   // share of the positions with the same likeliest token
  int64_t positions = 0;
};

Comparison Compare(const Logits& expected, const Logits& actual);
std::ostream& operator<<(std::ostream& out, const Comparison& c);

}  // namespace aril

#endif  // ARIL_TESTS_SUPPORT_DISTRIBUTIONS_H_
