// Pages that sequences share because they begin alike: who takes which, that nothing of an answer
// changes by it, and that they give way when pages run short. That K and V do not change either is
// tests/noninterference.

#include <map>
#include <random>

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::IsEmpty;

std::vector<int32_t> Concat(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TestEngineOptions WithoutCache() {
  TestEngineOptions options;
  options.engine.enable_prefix_caching = false;
  return options;
}

// Pages hold four tokens.
class EnginePrefix : public ::testing::Test {
 protected:
  // Greedy, with logprobs.
  wire::SequenceRequest Request(int64_t id, std::vector<int32_t> prompt, int32_t max_tokens = 6,
                                AdapterId adapter = kBaseModel) {
    wire::SequenceRequest request = GreedyRequest(id, std::move(prompt), max_tokens, adapter);
    request.sampling.num_logprobs = 3;
    return request;
  }
  std::vector<int32_t> Prompt(int64_t length) { return RandomPrompt(random_, length); }

  // What an engine answers that never shares a page.
  void ExpectUndisturbed(const Stream& stream, const wire::SequenceRequest& request) {
    const Stream expected = RunAlone(without_cache_, request);
    ExpectSame(stream, expected);
    EXPECT_EQ(expected.num_cached, 0);
  }

  std::mt19937_64 random_{11};
  TestEngine engine_{{}};
  TestEngine without_cache_{WithoutCache()};
};

TEST_F(EnginePrefix, ARepeatedPromptIsComputedFromItsLastFullPageOn) {
  const std::vector<int32_t> prompt = Prompt(23);
  EXPECT_EQ(RunAlone(engine_, Request(0, prompt)).num_cached, 0);
  const auto request = Request(1, prompt);
  const Stream stream = RunAlone(engine_, request);
  EXPECT_EQ(stream.num_cached, 20);
  ExpectUndisturbed(stream, request);
  EXPECT_EQ(engine_->Stats().prefix_queries, 22 + 22) << "the last token is always computed";
  EXPECT_EQ(engine_->Stats().prefix_hits, 20);
}

TEST_F(EnginePrefix, TheLastTokenIsComputedEvenIfItsPageIsCached) {
  const std::vector<int32_t> prompt = Prompt(24);
  RunAlone(engine_, Request(0, prompt));
  const auto request = Request(1, prompt);
  const Stream stream = RunAlone(engine_, request);
  EXPECT_EQ(stream.num_cached, 20);
  ExpectUndisturbed(stream, request);
  EXPECT_EQ(RunAlone(engine_, Request(2, {prompt[0]})).num_cached, 0);
}

TEST_F(EnginePrefix, AnswersAreCachedForTheNextTurn) {
  const std::vector<int32_t> prompt = Prompt(9);
  const Stream first = RunAlone(engine_, Request(0, prompt, 20));
  const auto request = Request(1, Concat(Concat(prompt, first.tokens), Prompt(5)));
  const Stream stream = RunAlone(engine_, request);
  EXPECT_EQ(stream.num_cached, 28) << "of 29: the answer's last token was never computed";
  ExpectUndisturbed(stream, request);
}

TEST_F(EnginePrefix, NothingIsSharedAcrossAdaptersAndTenants) {
  const std::vector<int32_t> prompt = Prompt(30);
  int64_t id = 0;
  const AdapterMix mixes[] = {{},
                              {{AdapterId(0)}},
                              {{AdapterId(1)}},
                              {{AdapterId(0)}, {AdapterId(1)}},
                              {{AdapterId(1)}, {AdapterId(0)}},
                              {{AdapterId(0), 0.5f}}};
  for (const AdapterMix& mix : mixes) {
    for (const char* tenant : {"default", "acme"}) {
      auto request = Request(id++, prompt, 6);
      request.adapters = mix;
      request.tenant = tenant;
      const Stream stream = RunAlone(engine_, request);
      EXPECT_EQ(stream.num_cached, 0) << tenant << " with " << mix.size() << " adapters";
      ExpectUndisturbed(stream, request);
      request.sequence = SequenceId(id++);
      EXPECT_EQ(RunAlone(engine_, request).num_cached, 28) << "its own";
    }
  }
}

TEST_F(EnginePrefix, WhoWantsThePromptsLogprobsComputesItAll) {
  const std::vector<int32_t> prompt = Prompt(20);
  auto request = Request(0, prompt);
  request.sampling.prompt_logprobs = true;
  for (int round = 0; round < 2; ++round) {
    const Stream stream = RunAlone(engine_, request);
    EXPECT_EQ(stream.num_cached, 0);
    ExpectUndisturbed(stream, request);
  }
  EXPECT_EQ(engine_->Stats().prefix_queries, 0);
  EXPECT_EQ(RunAlone(engine_, Request(1, prompt)).num_cached, 16) << "others may have its pages";
}

TEST_F(EnginePrefix, ChunksAreCachedWhileTheRestOfThePromptIsComputed) {
  TestEngineOptions options;
  options.engine.max_num_seqs = 8;
  options.engine.max_num_batched_tokens = 10;
  TestEngine engine(options);
  const auto a = Request(0, Prompt(60));
  Streams streams;
  Add(*engine, a);
  streams.Take(engine->Step());
  streams.Take(engine->Step());
  // Cancelled in the middle of its prompt: what was computed stays.
  const auto b = Request(1, a.prompt);
  engine->Cancel(SequenceId(0));
  Add(*engine, b);
  while (engine->HasWork()) streams.Take(engine->Step());
  EXPECT_EQ(streams[1].num_cached, 20);
  ExpectUndisturbed(streams[1], b);
}

TEST_F(EnginePrefix, SequencesSideBySideComputeAPageTwiceAndKeepItOnce) {
  const std::vector<int32_t> prompt = Prompt(21);
  Streams streams;
  for (const int64_t id : {0, 1}) Add(*engine_, Request(id, prompt, 30));
  streams.Take(engine_->Step());
  EXPECT_EQ(engine_->Stats().num_rows, 42) << "nothing is cached before the step ends";
  EXPECT_EQ(engine_->Stats().pages_kv, 5 + 1 + 1) << "five full pages are common";
  // A third joins them, and the first goes: what the others use stays.
  Add(*engine_, Request(2, prompt, 30));
  streams.Take(engine_->Step());
  EXPECT_EQ(engine_->Stats().num_rows, 1 + 1 + 1);
  engine_->Cancel(SequenceId(0));
  while (engine_->HasWork()) streams.Take(engine_->Step());
  EXPECT_EQ(streams[2].num_cached, 20);
  ExpectUndisturbed(streams[1], Request(1, prompt, 30));
  ExpectUndisturbed(streams[2], Request(2, prompt, 30));
  EXPECT_EQ(engine_->Stats().pages_kv, 0);
}

TEST_F(EnginePrefix, AnEvictedSequenceFindsWhatItHadComputed) {
  const auto older = Request(0, Prompt(12), 32);
  const auto newer = Request(1, Prompt(12), 20);
  std::map<bool, int64_t> num_rows;  // by whether there is a cache
  for (const bool enable : {false, true}) {
    TestEngineOptions options;
    options.engine.num_pages = 14;
    options.engine.enable_prefix_caching = enable;
    TestEngine engine(options);
    Streams streams;
    for (const auto& request : {older, newer}) Add(*engine, request);
    while (engine->HasWork()) {
      streams.Take(engine->Step());
      num_rows[enable] += engine->Stats().num_rows;
    }
    EXPECT_GT(engine->Stats().evictions, 0);
    EXPECT_THAT(streams.problems(), IsEmpty());
    ExpectUndisturbed(streams[0], older);
    ExpectUndisturbed(streams[1], newer);
    EXPECT_EQ(streams[1].num_cached, 0) << "what it computed itself does not count";
    EXPECT_EQ(engine->Stats().prefix_hits, 0);
  }
  EXPECT_LT(num_rows[true], num_rows[false]);
}

TEST_F(EnginePrefix, OffMeansOff) {
  const std::vector<int32_t> prompt = Prompt(30);
  for (const int64_t id : {0, 1}) {
    EXPECT_EQ(RunAlone(without_cache_, Request(id, prompt)).num_cached, 0);
  }
  const wire::StepStats stats = without_cache_->Stats();
  EXPECT_EQ(stats.pages_prefix, 0);
  EXPECT_EQ(stats.pages_free, stats.pages_total);
  EXPECT_EQ(stats.prefix_queries, 0);
}

TEST_F(EnginePrefix, CachedPagesDoNotCountAgainstWhatSequencesMayTake) {
  TestEngineOptions options;
  options.engine.num_pages = 20;
  for (const int64_t max_kv_pages : {20, 10}) {
    options.engine.max_kv_pages = max_kv_pages;
    TestEngine engine(options);
    // Cached pages fill the pool.
    for (int64_t id = 0; id < 4; ++id) RunAlone(engine, Request(id, Prompt(33)));
    ASSERT_LT(engine->Stats().pages_free, 4);
    Streams streams;
    EXPECT_EQ(engine->Stats().pages_available, max_kv_pages);
    for (int64_t id = 4; id < 6; ++id) Add(*engine, Request(id, Prompt(33)));
    for (int step = 0; step < 20; ++step) {
      streams.Take(engine->Step());
      EXPECT_LE(engine->Stats().pages_kv, max_kv_pages);
    }
    EXPECT_EQ(streams[5].finish, wire::FinishReason::kLength) << max_kv_pages;
  }
}

// Idle adapters and cached prefixes go in one order of last use.
TEST_F(EnginePrefix, WhatWasNotUsedForLongestGivesWayFirst) {
  const AdapterId kAdapter(0);
  const int64_t adapter_pages = engine_->PagesFor(kAdapter);
  ASSERT_GE(adapter_pages, 2);
  for (const bool adapter_first : {false, true}) {
    TestEngineOptions options;
    options.engine.num_pages = static_cast<int32_t>(adapter_pages) + 12;
    TestEngine engine(options);
    const std::vector<int32_t> prompt = Prompt(17);
    const auto use_adapter = [&] { RunAlone(engine, Request(1, {1, 2}, 1, kAdapter)); };
    const auto use_prefix = [&] { RunAlone(engine, Request(2, prompt, 1)); };
    if (adapter_first) use_adapter();
    use_prefix();
    if (!adapter_first) use_adapter();
    ASSERT_EQ(engine->Stats().pages_free, 12 - 4);
    RunAlone(engine, Request(3, Prompt(40), 1));
    EXPECT_EQ(engine->Stats().adapter_evictions, adapter_first ? 1 : 0);
    EXPECT_EQ(RunAlone(engine, Request(4, prompt, 1)).num_cached, adapter_first ? 16 : 8)
        << "no more pages than are needed";
  }
}

TEST_F(EnginePrefix, AnAdapterOfTheSameFilesUnderANewIdSharesNothing) {
  const std::vector<int32_t> prompt = Prompt(20);
  RunAlone(engine_, Request(0, prompt, 6, AdapterId(0)));
  auto again =
      Adapter::OpenWithoutBase(kEngineTestModel + "/adapters/all-r4", engine_.spec(), kMaxLoraRank);
  ASSERT_TRUE(again.ok()) << again.status();
  engine_.adapters().Remove(AdapterId(0));
  const AdapterId id = engine_.adapters().Add(*std::move(again));
  EXPECT_EQ(RunAlone(engine_, Request(1, prompt, 6, id)).num_cached, 0);
}

// Random requests of few openings, tenants and adapters, that come and are cancelled at any time,
// in pools and batches of any size: each answers what it answers where no page is ever shared.
TEST_F(EnginePrefix, RandomWorkAnswersAsWithoutTheCache) {
  const auto largest_adapter = static_cast<int32_t>(
      std::max(engine_->PagesFor(AdapterId(0)), engine_->PagesFor(AdapterId(1))));
  int64_t hits = 0;
  int64_t evictions = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto draw = [&](uint64_t count) { return static_cast<int64_t>(random() % count); };
    TestEngineOptions options;
    options.engine.max_num_seqs = 2 + draw(8);
    options.engine.max_num_batched_tokens = options.engine.max_num_seqs + draw(30);
    options.engine.num_pages = largest_adapter + 26 + static_cast<int32_t>(draw(8));
    options.engine.shares_rows = seed % 2 == 1;
    options.engine.tenant_weights = {{"acme", 3}};
    TestEngine engine(options);
    const std::vector<int32_t> openings[] = {RandomPrompt(random, 33), RandomPrompt(random, 12)};
    const auto make = [&](int64_t id) {
      auto request =
          Request(id, Concat(openings[draw(2)], RandomPrompt(random, 1 + draw(20))),
                  static_cast<int32_t>(draw(40)), AdapterId(static_cast<int32_t>(draw(3)) - 1));
      request.tenant = draw(4) == 0 ? "acme" : "default";
      request.sampling.prompt_logprobs = draw(6) == 0;
      return request;
    };
    RandomWork work = RunAtRandom(engine, random, 40, make);
    for (const wire::SequenceRequest& request : work.requests) {
      SCOPED_TRACE(testing::Message() << "sequence " << request.sequence);
      ExpectUndisturbed(work.streams[request.sequence.value()], request);
    }
    ExpectAllPagesBack(engine);
    hits += engine->Stats().prefix_hits;
    evictions += engine->Stats().evictions;
  }
  EXPECT_GT(hits, 1000);
  EXPECT_GT(evictions, 5);
}

}  // namespace
}  // namespace aril
