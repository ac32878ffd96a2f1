#include "base/thread_pool.h"

#include <vector>

#include "gtest/gtest.h"

namespace aril {
namespace {

TEST(ThreadPool, RunsEveryChunkOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 300; ++round) {
      const int64_t n = round % 37;
      std::vector<int> runs(static_cast<size_t>(n), 0);
      pool.ParallelFor(n, [&](int64_t chunk) { ++runs[static_cast<size_t>(chunk)]; });
      for (const int count : runs) ASSERT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, EffectsAreVisibleToTheCaller) {
  ThreadPool pool(4);
  int64_t plain_sum = 0;
  for (int round = 0; round < 1000; ++round) {
    int64_t parts[8] = {};
    pool.ParallelFor(8, [&](int64_t chunk) { parts[chunk] = chunk; });
    for (const int64_t part : parts) plain_sum += part;
  }
  EXPECT_EQ(plain_sum, 28'000);
}

}  // namespace
}  // namespace aril
