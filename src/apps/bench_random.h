// Random numbers of a workload. The standard fixes what std::mt19937_64 yields but not what its
// distributions make of it, so these are spelled out: a seed means the same requests everywhere.

#ifndef ARIL_APPS_BENCH_RANDOM_H_
#define ARIL_APPS_BENCH_RANDOM_H_

#include <cstdint>
#include <random>

namespace aril {

// What a stream of numbers is for. Each has its own, so that other lengths, for instance, leave the
// arrivals as they are.
enum class RandomStream : uint32_t { kArrivals = 1, kAdapters, kLengths, kTrace };

// Not thread-safe.
class BenchRandom {
 public:
  BenchRandom(uint64_t seed, RandomStream stream);

  // In (0, 1), so that its logarithm is finite.
  double Uniform();
  // In [min, max]; at most 2⁵³ values.
  int64_t UniformInt(int64_t min, int64_t max);
  // Of mean 0 and variance 1 (Marsaglia's polar method).
  double Normal();
  // Of mean 1.
  double Exponential();
  // Of mean `shape` and scale 1; `shape` > 0 (Marsaglia and Tsang, 2000).
  double Gamma(double shape);
  // Of mean Γ(1 + 1/shape) and scale 1; `shape` > 0.
  double Weibull(double shape);

 private:
  std::mt19937_64 engine_;
};

}  // namespace aril

#endif  // ARIL_APPS_BENCH_RANDOM_H_
