// What is pinned, what fits beside it, and that it stays.

#include "engine/standing_pins.h"

#include <deque>
#include <functional>
#include <map>
#include <string>

#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr AdapterId kA{0};
constexpr AdapterId kB{1};

// What is decided, without a pool: no adapter is looked at.
class PinLedgerTest : public ::testing::Test {
 protected:
  auto Pin(AdapterId id, int64_t num_pages) { return pins_.Pin({id, nullptr}, num_pages); }

  StandingPins pins_{{.num_pages = 100, .max_context_pages = 40}};
};

TEST_F(PinLedgerTest, LeavesRoomForTheLongestContext) {
  const auto a = Pin(kA, 50);
  ASSERT_TRUE(a.ok()) << a.status();
  const auto b = Pin(kB, 11);
  EXPECT_EQ(b.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(b.status()),
            "pinned, the adapter would keep 11 pages of the pool's 100; beside 50 pages of other "
            "adapters that the tenant has pinned 39 would be left, and the longest context takes "
            "40; unpin another adapter, or start the server with a larger --pool-bytes or a "
            "smaller --max-model-len");
  EXPECT_TRUE(Pin(kB, 10).ok());
}

TEST_F(PinLedgerTest, AnAdapterCountsOnceHoweverOftenItIsPinned) {
  auto first = Pin(kA, 50);
  auto second = Pin(kA, 50);
  ASSERT_TRUE(first.ok() && second.ok());
  first->reset();
  EXPECT_FALSE(Pin(kB, 20).ok()) << "the second pin holds it";
  second->reset();
  EXPECT_TRUE(Pin(kB, 20).ok());
}

TEST_F(PinLedgerTest, WhatWasAcceptedFitsToTheEnd) {
  auto need = pins_.Reserve({{kA, 40}}, 30);
  ASSERT_TRUE(need.ok());
  const auto b = Pin(kB, 31);
  EXPECT_EQ(b.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(b.status()),
            "pinned, the adapter would keep 31 pages, and leave too few for a request in work; try "
            "again when it is done, or start the server with a larger --pool-bytes");
  EXPECT_TRUE(Pin(kA, 40).ok()) << "its own adapter is not counted twice";
  { const StandingPins::Room ended = *std::move(need); }
  EXPECT_TRUE(Pin(kB, 31).ok());
}

TEST_F(PinLedgerTest, OnlyWhatFitsBesideThePinsIsAccepted) {
  const auto a = Pin(kA, 60);
  ASSERT_TRUE(a.ok());
  EXPECT_TRUE(pins_.Reserve({{kA, 60}}, 40).ok());
  EXPECT_TRUE(pins_.Reserve({{kB, 20}}, 20).ok());
  const auto refused = pins_.Reserve({{kB, 21}}, 20);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(refused.status()),
              HasSubstr("need 41 pages, but the whole pool has 100, of which the tenant's pinned "
                        "adapters keep 60"));
}

TEST_F(PinLedgerTest, TellsOfEveryChange) {
  int num_changes = 0;
  pins_.SetListener([&] { ++num_changes; });
  EXPECT_FALSE(pins_.HasChanged());
  auto first = Pin(kA, 10);
  auto second = Pin(kA, 10);
  EXPECT_EQ(num_changes, 1);
  first->reset();
  EXPECT_EQ(num_changes, 1);
  second->reset();
  EXPECT_EQ(num_changes, 2);
  EXPECT_TRUE(pins_.HasChanged());
  pins_.SetListener(nullptr);
}

TEST(PinLedger, TheAdaptersShareIsKept) {
  StandingPins pins({.num_pages = 100, .max_context_pages = 10, .max_adapter_pages = 50});
  const auto need = pins.Reserve({{kA, 30}}, 10);
  ASSERT_TRUE(need.ok());
  const auto refused = pins.Pin({kB, nullptr}, 21);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused.status()), AllOf(HasSubstr("leave too few for a request in work"),
                                               HasSubstr("larger --adapter-pool-share")));
  const auto pinned = pins.Pin({kB, nullptr}, 20);
  ASSERT_TRUE(pinned.ok());
  EXPECT_THAT(Message(pins.Pin({AdapterId(2), nullptr}, 31).status()),
              HasSubstr("may take 50; unpin another"));
  EXPECT_THAT(
      Message(pins.Reserve({{AdapterId(2), 31}}, 1).status()),
      HasSubstr("take 31 pages, but adapters may take 50, of which the tenant's pinned ones "
                "keep 20"));
  EXPECT_TRUE(pins.Reserve({{AdapterId(2), 30}}, 1).ok());
}

TEST(PinShare, OneOwnersPinsAreBounded) {
  StandingPins pins({.num_pages = 100, .max_context_pages = 40, .max_owner_pages = 30});
  const auto a = pins.Pin({kA, nullptr}, 20, "acme");
  ASSERT_TRUE(a.ok()) << a.status();
  const auto refused = pins.Pin({kB, nullptr}, 11, "acme");
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(refused.status()),
            "pinned, the adapter would keep 11 pages of the pool's 100; beside 20 pages of other "
            "adapters that the tenant has pinned that is more than the 30 that one tenant may pin; "
            "unpin another adapter, or start the server with a larger --tenant-pin-share");
  auto again = pins.Pin({kA, nullptr}, 20, "acme");
  EXPECT_TRUE(again.ok()) << "once or twice, it is one";
  auto b = pins.Pin({kB, nullptr}, 11, "zeta");
  ASSERT_TRUE(b.ok()) << "others have their own share: " << b.status();
  EXPECT_FALSE(pins.Pin({kB, nullptr}, 11, "acme").ok()) << "what others have pinned counts, too";
  EXPECT_EQ(pins.PagesByOwner(), (std::map<std::string, int64_t>{{"acme", 20}, {"zeta", 11}}));
  again->reset();
  EXPECT_EQ(pins.PagesByOwner().at("acme"), 20);
  b->reset();
  EXPECT_EQ(pins.PagesByOwner(), (std::map<std::string, int64_t>{{"acme", 20}}));
}

TEST(PinShare, AnAdapterOfTwoOwnersIsHeldByEither) {
  StandingPins pins({.num_pages = 100, .max_context_pages = 40, .max_owner_pages = 30});
  auto first = pins.Pin({kA, nullptr}, 30, "acme");
  auto second = pins.Pin({kA, nullptr}, 30, "zeta");
  ASSERT_TRUE(first.ok() && second.ok());
  first->reset();
  EXPECT_TRUE(pins.Pin({kB, nullptr}, 30, "acme").ok());
  EXPECT_FALSE(pins.Pin({kB, nullptr}, 31, "acme").ok());
  EXPECT_FALSE(pins.Pin({AdapterId(2), nullptr}, 1, "zeta").ok());
  second->reset();
  EXPECT_TRUE(pins.PagesByOwner().empty());
}

TEST(PinShare, TogetherTheyLeaveRoomForWhoHasPinnedNothing) {
  StandingPins pins(
      {.num_pages = 100, .max_context_pages = 40, .max_owner_pages = 20, .max_pinned_pages = 30});
  const auto a = pins.Pin({kA, nullptr}, 20, "acme");
  const auto b = pins.Pin({kB, nullptr}, 10, "zeta");
  ASSERT_TRUE(a.ok() && b.ok());
  const auto refused = pins.Pin({AdapterId(2), nullptr}, 1, "quiet");
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(refused.status()),
            "pinned, the adapter would keep 1 pages, for which there is no room at present beside "
            "what others have pinned; try again later, or start the server with a larger "
            "--pool-bytes");
  EXPECT_TRUE(pins.Pin({kA, nullptr}, 20, "quiet").ok()) << "it is there already";
  EXPECT_TRUE(pins.Reserve({{AdapterId(2), 30}}, 40, "quiet").ok());
}

// The numbers of others must not be in a message, whatever its limit.
TEST(PinShare, WhatOthersHavePinnedIsNotToldAndPasses) {
  for (const int64_t max_adapter_pages : {Residency::kUnbounded, int64_t{70}}) {
    SCOPED_TRACE(max_adapter_pages);
    StandingPins pins(
        {.num_pages = 100, .max_context_pages = 10, .max_adapter_pages = max_adapter_pages});
    auto theirs = pins.Pin({kA, nullptr}, 57, "acme");
    const auto own = pins.Pin({kB, nullptr}, 6, "zeta");
    ASSERT_TRUE(theirs.ok() && own.ok());
    const auto tells_nothing =
        AllOf(Not(HasSubstr("57")), Not(HasSubstr("63")), HasSubstr("no room at present"));

    const auto pin = pins.Pin({AdapterId(2), nullptr}, 30, "zeta");
    EXPECT_EQ(pin.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(Message(pin.status()), tells_nothing);
    const auto request = pins.Reserve({{AdapterId(2), 31}}, 9, "zeta");
    EXPECT_EQ(request.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(Message(request.status()), AllOf(HasSubstr("need 40 pages"), tells_nothing));
    // Its own alone are too many.
    const auto never = pins.Reserve({{AdapterId(2), 90}}, 9, "zeta");
    EXPECT_EQ(never.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(never.status()),
                AllOf(HasSubstr("need 99 pages"), HasSubstr("pinned adapters keep 6;")));
    // What others have pinned is there for who may use it.
    EXPECT_TRUE(pins.Reserve({{kA, 57}}, 37, "zeta").ok());

    theirs->reset();
    EXPECT_TRUE(pins.Reserve({{AdapterId(2), 31}}, 9, "zeta").ok());
  }
}

TEST(PinShare, ARequestInWorkIsItsTenantsBusiness) {
  StandingPins pins({.num_pages = 100, .max_context_pages = 10});
  const auto in_work = pins.Reserve({{kA, 57}}, 10, "acme");
  ASSERT_TRUE(in_work.ok());
  const auto refused = pins.Pin({kB, nullptr}, 34, "zeta");
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(refused.status()),
              AllOf(HasSubstr("34 pages"), Not(HasSubstr("67")), Not(HasSubstr("66"))));
}

// In an engine, whose pool holds the largest adapter and little else.
class StandingPinsTest : public ::testing::Test {
 public:
  ~StandingPinsTest() override { CopyAll(); }

 protected:
  static constexpr AdapterId kLarge{2};
  static constexpr int32_t kMaxModelLen = 16;

  // Pages for the adapters, and for `num_contexts` of the longest context.
  TestEngineOptions Options(std::vector<AdapterId> adapters, int32_t num_contexts) {
    TestEngine any({});
    const auto context_pages =
        static_cast<int32_t>((kMaxModelLen + any.page_tokens() - 1) / any.page_tokens());
    TestEngineOptions options;
    options.engine.max_model_len = kMaxModelLen;
    options.engine.num_pages = num_contexts * context_pages;
    for (const AdapterId id : adapters) {
      options.engine.num_pages += static_cast<int32_t>(any->PagesFor(id));
    }
    options.engine.run_aside = [this](auto copy) { aside_.push_back(std::move(copy)); };
    return options;
  }
  void CopyAll() {
    for (; !aside_.empty(); aside_.pop_front()) aside_.front()();
  }
  void RunDry(Engine& engine) {
    while (engine.HasWork()) {
      if (engine.IsStalled()) {
        ASSERT_FALSE(aside_.empty()) << "nothing to wait for";
      }
      CopyAll();
      streams_.Take(engine.Step());
    }
  }
  static wire::SequenceRequest Request(int64_t id, AdapterId adapter) {
    return GreedyRequest(id, {1, 17, 42, static_cast<int32_t>(id)}, 8, adapter);
  }

  std::deque<std::function<void()>> aside_;
  Streams streams_;
};

TEST_F(StandingPinsTest, APinnedAdapterIsLoadedAheadAndStays) {
  TestEngine engine(Options({kLarge, kA, kB}, 1));
  auto pin = engine->Pin(kLarge);
  ASSERT_TRUE(pin.ok()) << pin.status();
  EXPECT_TRUE(engine->HasWork()) << "although there is no sequence";
  engine->Step();
  EXPECT_TRUE(engine->IsStalled()) << "while it is copied";
  EXPECT_FALSE(engine->IsInPool(kLarge));
  RunDry(*engine);
  EXPECT_TRUE(engine->IsInPool(kLarge));
  const int64_t loads = engine->Stats().adapter_loads;
  for (int64_t id = 0; id < 12; ++id) {
    Add(*engine, Request(id, id % 2 == 0 ? kA : kB));
    RunDry(*engine);
    EXPECT_TRUE(engine->IsInPool(kLarge)) << id;
  }
  Add(*engine, Request(20, kLarge));
  RunDry(*engine);
  EXPECT_EQ(engine->Stats().adapter_loads, loads + 2) << "kA and kB";
  EXPECT_THAT(streams_.problems(), IsEmpty());
}

TEST_F(StandingPinsTest, AnUnpinnedAdapterGivesWay) {
  // kLarge is larger than kA and kB together.
  TestEngine engine(Options({kLarge}, 1));
  auto pin = engine->Pin(kLarge);
  ASSERT_TRUE(pin.ok()) << pin.status();
  RunDry(*engine);
  const auto refused = engine->Accept(Request(0, kA));
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable) << "the pin is not its tenant's";
  EXPECT_FALSE(engine->Pin(kA).ok());
  pin->reset();
  Add(*engine, Request(0, kA));
  RunDry(*engine);
  EXPECT_EQ(streams_[0].tokens.size(), 8u);
  EXPECT_TRUE(engine->IsInPool(kA));
}

TEST_F(StandingPinsTest, APinThatEndsBeforeItBeganLeavesNothing) {
  TestEngine engine(Options({kLarge, kA}, 1));
  { const auto pin = engine->Pin(kLarge); }
  RunDry(*engine);
  EXPECT_EQ(engine->Stats().adapter_loads, 0);
  EXPECT_FALSE(engine->HasWork());
  EXPECT_EQ(engine->Pin(AdapterId(77)).status().code(), StatusCode::kNotFound);
}

TEST_F(StandingPinsTest, APinWaitsForWhatRunsAndBeforeWhatWaits) {
  TestEngine engine(Options({kLarge}, 1));
  int64_t id = 0;
  Add(*engine, Request(id++, kA));
  engine->Step();
  CopyAll();
  streams_.Take(engine->Step());
  EXPECT_FALSE(engine->Pin(kLarge).ok()) << "the sequence would not fit again if it was evicted";
  RunDry(*engine);
  auto pin = engine->Pin(kLarge);
  ASSERT_TRUE(pin.ok()) << pin.status();
  for (; id < 5; ++id) Add(*engine, Request(id, kLarge));
  RunDry(*engine);
  for (int64_t i = 0; i < id; ++i) EXPECT_EQ(streams_[i].tokens.size(), 8u) << i;
}

TEST_F(StandingPinsTest, APinLeavesARunningPromptThePagesItIsToGet) {
  TestEngineOptions options = Options({kLarge}, 1);
  options.engine.max_num_seqs = 2;
  options.engine.max_num_batched_tokens = 4;
  TestEngine engine(options);
  Add(*engine, Request(0, kBaseModel));
  streams_.Take(engine->Step());
  Add(*engine, GreedyRequest(1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 4));
  streams_.Take(engine->Step());
  ASSERT_EQ(engine->Stats().num_running, 2);
  // Two pages of three are still to come, and one more than the adapter takes is there.
  auto pin = engine->Pin(kLarge);
  ASSERT_TRUE(pin.ok()) << pin.status();
  RunDry(*engine);
  EXPECT_EQ(engine->Stats().evictions, 0);
  EXPECT_TRUE(engine->IsInPool(kLarge));
  EXPECT_THAT(streams_.problems(), IsEmpty());
}

// Whatever is pinned and unpinned while sequences run: all end, with the tokens that they give
// alone, and the pool's books balance (which each step of a debug build checks).
TEST_F(StandingPinsTest, RandomPinsChangeNoAnswer) {
  std::map<std::pair<int32_t, int64_t>, std::vector<int32_t>> alone;
  for (int32_t adapter = -1; adapter < 3; ++adapter) {
    for (int64_t id = 0; id < 6; ++id) {
      TestEngine engine({});
      alone[{adapter, id}] = RunToEnd(*engine, {Request(id, AdapterId(adapter))})[id].tokens;
    }
  }
  int64_t num_pins = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    streams_ = Streams();
    const auto adapter = [&] { return AdapterId(static_cast<int32_t>(random() % 4) - 1); };
    TestEngine engine(Options({kLarge, kA}, 2));
    std::map<int64_t, int32_t> accepted;
    std::vector<std::shared_ptr<const void>> pins;
    for (int64_t id = 0; id < 6; ++id) {
      const AdapterId used = adapter();
      if (auto request = engine->Accept(Request(id, used)); request.ok()) {
        engine->Add(*std::move(request));
        accepted[id] = used.value();
      }
      if (auto pin = engine->Pin(AdapterId(static_cast<int32_t>(random() % 3))); pin.ok()) {
        pins.push_back(*std::move(pin));
        ++num_pins;
      }
      if (!pins.empty() && random() % 2 == 0) {
        pins.erase(pins.begin() + static_cast<std::ptrdiff_t>(random() % pins.size()));
      }
      for (uint64_t steps = random() % 4; steps > 0; --steps) {
        if (random() % 2 == 0) CopyAll();
        streams_.Take(engine->Step());
      }
    }
    RunDry(*engine);
    EXPECT_THAT(streams_.problems(), IsEmpty());
    for (const auto& [id, used] : accepted) {
      EXPECT_EQ(streams_[id].tokens, (alone[{used, id}])) << "sequence " << id;
    }
  }
  EXPECT_GT(num_pins, 15);
}

}  // namespace
}  // namespace aril
