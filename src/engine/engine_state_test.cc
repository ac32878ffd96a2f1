// Models whose sequences have a state beside K and V.

#include <random>
#include <string>
#include <vector>

#include "base/strings.h"
#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "grammar/format_cache.h"
#include "grammar/token_table.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kModel = SourcePath("tests/goldens/qwen35-f32");
constexpr int64_t kVocab = 131;

TestEngineOptions OfState() {
  TestEngineOptions options;
  options.model_dir = kModel;
  options.adapter_dirs = {kModel + "/adapters/all-r4", kModel + "/adapters/gates-r3-bf16"};
  options.engine.num_pages = 800;
  std::vector<std::string> texts;  // of all but the last token
  for (int64_t token = 0; token + 1 < kVocab; ++token) {
    texts.emplace_back(static_cast<size_t>(1 + token / 26), static_cast<char>('a' + token % 26));
  }
  texts.emplace_back();
  options.engine.formats =
      std::make_shared<grammar::FormatCache>(std::make_shared<const grammar::TokenTable>(texts));
  return options;
}

std::vector<wire::SequenceRequest> RandomRequests(std::mt19937_64& random, int64_t count) {
  std::vector<wire::SequenceRequest> requests;
  for (int64_t id = 0; id < count; ++id) {
    std::vector<int32_t> prompt = RandomPrompt(random, 1 + static_cast<int64_t>(random() % 40));
    for (int32_t& token : prompt) token %= kVocab;
    auto request = GreedyRequest(id, prompt, 60, AdapterId(static_cast<int32_t>(id % 3) - 1));
    request.sampling = {.temperature = 1, .seed = random(), .num_logprobs = 2};
    request.tenant = StrCat(id % 2);
    if (id % 5 == 0) request.sampling.prompt_logprobs = true;
    if (id % 3 != 2) {
      request.format = {.kind = wire::OutputFormat::Kind::kRegex,
                        .source = "([a-m]{5}-?[n-z]+){3,9}"};
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

int64_t StatePages(const TestEngine& engine) { return engine.layout().state.num_pages(); }

// Long prompts are computed in chunks, others come and go, and pages are taken away.
TEST(EngineState, IsASequencesOwn) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::vector<wire::SequenceRequest> requests = RandomRequests(random, 16);
  TestEngineOptions tight = OfState();
  tight.engine.max_num_batched_tokens = 12;
  {
    const TestEngine roomy(tight);
    // Of states for five, and some tokens.
    tight.engine.num_pages = static_cast<int32_t>(5 * StatePages(roomy) + 40);
  }
  TestEngine engine(tight);
  Streams together = RunToEnd(*engine, requests);
  EXPECT_THAT(together.problems(), IsEmpty());
  EXPECT_GT(engine->Stats().evictions, 0);
  ExpectAllPagesBack(engine);
  TestEngine alone(OfState());
  for (const auto& request : requests) {
    ExpectSame(together[request.sequence.value()], RunAlone(alone, request));
  }
}

// Who sits out for its format has its last row run again, which the state has seen already.
TEST(EngineState, HasARowThatIsRunAgainOnce) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const std::vector<wire::SequenceRequest> requests = RandomRequests(random, 12);
  TestEngineOptions slow = OfState();
  slow.engine.format_work = 1;
  TestEngine engine(slow), timely(OfState());
  Streams together = RunToEnd(*engine, requests);
  EXPECT_THAT(together.problems(), IsEmpty());
  RunToEnd(*timely, requests);
  EXPECT_GT(engine->Stats().step, timely->Stats().step) << "nobody sat out";
  TestEngine alone(OfState());
  for (const auto& request : requests) {
    ExpectSame(together[request.sequence.value()], RunAlone(alone, request));
  }
}

// Prompts that something is pooled of, or of which only the length matters, end with their last
// row; and whoever goes away gives everything back.
TEST(EngineState, EndsWithItsSequence) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  TestEngineOptions small = OfState();
  small.engine.max_num_batched_tokens = 16;
  {
    const TestEngine roomy(small);
    small.engine.num_pages = static_cast<int32_t>(4 * StatePages(roomy) + 50);
  }
  TestEngine engine(small), alone(OfState());
  RandomWork work = RunAtRandom(engine, random, 24, [&](int64_t id) {
    auto request = RandomRequests(random, 1).front();
    request.sequence = SequenceId(id);
    request.adapters = MixOf(AdapterId(static_cast<int32_t>(id % 3) - 1));
    if (id % 4 == 1) {
      request.format = {};
      request.max_tokens = 0;
      request.sampling.prompt_logprobs = false;
      request.pooling = id % 8 == 1 ? wire::Pooling::kEmbedding : wire::Pooling::kNone;
    }
    return request;
  });
  ExpectAllPagesBack(engine);
  for (const auto& request : work.requests) {
    const Stream& stream = work.streams[request.sequence.value()];
    const Stream expected = RunAlone(alone, request);
    ExpectSame(stream, expected);
    EXPECT_EQ(stream.pooled, expected.pooled);
  }
}

TEST(EngineState, TakesPagesOfItsOwn) {
  TestEngine engine(OfState());
  const int64_t of_state = StatePages(engine);
  ASSERT_GT(of_state, 0);
  Add(*engine, GreedyRequest(0, {1, 2, 3}, 4));
  Add(*engine, GreedyRequest(1, {1, 2, 3}, 4));
  engine->Step();
  EXPECT_EQ(engine->Stats().pages_kv, 2 * (of_state + 1));
  while (engine->HasWork()) engine->Step();
  ExpectAllPagesBack(engine);
}

TEST(EngineState, WhatItTakesIsCountedWhenASequenceComes) {
  TestEngineOptions small = OfState();
  {
    const TestEngine roomy(small);
    small.engine.num_pages = static_cast<int32_t>(StatePages(roomy) + 2);
  }
  TestEngine engine(small);
  const auto fits = static_cast<int32_t>(2 * engine.page_tokens() - 3);
  EXPECT_TRUE(engine->Accept(GreedyRequest(0, {1, 2, 3}, fits)).ok());
  const auto refused = engine->Accept(GreedyRequest(1, {1, 2, 3}, fits + 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("pages"));
}

// An answer that was predicted is the same, token by token.
TEST(EngineState, IsNotGuessed) {
  TestEngineOptions guessing = OfState();
  guessing.engine.drafts = {.max_tokens = 8};
  TestEngine engine(guessing), plain(OfState());
  const std::vector<int32_t> prompt(60, 7);
  const Stream first = RunAlone(engine, GreedyRequest(0, prompt, 12));
  auto again = GreedyRequest(1, prompt, 12);
  again.prediction = first.tokens;
  const Stream second = RunAlone(engine, again);
  EXPECT_EQ(second.prediction_use.num_accepted, 0);
  ExpectSame(second, first);
  ExpectSame(first, RunAlone(plain, GreedyRequest(2, prompt, 12)));
}

}  // namespace
}  // namespace aril
