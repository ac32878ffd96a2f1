// Random numbers of a simulation: spelled out, so that a seed means the same everywhere.

#ifndef ARIL_SIMULATE_RANDOM_H_
#define ARIL_SIMULATE_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <random>

#include "base/clock.h"

namespace aril::simulate {

// Not thread-safe.
class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : engine_(seed) {}

  // In [low, high].
  int64_t Int(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  Duration Time(Duration low, Duration high) { return Duration(Int(low.count(), high.count())); }
  bool Chance(double probability) {
    return static_cast<double>(engine_() >> 11) * 0x1p-53 < probability;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_RANDOM_H_
