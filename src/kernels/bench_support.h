// What the kernel benchmarks share: weights that rotate through more memory than the caches hold,
// and batches whose rows are shared out among adapters.

#ifndef ARIL_KERNELS_BENCH_SUPPORT_H_
#define ARIL_KERNELS_BENCH_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

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

enum Popularity { kDistinct, kUniform, kSkewed, kIdentical };
inline constexpr const char* kPopularityNames[] = {"distinct", "uniform", "skewed", "identical"};

// Rows per adapter (Punica, section 7): all different; ⌈√n⌉ adapters alike; each 1.5 times as
// popular as the next; one.
inline std::vector<int32_t> SegmentLengths(Popularity popularity, int32_t rows) {
  if (popularity == kDistinct) return std::vector<int32_t>(static_cast<size_t>(rows), 1);
  if (popularity == kIdentical) return {rows};
  std::vector<int32_t> lengths;
  const auto adapters = static_cast<int32_t>(std::ceil(std::sqrt(rows)));
  for (int32_t left = rows; left > 0; left -= lengths.back()) {
    const double share = popularity == kUniform ? static_cast<double>(rows) / adapters : left / 3.0;
    lengths.push_back(std::min(left, std::max(1, static_cast<int32_t>(std::ceil(share)))));
  }
  return lengths;
}

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_BENCH_SUPPORT_H_
