#include "base/work_queue.h"

#include <atomic>
#include <future>
#include <string>
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
  WorkQueue queue({.max_length = 10, .num_threads = 2});
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
  WorkQueue queue({.max_length = 10, .num_threads = 2});
  ASSERT_TRUE(queue.TryPush(
      [&] {
        begun.set_value();
        go_on.get_future().wait();
        order.push_back(0);
      },
      "seven"));
  begun.get_future().wait();
  for (int i : {1, 2}) ASSERT_TRUE(queue.TryPush([&order, i] { order.push_back(i); }, "seven"));
  ASSERT_TRUE(queue.TryPush(
      [&] {
        order.push_back(3);  // alone: all others of the lane wait
        done.set_value();
      },
      "seven"));
  // Neither another lane nor none waits for this one.
  ASSERT_TRUE(queue.TryPush([&] { other.set_value(); }, "eight"));
  other.get_future().wait();
  ASSERT_TRUE(queue.TryPush([&] { without.set_value(); }));
  without.get_future().wait();
  go_on.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

TEST(WorkQueue, ALaneMayHaveSeveralThreads) {
  std::promise<void> first, second, go_on, third, other;
  std::shared_future<void> may_go_on = go_on.get_future().share();
  WorkQueue queue({.max_length = 10, .num_threads = 3, .max_running_per_lane = 2});
  for (std::promise<void>* begun : {&first, &second}) {
    ASSERT_TRUE(queue.TryPush(
        [begun, may_go_on] {
          begun->set_value();
          may_go_on.wait();
        },
        "slow"));
  }
  first.get_future().wait();
  second.get_future().wait();
  std::atomic<bool> has_other_run = false;
  bool was_third = false;
  ASSERT_TRUE(queue.TryPush(
      [&] {
        was_third = has_other_run;
        third.set_value();
      },
      "slow"));
  ASSERT_TRUE(queue.TryPush(
      [&] {
        has_other_run = true;
        other.set_value();
      },
      "quick"));
  other.get_future().wait();
  go_on.set_value();
  third.get_future().wait();
  EXPECT_TRUE(was_third) << "the lane's third waited for one of the two";
}

// Holds the only thread of a queue until the test has pushed what it wants to be ordered. Outlives
// the queue.
struct Pause {
  void Begin(WorkQueue& queue) {
    EXPECT_TRUE(queue.TryPush(
        [this] {
          begun.set_value();
          end.get_future().wait();
        },
        "pause"));
    begun.get_future().wait();
  }
  std::promise<void> begun, end;
};

TEST(WorkQueue, LanesTakeTurns) {
  std::string order;
  std::promise<void> done;
  Pause pause;
  WorkQueue queue({.max_length = 10});
  pause.Begin(queue);
  const auto push = [&](const char* lane, const char* what) {
    ASSERT_TRUE(queue.TryPush([&order, what] { order += what; }, lane));
  };
  push("much", "a");
  push("much", "b");
  push("much", "c");
  push("little", "1");
  ASSERT_TRUE(queue.TryPush([&order] { order += "-"; }));
  push("little", "2");
  ASSERT_TRUE(queue.TryPush([&done] { done.set_value(); }, "much"));
  pause.end.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, "a1-b2c");
}

TEST(WorkQueue, ALaneHasItsPartOfTheQueue) {
  Pause pause;
  WorkQueue queue({.max_length = 4, .max_waiting_per_lane = 2});
  pause.Begin(queue);
  const auto push = [&](const char* lane) { return queue.TryPush([] {}, lane); };
  EXPECT_TRUE(push("much"));
  EXPECT_TRUE(push("much"));
  EXPECT_FALSE(push("much"));
  EXPECT_TRUE(push("little"));
  EXPECT_TRUE(queue.TryPush([] {}));
  EXPECT_FALSE(push("another")) << "the queue is full";
  pause.end.set_value();
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
