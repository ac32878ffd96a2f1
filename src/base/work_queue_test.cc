#include "base/work_queue.h"

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace aril {
namespace {

TEST(WorkQueue, OneThreadRunsOneAfterTheOther) {
  std::vector<int> order;
  std::promise<void> done;
  {
    WorkQueue queue(100);
    for (int i = 0; i < 100; ++i) {
      // Pushed faster than they run, they wait.
      while (!queue.TryPush([&order, &done, i] {
        order.push_back(i);
        if (i == 99) done.set_value();
      })) {
        std::this_thread::yield();
      }
    }
    done.get_future().wait();
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(WorkQueue, OfSeveralThreadsOneMayBeBusy) {
  std::promise<void> begun, go_on, other;  // these outlive the queue, and so what uses them
  WorkQueue queue(10, 2);
  ASSERT_TRUE(queue.TryPush([&] {
    begun.set_value();
    go_on.get_future().wait();
  }));
  begun.get_future().wait();
  ASSERT_TRUE(queue.TryPush([&] { other.set_value(); }));
  other.get_future().wait();
  go_on.set_value();
}

TEST(WorkQueue, OfALaneOneRunsAtATime) {
  std::vector<int> order;
  std::promise<void> begun, go_on, other, without, done;
  WorkQueue queue(10, 2);
  ASSERT_TRUE(queue.TryPush(
      [&] {
        begun.set_value();
        go_on.get_future().wait();
        order.push_back(0);
      },
      7));
  begun.get_future().wait();
  for (int i : {1, 2}) ASSERT_TRUE(queue.TryPush([&order, i] { order.push_back(i); }, 7));
  ASSERT_TRUE(queue.TryPush(
      [&] {
        order.push_back(3);  // alone: all others of the lane wait
        done.set_value();
      },
      7));
  // Neither another lane nor none waits for this one.
  ASSERT_TRUE(queue.TryPush([&] { other.set_value(); }, 8));
  other.get_future().wait();
  ASSERT_TRUE(queue.TryPush([&] { without.set_value(); }));
  without.get_future().wait();
  go_on.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

TEST(WorkQueue, AFullQueueSaysSo) {
  std::promise<void> begun;
  std::promise<void> go_on;
  std::atomic<int> num_run = 0;
  {
    WorkQueue queue(1);
    ASSERT_TRUE(queue.TryPush([&] {
      begun.set_value();
      go_on.get_future().wait();
      ++num_run;
    }));
    begun.get_future().wait();
    EXPECT_TRUE(queue.TryPush([&] { ++num_run; }));
    EXPECT_FALSE(queue.TryPush([&] { ++num_run; }));
    go_on.set_value();
  }
  EXPECT_GE(num_run, 1) << "what has begun is waited for";
  EXPECT_LE(num_run, 2);
}

}  // namespace
}  // namespace aril
