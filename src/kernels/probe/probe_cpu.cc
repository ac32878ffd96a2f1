// Enough independent accumulators to keep every multiplier busy through the latency of an
// instruction (4 or 5 cycles, two of them a cycle), in the registers that there are.

#include "kernels/probe/probe_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

#if defined(__AVX2__)
constexpr int kAccumulators = 12;
#else
constexpr int kAccumulators = 8;
#endif

template <typename Step>
ARIL_INLINE float RunLoop(int64_t iterations, const Step& step) {
  Vf acc[kAccumulators];
#pragma GCC unroll 12
  for (int i = 0; i < kAccumulators; ++i) acc[i] = Zero();
  for (int64_t n = 0; n < iterations; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) acc[i] = step(acc[i]);
  }
  Vf sum = Zero();
#pragma GCC unroll 12
  for (int i = 0; i < kAccumulators; ++i) sum = sum + acc[i];
  return Sum(sum);
}

float RunF32(int64_t iterations, float x) {
  const Vf a = Set(x), b = Set(x);
  return RunLoop(iterations, [&](Vf acc) { return Fma(a, b, acc); });
}

#if defined(__AVX512BF16__)
float RunBF16(int64_t iterations, float x) {
  const Vu a = (Vu)Set(x), b = (Vu)Set(x);
  return RunLoop(iterations, [&](Vf acc) { return DotPairs(a, b, acc); });
}

float RunInt8(int64_t iterations, float x) {
  const Vu a = (Vu)Set(x), b = (Vu)Set(x);
  return RunLoop(iterations, [&](Vf acc) {
    asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
  });
}
#endif

}  // namespace

uint32_t ReadBytes(const void* data, int64_t bytes) {
  const auto* p = static_cast<const uint32_t*>(data);
  Vu sums[8] = {};
  constexpr int64_t kStep = 8 * kLanes;
  for (int64_t i = 0; i < bytes / 4; i += kStep) {
#pragma GCC unroll 8
    for (int v = 0; v < 8; ++v) {
      Vu words;
      __builtin_memcpy(&words, p + i + v * kLanes, sizeof(words));
      sums[v] += words;
    }
  }
  uint32_t sum = 0;
  for (int v = 0; v < 8; ++v) {
    for (int lane = 0; lane < kLanes; ++lane) sum += sums[v][lane];
  }
  return sum;
}

extern const ArithmeticLoop kArithmeticF32 = {RunF32, kAccumulators* kLanes * 2};
#if defined(__AVX512BF16__)
extern const ArithmeticLoop kArithmeticBF16 = {RunBF16, kAccumulators* kLanes * 4};
extern const ArithmeticLoop kArithmeticInt8 = {RunInt8, kAccumulators* kLanes * 8};
#else
extern const ArithmeticLoop kArithmeticBF16 = {nullptr, 0};
extern const ArithmeticLoop kArithmeticInt8 = {nullptr, 0};
#endif

}  // namespace aril::kernels::ARIL_ISA
