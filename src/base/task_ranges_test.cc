#include "base/task_ranges.h"

#include <vector>

#include "base/thread_pool.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

TEST(TaskRanges, GivesEachThreadItsOwnInOrderThenTheLastOfOthers) {
  TaskRanges ranges(2);
  ranges.Reset(7);  // 0–2 and 3–6
  EXPECT_EQ(ranges.Next(0), 0);
  EXPECT_EQ(ranges.Next(1), 3);
  EXPECT_EQ(ranges.Next(0), 1);
  EXPECT_EQ(ranges.Next(0), 2);
  EXPECT_EQ(ranges.Next(0), 6);
  EXPECT_EQ(ranges.Next(1), 4);
  EXPECT_EQ(ranges.Next(0), 5);
  EXPECT_EQ(ranges.Next(0), std::nullopt);
  EXPECT_EQ(ranges.Next(1), std::nullopt);
}

TEST(TaskRanges, HandsOutEveryTaskOnce) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  TaskRanges ranges(kThreads);
  for (int round = 0; round < 300; ++round) {
    const int64_t tasks = round % 37;
    ranges.Reset(tasks);
    std::vector<int> runs(static_cast<size_t>(tasks), 0);
    pool.ParallelFor(kThreads, [&](int64_t thread) {
      while (const std::optional<int64_t> task = ranges.Next(thread)) {
        ++runs[static_cast<size_t>(*task)];
      }
    });
    for (const int count : runs) ASSERT_EQ(count, 1);
  }
}

}  // namespace
}  // namespace aril
