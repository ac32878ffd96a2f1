#include "gateway/adapter_loads.h"

#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "gateway/load_waiters.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = AdapterLoadStatus::State;

// Loads that end when the test says so, or when they are cancelled.
class Loads {
 public:
  explicit Loads(AdapterLoads::Options options = {}) : loads(options) {}
  ~Loads() { ReleaseAll(); }

  Status Start(const std::string& tenant, const std::string& name, Status end = OkStatus(),
               const std::string& identity = "") {
    const std::string key = tenant + "/" + name;
    return loads.Start(
        {.tenant = tenant, .name = name, .source = "https://" + key, .identity = identity},
        [this, key, end](TransferMonitor& monitor) {
          monitor.OnProgress(3, 7);
          std::unique_lock lock(mutex_);
          running_.insert(key);
          changed_.notify_all();
          while (!monitor.IsCancelled() && !released_.contains(key) && !all_) {
            // A cancelled load is told by its own Wait only.
            lock.unlock();
            monitor.Wait(std::chrono::milliseconds(1));
            lock.lock();
          }
          running_.erase(key);
          changed_.notify_all();
          return monitor.IsCancelled() ? MakeStatus(StatusCode::kCancelled, "cancelled") : end;
        },
        [this, key](const Status& status) {
          const std::lock_guard lock(mutex_);
          ended_[key].push_back(status.code());
          changed_.notify_all();
        });
  }
  void Release(const std::string& key) {
    const std::lock_guard lock(mutex_);
    released_.insert(key);
  }
  void ReleaseAll() {
    const std::lock_guard lock(mutex_);
    all_ = true;
  }
  std::set<std::string> WaitForRunning(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_.size() == count; });
    return running_;
  }
  std::vector<StatusCode> WaitForEnd(const std::string& key, size_t count = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_[key].size() >= count; });
    return ended_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> running_, released_;
  std::map<std::string, std::vector<StatusCode>> ended_;
  bool all_ = false;

 public:
  AdapterLoads loads;
};

TEST(AdapterLoads, IsSeenWhileItRunsAndThenForgotten) {
  Loads fake;
  EXPECT_FALSE(fake.loads.Find("t", "a").has_value());
  ASSERT_TRUE(fake.Start("t", "a").ok());
  fake.WaitForRunning(1);
  const auto status = fake.loads.Find("t", "a");
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->state, State::kLoading);
  EXPECT_EQ(status->source, "https://t/a");
  EXPECT_EQ(status->done_bytes, 3);
  EXPECT_EQ(status->total_bytes, 7);
  EXPECT_FALSE(fake.loads.Find("u", "a").has_value()) << "another tenant's";
  EXPECT_EQ(fake.loads.List("t").size(), 1u);
  EXPECT_TRUE(fake.loads.List("u").empty());
  fake.Release("t/a");
  EXPECT_THAT(fake.WaitForEnd("t/a"), ElementsAre(StatusCode::kOk));
  EXPECT_FALSE(fake.loads.Find("t", "a").has_value());
}

TEST(AdapterLoads, TrialsAreNobodysToSeeAndEndWithTheRest) {
  std::promise<void> begun;
  std::vector<StatusCode> ended;  // by trial; each by one thread
  ended.resize(3);
  {
    AdapterLoads loads({.max_parallel = 1});
    const auto start = [&](size_t i, AdapterLoads::Work work) {
      ASSERT_TRUE(loads
                      .Start({.tenant = "t", .name = "a", .source = "x", .is_trial = true},
                             std::move(work),
                             [&ended, i](const Status& status) { ended[i] = status.code(); })
                      .ok());
    };
    start(0, [](TransferMonitor&) { return NotFound("no such file"); });
    start(1, [&](TransferMonitor& monitor) {
      begun.set_value();
      while (!monitor.IsCancelled()) monitor.Wait(std::chrono::seconds(60));
      return MakeStatus(StatusCode::kCancelled, "cancelled");
    });
    start(2, [](TransferMonitor&) -> Status { throw std::logic_error("it never runs"); });
    begun.get_future().wait();
    EXPECT_FALSE(loads.Find("t", "a").has_value());
    EXPECT_TRUE(loads.List("t").empty());
    EXPECT_FALSE(loads.WhenOver("t", "a", [] {}));
    EXPECT_FALSE(loads.Cancel("t", "a"));
  }
  EXPECT_THAT(ended,
              ElementsAre(StatusCode::kNotFound, StatusCode::kCancelled, StatusCode::kCancelled));
}

TEST(AdapterLoads, AFailureIsRememberedUntilTheNameChanges) {
  Loads fake;
  ASSERT_TRUE(fake.Start("t", "a", NotFound("no such file")).ok());
  fake.Release("t/a");
  EXPECT_THAT(fake.WaitForEnd("t/a"), ElementsAre(StatusCode::kNotFound));
  ASSERT_EQ(fake.loads.Find("t", "a")->state, State::kFailed);
  EXPECT_EQ(Message(fake.loads.Find("t", "a")->error), "no such file");
  EXPECT_FALSE(fake.loads.WhenOver("t", "a", [] {}));
  EXPECT_TRUE(fake.loads.Cancel("t", "a"));
  EXPECT_FALSE(fake.loads.Cancel("t", "a"));
  EXPECT_FALSE(fake.loads.Find("t", "a").has_value());
}

TEST(AdapterLoads, FailuresAreRememberedWithinBounds) {
  Loads fake({.max_failed = 2});
  fake.ReleaseAll();
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(fake.Start("t", name, NotFound("no")).ok());
    fake.WaitForEnd(std::string("t/") + name);
  }
  EXPECT_FALSE(fake.loads.Find("t", "a").has_value());
  EXPECT_TRUE(fake.loads.Find("t", "b").has_value());
  EXPECT_TRUE(fake.loads.Find("t", "c").has_value());
}

TEST(AdapterLoads, NobodyTakesAllThreads) {
  Loads fake({.max_parallel = 3, .max_parallel_per_tenant = 2});
  for (const char* name : {"a", "b", "c", "d"}) ASSERT_TRUE(fake.Start("slow", name).ok());
  EXPECT_THAT(fake.WaitForRunning(2), ElementsAre("slow/a", "slow/b"));
  ASSERT_TRUE(fake.Start("other", "a").ok());
  EXPECT_THAT(fake.WaitForRunning(3), ElementsAre("other/a", "slow/a", "slow/b"));
  EXPECT_EQ(fake.loads.Find("slow", "c")->state, State::kQueued);
  fake.Release("slow/a");
  fake.WaitForEnd("slow/a");
  EXPECT_THAT(fake.WaitForRunning(3), ElementsAre("other/a", "slow/b", "slow/c"));
}

TEST(AdapterLoads, QueuesAreBounded) {
  Loads fake({.max_parallel = 1,
              .max_parallel_per_tenant = 1,
              .max_queued = 3,
              .max_queued_per_tenant = 2});
  ASSERT_TRUE(fake.Start("a", "0").ok());
  fake.WaitForRunning(1);
  EXPECT_TRUE(fake.Start("a", "1").ok());
  EXPECT_TRUE(fake.Start("a", "2").ok());
  EXPECT_EQ(fake.Start("a", "3").code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(fake.Start("b", "1").ok());
  EXPECT_EQ(fake.Start("b", "2").code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(fake.loads.Find("b", "2").has_value());
}

TEST(AdapterLoads, TheNextLoadOfANameTakesItsPlace) {
  Loads fake({.max_parallel = 1, .max_parallel_per_tenant = 1});
  ASSERT_TRUE(fake.Start("t", "a").ok());
  fake.WaitForRunning(1);
  std::promise<void> over;
  ASSERT_TRUE(fake.loads.WhenOver("t", "a", [&] { over.set_value(); }));
  ASSERT_TRUE(fake.Start("t", "a").ok());
  EXPECT_THAT(fake.WaitForEnd("t/a"), ElementsAre(StatusCode::kCancelled));
  auto future = over.get_future();
  EXPECT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::timeout)
      << "who waited for the first waits for the second";
  fake.Release("t/a");
  EXPECT_THAT(fake.WaitForEnd("t/a", 2), ElementsAre(StatusCode::kCancelled, StatusCode::kOk));
  future.wait();
}

TEST(AdapterLoads, WhatIsUnderWayIsNotBegunAgain) {
  Loads fake({.max_parallel = 1, .max_parallel_per_tenant = 1});
  ASSERT_TRUE(fake.Start("t", "a", OkStatus(), "v1").ok());
  fake.WaitForRunning(1);
  ASSERT_TRUE(fake.Start("t", "a", OkStatus(), "v1").ok());
  fake.Release("t/a");
  EXPECT_THAT(fake.WaitForEnd("t/a", 2), ElementsAre(StatusCode::kOk, StatusCode::kOk));
  EXPECT_TRUE(fake.loads.List("t").empty());

  ASSERT_TRUE(fake.Start("t", "b", NotFound("no"), "v1").ok());
  fake.WaitForRunning(1);
  ASSERT_TRUE(fake.Start("t", "b", NotFound("no"), "v2").ok());
  EXPECT_THAT(fake.WaitForEnd("t/b"), ElementsAre(StatusCode::kCancelled)) << "another one";
  fake.Release("t/b");
  EXPECT_THAT(fake.WaitForEnd("t/b", 2),
              ElementsAre(StatusCode::kCancelled, StatusCode::kNotFound));
  ASSERT_TRUE(fake.Start("t", "b", OkStatus(), "v2").ok()) << "one that failed is begun again";
  fake.WaitForEnd("t/b", 3);
}

TEST(AdapterLoads, CancellingEndsWhatRunsAndWhatWaits) {
  Loads fake({.max_parallel = 1, .max_parallel_per_tenant = 1});
  ASSERT_TRUE(fake.Start("t", "a").ok());
  fake.WaitForRunning(1);
  ASSERT_TRUE(fake.Start("t", "b").ok());
  int num_over = 0;
  ASSERT_TRUE(fake.loads.WhenOver("t", "b", [&] { ++num_over; }));
  EXPECT_TRUE(fake.loads.Cancel("t", "b"));
  EXPECT_EQ(num_over, 1);
  EXPECT_THAT(fake.WaitForEnd("t/b"), ElementsAre(StatusCode::kCancelled));
  EXPECT_TRUE(fake.loads.Cancel("t", "a"));
  EXPECT_THAT(fake.WaitForEnd("t/a"), ElementsAre(StatusCode::kCancelled));
  fake.WaitForRunning(0);
  EXPECT_TRUE(fake.loads.List("t").empty());
}

TEST(AdapterLoads, EndsAllWhenItGoes) {
  std::vector<StatusCode> ended;
  int num_over = 0;
  {
    Loads fake({.max_parallel = 1, .max_parallel_per_tenant = 1});
    ASSERT_TRUE(fake.Start("t", "a").ok());
    fake.WaitForRunning(1);
    ASSERT_TRUE(fake.loads
                    .Start(
                        {.tenant = "t", .name = "b", .source = "x", .identity = ""},
                        [](TransferMonitor&) { return OkStatus(); },
                        [&](const Status& status) { ended.push_back(status.code()); })
                    .ok());
    ASSERT_TRUE(fake.loads.WhenOver("t", "b", [&] { ++num_over; }));
  }
  EXPECT_EQ(ended.size(), 1u);
  EXPECT_EQ(num_over, 1);
}

TEST(AdapterLoads, WhatIsThrownFailsOneLoad) {
  AdapterLoads loads;
  std::promise<Status> end;
  ASSERT_TRUE(loads
                  .Start(
                      {.tenant = "t", .name = "a", .source = "x", .identity = ""},
                      [](TransferMonitor&) -> Status { throw std::runtime_error("out of memory"); },
                      [&](const Status& status) { end.set_value(status); })
                  .ok());
  EXPECT_EQ(end.get_future().get().code(), StatusCode::kInternal);
  EXPECT_EQ(loads.Find("t", "a")->state, State::kFailed);
}

// The server's thread is the test's.
class LoadWaitersTest : public ::testing::Test {
 protected:
  LoadWaitersTest()
      : fake_({.max_parallel = 1}),
        waiters_(
            2,
            [this](std::function<void()> function) {
              const std::lock_guard lock(mutex_);
              posted_.push_back(std::move(function));
              changed_.notify_all();
            },
            [this](Duration after, std::function<void()> function) {
              timers_.emplace_back(after, std::move(function));
            }) {
    EXPECT_TRUE(fake_.Start("t", "a").ok());
    fake_.WaitForRunning(1);
  }
  std::optional<LoadWaiters::Ticket> Wait(const std::string& who) {
    return waiters_.Wait(
        fake_.loads, "t", "a", std::chrono::seconds(5), [this, who](LoadWaiters::Outcome outcome) {
          outcomes_.push_back(who + (outcome == LoadWaiters::Outcome::kOver ? " over" : " late"));
        });
  }
  void EndLoad() {
    fake_.Release("t/a");
    fake_.WaitForEnd("t/a");
    std::function<void()> posted;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !posted_.empty(); });
      posted = std::move(posted_.back());
      posted_.pop_back();
    }
    posted();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> posted_;
  std::vector<std::pair<Duration, std::function<void()>>> timers_;
  std::vector<std::string> outcomes_;
  Loads fake_;
  LoadWaiters waiters_;
};

TEST_F(LoadWaitersTest, AllAreToldWhenTheLoadIsOver) {
  Wait("first");
  Wait("second");
  EXPECT_TRUE(outcomes_.empty());
  EndLoad();
  EXPECT_THAT(outcomes_, ElementsAre("first over", "second over"));
  for (const auto& [after, timer] : timers_) {
    EXPECT_EQ(after, std::chrono::seconds(5));
    timer();
  }
  EXPECT_EQ(outcomes_.size(), 2u) << "once each";
  EXPECT_TRUE(posted_.empty()) << "one message for all";
}

TEST_F(LoadWaitersTest, TimeIsUpForEachAlone) {
  Wait("first");
  Wait("second");
  timers_[0].second();
  EXPECT_THAT(outcomes_, ElementsAre("first late"));
  EndLoad();
  EXPECT_THAT(outcomes_, ElementsAre("first late", "second over"));
}

TEST_F(LoadWaitersTest, OnlySoManyWait) {
  const auto first = Wait("first");
  Wait("second");
  EXPECT_FALSE(Wait("third").has_value());
  waiters_.Cancel(*first);
  waiters_.Cancel(*first);
  EXPECT_TRUE(Wait("fourth").has_value());
  waiters_.EndAll(LoadWaiters::Outcome::kTimeIsUp);
  EXPECT_THAT(outcomes_, ElementsAre("second late", "fourth late"));
  EndLoad();
  EXPECT_EQ(outcomes_.size(), 2u);
}

TEST_F(LoadWaitersTest, WhatIsOverAlreadyIsToldToo) {
  fake_.Release("t/a");
  fake_.WaitForEnd("t/a");
  Wait("late comer");
  ASSERT_EQ(posted_.size(), 1u);
  posted_[0]();
  EXPECT_THAT(outcomes_, ElementsAre("late comer over"));
}

}  // namespace
}  // namespace aril::gateway
