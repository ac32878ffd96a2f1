#include "apps/bench_random.h"

#include <cmath>

#include "base/check.h"

namespace aril {
namespace {

std::mt19937_64 MakeEngine(uint64_t seed, RandomStream stream) {
  std::seed_seq sequence{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                         static_cast<uint32_t>(stream)};
  return std::mt19937_64(sequence);
}

}  // namespace

BenchRandom::BenchRandom(uint64_t seed, RandomStream stream) : engine_(MakeEngine(seed, stream)) {}

double BenchRandom::Uniform() {
  return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53;  // 53 bits: a double's precision
}

int64_t BenchRandom::UniformInt(int64_t min, int64_t max) {
  CHECK_LE(min, max);
  const auto num_values = static_cast<double>(max - min + 1);
  return min + static_cast<int64_t>(Uniform() * num_values);
}

double BenchRandom::Normal() {
  for (;;) {
    const double x = 2 * Uniform() - 1;
    const double y = 2 * Uniform() - 1;
    const double square = x * x + y * y;
    if (square < 1 && square > 0) return x * std::sqrt(-2 * std::log(square) / square);
  }
}

double BenchRandom::Exponential() { return -std::log(Uniform()); }

double BenchRandom::Gamma(double shape) {
  CHECK(shape > 0);
  if (shape < 1) return Gamma(shape + 1) * std::pow(Uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = Normal();
    const double cube_root = 1 + c * x;
    if (cube_root <= 0) continue;
    const double v = cube_root * cube_root * cube_root;
    if (std::log(Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double BenchRandom::Weibull(double shape) {
  CHECK(shape > 0);
  return std::pow(Exponential(), 1 / shape);
}

}  // namespace aril
