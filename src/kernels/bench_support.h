// Operands for the kernel benchmarks: weights that rotate through more memory than the caches hold.

#ifndef ARIL_KERNELS_BENCH_SUPPORT_H_
#define ARIL_KERNELS_BENCH_SUPPORT_H_

#include <cstdint>
#include <cstring>
#include <thread>

#include "base/thread_pool.h"
#include "kernels/cpu/context.h"
#include "tensor/buffer.h"

namespace aril::kernels {

// More than any last-level cache share of one machine that the figures are taken on would keep.
inline constexpr int64_t kColdBytes = int64_t{768} << 20;

inline int BenchThreads() { return static_cast<int>(std::thread::hardware_concurrency()); }

// Small finite values of either sign in BF16 (and in float32, read as pairs).
inline void FillSmall(Buffer& buffer) {
  auto* values = buffer.as<uint16_t>();
  uint32_t state = 1;
  for (size_t i = 0; i < buffer.size_bytes() / 2; ++i) {
    state = state * 1664525 + 1013904223;
    values[i] = static_cast<uint16_t>(0x3C00 | (state >> 16 & 0x80FF));
  }
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_BENCH_SUPPORT_H_
