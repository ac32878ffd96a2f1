// Adapters that take time to load: nobody waits for one but who uses it.

#include <algorithm>
#include <deque>
#include <functional>

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5};

class EngineLoadingTest : public ::testing::Test {
 public:
  ~EngineLoadingTest() override { CopyAll(); }

 protected:
  TestEngineOptions Options(int64_t max_num_seqs = 8) {
    TestEngineOptions options;
    options.engine.max_num_seqs = max_num_seqs;
    options.engine.run_aside = [this](auto copy) { aside_.push_back(std::move(copy)); };
    return options;
  }
  void Copy() {
    ASSERT_FALSE(aside_.empty());
    aside_.front()();
    aside_.pop_front();
  }
  void CopyAll() {
    while (!aside_.empty()) Copy();
  }
  // What each request gives alone.
  static Streams Expected(const std::vector<wire::SequenceRequest>& requests) {
    Streams streams;
    for (const wire::SequenceRequest& request : requests) {
      TestEngine engine({});
      streams[request.sequence.value()] = RunToEnd(*engine, {request})[request.sequence.value()];
    }
    return streams;
  }

  std::mt19937_64 random_{5};
  std::deque<std::function<void()>> aside_;
};

TEST_F(EngineLoadingTest, TheOthersRunMeanwhile) {
  const std::vector<wire::SequenceRequest> requests = {GreedyRequest(0, kPrompt, 4, AdapterId(0)),
                                                       GreedyRequest(1, kPrompt, 4)};
  Streams expected = Expected(requests);
  TestEngine engine(Options());
  Streams streams;
  for (const auto& request : requests) Add(*engine, request);
  for (int i = 0; i < 4; ++i) streams.Take(engine->Step());
  EXPECT_EQ(streams[1].tokens, expected[1].tokens);
  EXPECT_THAT(streams[0].tokens, IsEmpty());
  EXPECT_FALSE(engine->IsStalled());

  EXPECT_THAT(engine->Step(), IsEmpty());
  EXPECT_TRUE(engine->IsStalled()) << "the rest waits for the adapter";
  Copy();
  EXPECT_FALSE(engine->IsStalled());
  while (engine->HasWork()) streams.Take(engine->Step());
  EXPECT_EQ(streams[0].tokens, expected[0].tokens);
  EXPECT_THAT(streams.problems(), IsEmpty());
}

TEST_F(EngineLoadingTest, ItsLoadIsTimedByItself) {
  TestEngine engine(Options());
  Add(*engine, GreedyRequest(0, kPrompt, 1, AdapterId(0)));
  engine->Step();
  EXPECT_THAT(engine->Stats().adapter_load_times, IsEmpty());
  EXPECT_EQ(engine->Stats().num_rows, 0);
  EXPECT_EQ(engine->Stats().num_running, 1);
  CopyAll();
  engine->Step();
  EXPECT_THAT(engine->Stats().adapter_load_times, SizeIs(1));
  EXPECT_EQ(engine->Stats().num_generated, 1);
}

TEST_F(EngineLoadingTest, ChangedFilesHarmTheirRequestsAlone) {
  TestEngine engine(Options());
  engine.adapters().SetOpen(
      AdapterId(0), [] { return InvalidArgument("gone"); },
      [] { return InvalidArgument("changed"); });
  Streams expected = Expected({GreedyRequest(1, kPrompt, 4, AdapterId(1))});
  Add(*engine, GreedyRequest(0, kPrompt, 4, AdapterId(0)));
  Add(*engine, GreedyRequest(1, kPrompt, 4, AdapterId(1)));
  Streams streams;
  while (engine->HasWork()) {
    streams.Take(engine->Step());
    CopyAll();
  }
  EXPECT_THAT(streams[0].tokens, IsEmpty());
  EXPECT_EQ(streams[0].finish, wire::FinishReason::kError);
  EXPECT_THAT(Message(streams[0].error),
              AllOf(HasSubstr("the server's log says why"), Not(HasSubstr("changed"))));
  EXPECT_EQ(streams[1].tokens, expected[1].tokens);
  EXPECT_EQ(
      engine->Stats().pages_free + engine->Stats().pages_prefix + engine->PagesFor(AdapterId(1)),
      engine->Stats().pages_total)
      << "it has left the pool";
}

// Nobody waits for it for ever, and it takes no pages.
TEST_F(EngineLoadingTest, APinOfChangedFilesHoldsNothing) {
  TestEngine engine(Options());
  engine.adapters().SetOpen(
      AdapterId(0), [] { return InvalidArgument("gone"); },
      [] { return InvalidArgument("changed"); });
  const auto pin = engine->Pin(AdapterId(0));
  ASSERT_TRUE(pin.ok()) << pin.status();
  engine->Step();
  CopyAll();
  engine->Step();
  EXPECT_FALSE(engine->HasWork());
  EXPECT_EQ(engine->Stats().pages_free, engine->Stats().pages_total);
}

TEST_F(EngineLoadingTest, ACancelledSequenceLeavesItsAdapterToOthers) {
  TestEngine engine(Options());
  Add(*engine, GreedyRequest(0, kPrompt, 4, AdapterId(0)));
  engine->Step();
  engine->Step();
  EXPECT_TRUE(engine->IsStalled());
  engine->Cancel(SequenceId(0));
  EXPECT_FALSE(engine->IsStalled());
  EXPECT_THAT(engine->Step(), SizeIs(1));
  EXPECT_FALSE(engine->HasWork());
  EXPECT_LT(engine->Stats().pages_available, engine->Stats().pages_total);
  Add(*engine, GreedyRequest(1, kPrompt, 4, AdapterId(0)));
  engine->Step();
  EXPECT_THAT(aside_, SizeIs(1)) << "it is on its way already";
  Copy();
  Streams streams;
  while (engine->HasWork()) streams.Take(engine->Step());
  EXPECT_THAT(streams[1].tokens, SizeIs(4));
}

TEST_F(EngineLoadingTest, TheOldestWaitsForPagesThatALoadHas) {
  TestEngineOptions options = Options(1);
  const auto a = GreedyRequest(0, RandomPrompt(random_, 16), 60);
  const auto b = GreedyRequest(1, kPrompt, 1, AdapterId(0));
  TestEngine any({});
  // What a needs to join and to grow by while the adapter of b comes, not what it needs in the end.
  options.engine.num_pages = static_cast<int32_t>(any->PagesFor(AdapterId(0))) + 4 + 4 + 2;
  ASSERT_GE(options.engine.num_pages, (16 + 60) / 4);
  TestEngine engine(options);
  Streams streams;
  for (const auto& request : {a, b}) Add(*engine, request);
  while (!engine->IsStalled()) streams.Take(engine->Step());
  EXPECT_THAT(aside_, SizeIs(1));
  EXPECT_EQ(engine->Stats().num_running, 1);
  CopyAll();
  while (engine->HasWork()) {
    streams.Take(engine->Step());
    CopyAll();
  }
  EXPECT_EQ(engine->Stats().evictions, 0);
  Streams expected = Expected({a, b});
  for (const int64_t id : {0, 1}) EXPECT_EQ(streams[id].tokens, expected[id].tokens) << id;
}

TEST_F(EngineLoadingTest, WhatTheQueueNeedsNextIsLoadedAhead) {
  TestEngine engine(Options(1));
  const std::vector<wire::SequenceRequest> requests = {GreedyRequest(0, kPrompt, 3),
                                                       GreedyRequest(1, kPrompt, 3, AdapterId(0)),
                                                       GreedyRequest(2, kPrompt, 3, AdapterId(2))};
  Streams expected = Expected(requests);
  for (const auto& request : requests) Add(*engine, request);
  Streams streams;
  streams.Take(engine->Step());
  EXPECT_THAT(aside_, SizeIs(2));
  CopyAll();
  // No step is without rows from here on.
  while (engine->HasWork()) {
    streams.Take(engine->Step());
    EXPECT_GT(engine->Stats().num_rows, 0);
  }
  for (const auto& [id, stream] : streams.all()) {
    EXPECT_EQ(stream.tokens, expected[id.value()].tokens) << id;
  }
  EXPECT_EQ(engine->Stats().adapter_loads, 2);
}

// In a small pool, with loads that end at any time: every sequence gives what it gives alone.
TEST_F(EngineLoadingTest, WhenLoadsEndDoesNotShow) {
  TestEngine any({});
  const auto largest_adapter =
      static_cast<uint64_t>(std::max(any->PagesFor(AdapterId(0)), any->PagesFor(AdapterId(2))));
  int64_t drops = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<wire::SequenceRequest> requests;
    for (int64_t id = 0; id < 8; ++id) {
      requests.push_back(
          GreedyRequest(id, RandomPrompt(random, 1 + static_cast<int64_t>(random() % 20)),
                        1 + static_cast<int32_t>(random() % 12),
                        AdapterId(static_cast<int32_t>(random() % 4) - 1)));
    }
    Streams expected = Expected(requests);
    TestEngineOptions options = Options(1 + static_cast<int64_t>(random() % 4));
    options.engine.num_pages = static_cast<int32_t>(largest_adapter + 10 + random() % 20);
    TestEngine engine(options);
    for (const auto& request : requests) Add(*engine, request);
    Streams streams;
    while (engine->HasWork()) {
      streams.Take(engine->Step());
      if (!aside_.empty() && (engine->IsStalled() || random() % 4 == 0)) Copy();
    }
    EXPECT_THAT(streams.problems(), IsEmpty());
    drops += engine->Stats().adapter_evictions;
    for (auto& [id, stream] : streams.all()) {
      EXPECT_EQ(stream.tokens, expected[id.value()].tokens) << "sequence " << id;
    }
    CopyAll();
  }
  EXPECT_GT(drops, 10);
}

// Whatever share the adapters have, as long as the largest fits: everybody gets what it gets alone,
// and the share is kept in every step.
TEST_F(EngineLoadingTest, TheShareOfAdaptersDoesNotShow) {
  TestEngine any({});
  const int64_t largest = std::max(any->PagesFor(AdapterId(0)), any->PagesFor(AdapterId(2)));
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<wire::SequenceRequest> requests;
    for (int64_t id = 0; id < 8; ++id) {
      requests.push_back(GreedyRequest(id, RandomPrompt(random, 4), 4,
                                       AdapterId(static_cast<int32_t>(random() % 4) - 1)));
    }
    Streams expected = Expected(requests);
    TestEngineOptions options = Options(1 + static_cast<int64_t>(random() % 8));
    options.engine.max_adapter_pages = largest + static_cast<int64_t>(random() % 4);
    TestEngine engine(options);
    for (const auto& request : requests) Add(*engine, request);
    Streams streams;
    while (engine->HasWork()) {
      streams.Take(engine->Step());
      EXPECT_LE(engine->Stats().pages_adapter, options.engine.max_adapter_pages);
      if (!aside_.empty() && (engine->IsStalled() || random() % 4 == 0)) Copy();
      ASSERT_TRUE(!engine->IsStalled() || !aside_.empty()) << "nothing to wait for";
    }
    EXPECT_THAT(streams.problems(), IsEmpty());
    for (auto& [id, stream] : streams.all()) {
      EXPECT_EQ(stream.tokens, expected[id.value()].tokens) << "sequence " << id;
    }
    CopyAll();
  }
}

}  // namespace
}  // namespace aril
