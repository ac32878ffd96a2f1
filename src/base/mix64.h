// A hash of two numbers.

#ifndef ARIL_BASE_MIX64_H_
#define ARIL_BASE_MIX64_H_

#include <cstdint>

namespace aril {

// Well mixed: the finalizer of SplitMix64 (Steele et al. 2014). One-to-one in `b`; no secret, for
// it can be inverted.
inline uint64_t Mix64(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15 + b + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace aril

#endif  // ARIL_BASE_MIX64_H_
