// The mailbox and the thread. Runs under the thread sanitizer as well.

#include "runner/runner.h"

#include <future>
#include <random>
#include <thread>

#include "base/retry_after.h"
#include "base/work_queue.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::FinishReason;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5};

// Collects streams; lets a test wait for ends.
class RecordingSink final : public wire::EventSink {
 public:
  void OnStep(const wire::StepStats& stats, std::vector<wire::TokenEvent> events) override {
    if (on_step) on_step(events);
    if (on_stats) on_stats(stats);
    const std::lock_guard lock(mutex_);
    streams_.Take(events);
    for (const wire::TokenEvent& event : events) num_finished_ += event.finish.has_value() ? 1 : 0;
    stats_ = stats;
    changed_.notify_all();
  }

  void WaitForFinished(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_finished_ >= count; });
  }

  // Only when no more steps come.
  Streams& streams() { return streams_; }
  const wire::StepStats& stats() const { return stats_; }

  // Called in the runner's thread before the events are taken.
  std::function<void(const std::vector<wire::TokenEvent>&)> on_step;
  std::function<void(const wire::StepStats&)> on_stats;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Streams streams_;
  size_t num_finished_ = 0;
  wire::StepStats stats_;
};

wire::SequenceRequest RandomRequest(int64_t id, std::mt19937_64& random) {
  std::vector<int32_t> prompt(1 + random() % 20);
  for (int32_t& token : prompt) token = static_cast<int32_t>(random() % 171);
  return GreedyRequest(id, std::move(prompt), static_cast<int32_t>(random() % 12),
                       AdapterId(static_cast<int32_t>(random() % 4) - 1));
}

TEST(Runner, DeliversWhatTheEngineGives) {
  TestEngine alone({});
  const auto a = GreedyRequest(0, kPrompt, 20, AdapterId(0));
  const auto b = GreedyRequest(1, kPrompt, 10, AdapterId(1));
  Streams expected = RunToEnd(*alone, {a, b});

  TestEngine engine({});
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock());
  runner.Start(sink);
  ASSERT_TRUE(runner.Submit(a).ok());
  ASSERT_TRUE(runner.Submit(b).ok());
  sink.WaitForFinished(2);
  runner.Stop();
  EXPECT_THAT(sink.streams().problems(), IsEmpty());
  EXPECT_EQ(sink.streams()[0].tokens, expected[0].tokens);
  EXPECT_EQ(sink.streams()[1].tokens, expected[1].tokens);
  EXPECT_EQ(sink.stats().pages_kv, 0);
}

TEST(Runner, ItsStatisticsAreThereFromTheStart) {
  TestEngine engine({});
  const int64_t num_pages = engine->Stats().pages_total;
  RecordingSink sink;
  std::promise<wire::StepStats> first;
  sink.on_stats = [&](const wire::StepStats& stats) { first.set_value(stats); };
  Runner runner(*engine, 10, engine.clock());
  runner.Start(sink);
  const wire::StepStats stats = first.get_future().get();
  EXPECT_EQ(stats.pages_total, num_pages);
  EXPECT_EQ(stats.num_running, 0);
  EXPECT_EQ(stats.step, 0);
}

TEST(Runner, SleepsUntilAnAdapterIsLoaded) {
  WorkQueue copies(100);
  TestEngineOptions options;
  options.engine.run_aside = [&](auto copy) { ASSERT_TRUE(copies.TryPush(std::move(copy))); };
  TestEngine alone({});
  TestEngine engine(options);
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock());
  runner.Start(sink);
  std::vector<wire::SequenceRequest> requests;
  for (int32_t i = 0; i < 9; ++i)
    requests.push_back(GreedyRequest(i, kPrompt, 5, AdapterId(i % 3)));
  Streams expected = RunToEnd(*alone, requests);
  for (const auto& request : requests) ASSERT_TRUE(runner.Submit(request).ok());
  sink.WaitForFinished(9);
  runner.Stop();
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(sink.streams()[i].tokens, expected[i].tokens);
}

// Its pages are available again, and whoever asks is told.
TEST(Runner, StepsWhenALoadHasEndedThatNobodyWantsAnyMore) {
  TestEngineOptions options;
  std::promise<std::function<void()>> begun;
  options.engine.run_aside = [&](auto copy) { begun.set_value(std::move(copy)); };
  TestEngine engine(options);
  std::promise<void> loaded;
  RecordingSink sink;
  bool has_ended = false;
  sink.on_step = [&](const std::vector<wire::TokenEvent>& events) {
    if (!std::exchange(has_ended, has_ended || !events.empty())) return;
    if (engine->Stats().pages_available == options.engine.num_pages) loaded.set_value();
  };
  Runner runner(*engine, 10, engine.clock());
  runner.Start(sink);
  ASSERT_TRUE(runner.Submit(GreedyRequest(0, kPrompt, 4, AdapterId(0))).ok());
  const std::function<void()> copy = begun.get_future().get();
  runner.Cancel(SequenceId(0));
  sink.WaitForFinished(1);
  copy();
  loaded.get_future().wait();
  runner.Stop();
}

TEST(Runner, RefusesMoreThanItsQueueHolds) {
  TestEngine engine({});
  RecordingSink sink;
  Runner runner(*engine, 3, engine.clock());
  for (const int64_t id : {0, 1, 2}) EXPECT_TRUE(runner.Submit(GreedyRequest(id, kPrompt, 2)).ok());
  const Status full = runner.Submit(GreedyRequest(3, kPrompt, 2));
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(full), "the queue is full (3 sequences); try again later");
  runner.Start(sink);
  sink.WaitForFinished(3);
  EXPECT_TRUE(runner.Submit(GreedyRequest(3, kPrompt, 2)).ok()) << "finished ones make room";
  sink.WaitForFinished(4);
  runner.Stop();
  EXPECT_THAT(sink.streams().all(), SizeIs(4)) << "the refused submission left nothing behind";
}

TEST(Runner, RefusesAnIdThatIsInUse) {
  TestEngine engine({});
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock());
  ASSERT_TRUE(runner.Submit(GreedyRequest(7, kPrompt, 2)).ok());
  const Status twice = runner.Submit(GreedyRequest(7, kPrompt, 2));
  EXPECT_EQ(twice.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(twice), "sequence 7 is already running");
  runner.Start(sink);
  sink.WaitForFinished(1);
  runner.Stop();
  EXPECT_THAT(sink.streams().problems(), IsEmpty());
}

TEST(Runner, RefusesWhatTheEngineCannotRun) {
  TestEngine engine({});
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock());
  runner.Start(sink);
  EXPECT_EQ(runner.Submit(GreedyRequest(0, {}, 2)).code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(runner.Submit(GreedyRequest(0, {1}, 1000))),
              HasSubstr("maximum context length"));
  runner.Stop();
  EXPECT_THAT(sink.streams().all(), IsEmpty());
}

TEST(Runner, CancelEndsARunningSequence) {
  TestEngine engine({});
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock());
  std::promise<void> first_token;
  sink.on_step = [&, told = false](const auto& events) mutable {
    if (!events.empty() && !std::exchange(told, true)) first_token.set_value();
  };
  runner.Start(sink);
  ASSERT_TRUE(runner.Submit(GreedyRequest(0, kPrompt, 120)).ok());
  first_token.get_future().wait();
  for (int i = 0; i < 3; ++i) runner.Cancel(SequenceId(0));
  runner.Cancel(SequenceId(12345));
  sink.WaitForFinished(1);
  runner.Cancel(SequenceId(0));
  runner.Stop();
  EXPECT_THAT(sink.streams().problems(), IsEmpty());
  EXPECT_TRUE(sink.streams()[0].finish.has_value()) << "cancelled, or finished just before";
}

// A cancellation that comes while its sequence runs its last step must not reach the next sequence
// of that id, which a scheduler may send as a further attempt.
TEST(Runner, ACancellationConcernsOneLifeOfAnId) {
  TestEngine engine({});
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock());
  const auto request = GreedyRequest(5, kPrompt, 1);
  int num_ends = 0;
  engine->executor().SetLogitsObserver([&](const Sequence& sequence, std::span<const float>) {
    if (num_ends == 0) runner.Cancel(sequence.id());
  });
  sink.on_step = [&](const std::vector<wire::TokenEvent>& events) {
    if (events.empty() || ++num_ends > 1) return;
    EXPECT_EQ(events[0].finish, FinishReason::kLength);
    // From another thread: the sink itself must not call the runner.
    std::thread([&] { EXPECT_TRUE(runner.Submit(request).ok()); }).join();
  };
  runner.Start(sink);
  ASSERT_TRUE(runner.Submit(request).ok());
  sink.WaitForFinished(2);
  runner.Stop();
  EXPECT_EQ(sink.streams()[5].finish, FinishReason::kLength);
}

TEST(Runner, StopEndsEveryAcceptedSequenceOnce) {
  TestEngine engine({});
  RecordingSink sink;
  Runner runner(*engine, 100, engine.clock());
  std::promise<void> running;
  sink.on_step = [&, told = false](const auto& events) mutable {
    if (!events.empty() && !std::exchange(told, true)) running.set_value();
  };
  runner.Start(sink);
  // Eight run, the others wait.
  for (int64_t id = 0; id < 20; ++id)
    ASSERT_TRUE(runner.Submit(GreedyRequest(id, kPrompt, 120)).ok());
  running.get_future().wait();
  for (int64_t id = 20; id < 30; ++id)
    ASSERT_TRUE(runner.Submit(GreedyRequest(id, kPrompt, 120)).ok());
  runner.Stop();
  EXPECT_THAT(sink.streams().problems(), IsEmpty());
  EXPECT_THAT(sink.streams().all(), SizeIs(30));
  for (const auto& [id, stream] : sink.streams().all())
    EXPECT_TRUE(stream.finish.has_value()) << "sequence " << id;
  EXPECT_EQ(sink.stats().pages_kv, 0);
  const Status late = runner.Submit(GreedyRequest(99, kPrompt, 1));
  EXPECT_EQ(late.code(), StatusCode::kUnavailable);
  EXPECT_EQ(Message(late), "the server is shutting down");
  runner.Cancel(SequenceId(3));
  runner.Stop();
}

TEST(Runner, StopsFromSeveralThreadsAtOnce) {
  TestEngine engine({});
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock());
  runner.Start(sink);
  ASSERT_TRUE(runner.Submit(GreedyRequest(0, kPrompt, 120)).ok());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      runner.Stop();
      // Whoever returns from Stop has seen the last event.
      EXPECT_TRUE(sink.streams().all().at(SequenceId(0)).finish.has_value());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Runner, MayBeStoppedBeforeItIsStarted) {
  TestEngine engine({});
  RecordingSink sink;
  {
    Runner runner(*engine, 10, engine.clock());
    runner.Stop();
    runner.Start(sink);  // a signal came while the server started
    EXPECT_EQ(runner.Submit(GreedyRequest(0, kPrompt, 1)).code(), StatusCode::kUnavailable);
  }
  { const Runner never_used(*engine, 10, engine.clock()); }
  EXPECT_THAT(sink.streams().all(), IsEmpty());
}

// One sequence at a time, the newest first. Tenants say how they are turned away.
class OneAtATime final : public wire::AdmissionControl {
 public:
  Decisions OnSubmitted(const wire::SequenceRequest& request, int64_t adapter_pages,
                        TimePoint) override {
    const SequenceId id = request.sequence;
    EXPECT_EQ(adapter_pages > 0, !request.adapters.empty());
    if (request.tenant == "refused") return {.begin = {}, .refuse = {{id, Busy()}}};
    (request.tenant == "late" ? late_ : waiting_).push_back(id);
    return Next();
  }
  Decisions OnClosed(SequenceId sequence, TimePoint) override {
    for (auto* list : {&waiting_, &late_}) std::erase(*list, sequence);
    return Next();
  }
  Decisions OnStep(const wire::StepStats& stats, std::span<const SequenceId> finished,
                   TimePoint) override {
    EXPECT_LE(stats.sequences.size(), 1u);
    EXPECT_LE(finished.size(), 1u);
    for (const SequenceId id : finished) {
      EXPECT_EQ(std::exchange(running_, SequenceId()), id);
    }
    Decisions decisions = Next();
    for (const SequenceId id : std::exchange(late_, {})) decisions.refuse.emplace_back(id, Busy());
    return decisions;
  }

 private:
  static Status Busy() { return WithRetryAfter(Unavailable("busy"), std::chrono::seconds(7)); }
  Decisions Next() {
    if (running_.valid() || waiting_.empty()) return {};
    running_ = waiting_.back();
    waiting_.pop_back();
    return {.begin = {running_}, .refuse = {}};
  }

  std::vector<SequenceId> waiting_, late_;
  SequenceId running_;
};

TestEngineOptions Listing() {
  TestEngineOptions options;
  options.engine.lists_sequences = true;
  return options;
}

TEST(RunnerAdmission, DecidesWhoBeginsAndWhen) {
  TestEngine engine(Listing());
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock(), std::make_unique<OneAtATime>());
  std::vector<int64_t> order;
  int32_t most_waiting = 0;
  sink.on_stats = [&](const wire::StepStats& stats) {
    most_waiting = std::max(most_waiting, stats.num_waiting);
  };
  sink.on_step = [&](const std::vector<wire::TokenEvent>& events) {
    for (const wire::TokenEvent& event : events) {
      if (event.finish) order.push_back(event.sequence.value());
    }
  };
  std::vector<wire::SequenceRequest> requests;
  for (int32_t i = 0; i < 4; ++i)
    requests.push_back(GreedyRequest(i, kPrompt, 6, AdapterId(i - 1)));
  for (const auto& request : requests) ASSERT_TRUE(runner.Submit(request).ok());
  runner.Start(sink);
  sink.WaitForFinished(4);
  runner.Stop();
  EXPECT_EQ(order, (std::vector<int64_t>{0, 3, 2, 1})) << "the first one had begun at once";
  EXPECT_EQ(most_waiting, 3) << "who is held back waits, for whoever looks";
  TestEngine alone({});
  Streams expected = RunToEnd(*alone, requests);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(sink.streams()[i].tokens, expected[i].tokens);
}

TEST(RunnerAdmission, RefusesAtOnceOrLater) {
  TestEngine engine(Listing());
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock(), std::make_unique<OneAtATime>());
  wire::SequenceRequest refused = GreedyRequest(0, kPrompt, 6);
  refused.tenant = "refused";
  const Status busy = runner.Submit(refused);
  EXPECT_EQ(busy.code(), StatusCode::kUnavailable);
  EXPECT_EQ(RetryAfter(busy), Duration(std::chrono::seconds(7)));
  wire::SequenceRequest late = GreedyRequest(1, kPrompt, 6);
  late.tenant = "late";
  ASSERT_TRUE(runner.Submit(late).ok());
  ASSERT_TRUE(runner.Submit(GreedyRequest(0, kPrompt, 6)).ok()) << "its id is free";
  runner.Start(sink);
  sink.WaitForFinished(2);
  runner.Stop();
  EXPECT_THAT(sink.streams().problems(), IsEmpty());
  EXPECT_EQ(sink.streams()[0].finish, FinishReason::kLength);
  EXPECT_EQ(sink.streams()[1].finish, FinishReason::kError);
  EXPECT_EQ(RetryAfter(sink.streams()[1].error), Duration(std::chrono::seconds(7)));
}

TEST(RunnerAdmission, WhoIsHeldBackCanBeCancelledAndStopped) {
  TestEngine engine(Listing());
  RecordingSink sink;
  Runner runner(*engine, 10, engine.clock(), std::make_unique<OneAtATime>());
  for (int64_t i = 0; i < 5; ++i) ASSERT_TRUE(runner.Submit(GreedyRequest(i, kPrompt, 100)).ok());
  runner.Cancel(SequenceId(2));
  runner.Start(sink);
  sink.WaitForFinished(1);
  runner.Stop();
  EXPECT_THAT(sink.streams().problems(), IsEmpty());
  for (int64_t i = 0; i < 5; ++i) EXPECT_TRUE(sink.streams()[i].finish.has_value()) << i;
  EXPECT_THAT(sink.streams()[2].tokens, IsEmpty());
  EXPECT_EQ(sink.streams()[2].finish, FinishReason::kCancelled);
}

// Several threads submit and cancel; another stops the runner in between. Each accepted sequence
// ends exactly once, the refused ones never begin. Two of the seeds have an admission control that
// turns some away, at once or later.
TEST(Runner, ThreadsMaySubmitCancelAndStopAtWill) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    constexpr int64_t kThreads = 4;
    constexpr int64_t kPerThread = 60;
    TestEngine engine(Listing());
    RecordingSink sink;
    Runner runner(*engine, 40, engine.clock(), seed < 2 ? nullptr : std::make_unique<OneAtATime>());
    runner.Start(sink);
    std::vector<std::vector<int64_t>> accepted(kThreads);
    std::vector<std::thread> threads;
    for (int64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(seed * kThreads + static_cast<uint64_t>(t));
        for (int64_t i = 0; i < kPerThread; ++i) {
          const int64_t id = t * kPerThread + i;
          wire::SequenceRequest request = RandomRequest(id, random);
          request.tenant = i % 7 == 3 ? "refused" : i % 5 == 2 ? "late" : "default";
          const Status status = runner.Submit(std::move(request));
          if (status.ok()) accepted[static_cast<size_t>(t)].push_back(id);
          EXPECT_TRUE(status.ok() || status.code() == StatusCode::kResourceExhausted ||
                      status.code() == StatusCode::kUnavailable)
              << status;
          if (random() % 3 == 0)
            runner.Cancel(SequenceId(static_cast<int64_t>(random() % (kThreads * kPerThread))));
          if (seed % 2 == 1 && id == kPerThread / 2) runner.Stop();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    size_t num_accepted = 0;
    for (const auto& ids : accepted) num_accepted += ids.size();
    sink.WaitForFinished(num_accepted);
    runner.Stop();
    EXPECT_GT(num_accepted, 0u);
    EXPECT_THAT(sink.streams().problems(), IsEmpty());
    EXPECT_EQ(sink.streams().all().size(), num_accepted);
    for (const auto& ids : accepted) {
      for (const int64_t id : ids) EXPECT_TRUE(sink.streams()[id].finish.has_value());
    }
    EXPECT_EQ(engine->Stats().pages_kv, 0);
    EXPECT_THAT(engine->Stats().adapters, IsEmpty());
  }
}

}  // namespace
}  // namespace aril
