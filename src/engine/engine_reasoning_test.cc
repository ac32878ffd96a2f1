// Requests with a budget for reasoning.

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "grammar/format_cache.h"
#include "grammar/token_table.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::FinishReason;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5, 63, 28};
constexpr int32_t kLength = 40;
// Nobody says these by chance: see SampledRequest.
constexpr int32_t kSo = 168;
constexpr int32_t kEnd = 169;
const std::vector<int32_t> kClosing = {kSo, kEnd};

wire::SequenceRequest SampledRequest(int64_t id, uint64_t seed, AdapterId adapter = kBaseModel) {
  auto request = GreedyRequest(id, kPrompt, kLength, adapter);
  request.sampling = {.temperature = 1.5F,
                      .logit_bias = {{kSo, -100.0F}, {kEnd, -100.0F}},
                      .seed = seed,
                      .num_logprobs = 2};
  return request;
}

std::vector<int32_t> First(const std::vector<int32_t>& tokens, size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<int64_t>(count)};
}

// What a request without a budget gets behind these tokens.
std::vector<int32_t> Behind(TestEngine& engine, wire::SequenceRequest request,
                            const std::vector<int32_t>& output) {
  request.reasoning_budget.reset();
  request.output = output;
  Add(*engine, request);
  std::vector<int32_t> tokens = output;
  while (engine->HasWork()) {
    for (const wire::TokenEvent& event : engine->Step()) tokens.push_back(*event.token);
  }
  return tokens;
}

TEST(EngineReasoning, IsClosedAsIfTheModelHadDoneIt) {
  TestEngine engine({});
  for (const size_t max_tokens : {0, 1, 7, 37, 38, 39}) {
    SCOPED_TRACE(testing::Message() << "a budget of " << max_tokens);
    auto request = SampledRequest(0, max_tokens, AdapterId(0));
    const std::vector<int32_t> unbound = RunAlone(engine, request).tokens;
    request.reasoning_budget = {.max_tokens = static_cast<int32_t>(max_tokens),
                                .closing = kClosing};
    const Stream stream = RunAlone(engine, request);
    std::vector<int32_t> said = First(unbound, max_tokens);
    for (const int32_t token : kClosing) {
      if (std::ssize(said) < kLength) said.push_back(token);
    }
    if (std::ssize(said) < kLength) said = Behind(engine, request, said);
    EXPECT_EQ(stream.tokens, said);
    EXPECT_EQ(stream.finish, FinishReason::kLength);
    ASSERT_TRUE(stream.logprobs.at(max_tokens).has_value());
    EXPECT_LT(stream.logprobs[max_tokens]->logprob, 0) << "the model's own";
  }
  ExpectAllPagesBack(engine);
}

TEST(EngineReasoning, MayEndByItselfAndBeginLater) {
  TestEngine engine({});
  auto request = SampledRequest(0, 5);
  const std::vector<int32_t> unbound = RunAlone(engine, request).tokens;
  request.reasoning_budget = {.max_tokens = 12, .closing = {kSo, unbound[10]}};
  EXPECT_EQ(RunAlone(engine, request).tokens, unbound);
  request.reasoning_budget = {.max_tokens = 12, .begin = kSo, .closing = {kEnd}};
  EXPECT_EQ(RunAlone(engine, request).tokens, unbound) << "there is none";
  const auto begin = std::find(unbound.begin(), unbound.end(), unbound[3]) - unbound.begin();
  request.reasoning_budget->begin = unbound[3];
  std::vector<int32_t> said = First(unbound, static_cast<size_t>(begin) + 13);
  said.push_back(kEnd);
  EXPECT_EQ(RunAlone(engine, request).tokens, Behind(engine, request, said));
}

// A token that could not be chosen here comes nevertheless, and ends the sequence where it should.
TEST(EngineReasoning, IsClosedWhateverElseIsAsked) {
  TestEngine engine({});
  auto request = SampledRequest(0, 1);
  request.reasoning_budget = {.max_tokens = 4, .closing = kClosing};
  request.stop_token_ids = {kEnd};
  request.min_tokens = 6;
  EXPECT_EQ(RunAlone(engine, request).tokens.size(), static_cast<size_t>(kLength));
  request.min_tokens = 5;
  const Stream stream = RunAlone(engine, request);
  EXPECT_EQ(stream.tokens.size(), 6u);
  EXPECT_EQ(stream.finish, FinishReason::kStop);
  EXPECT_EQ(stream.stop_token, kEnd);
}

TEST(EngineReasoning, GoesOnBehindTheOutputOfAnEarlierAttempt) {
  TestEngine engine({});
  auto request = SampledRequest(0, 3, AdapterId(1));
  const int32_t begin = RunAlone(engine, request).tokens[2];
  request.reasoning_budget = {.max_tokens = 6, .begin = begin, .closing = kClosing};
  const std::vector<int32_t> whole = RunAlone(engine, request).tokens;
  ASSERT_EQ(std::count(whole.begin(), whole.end(), kEnd), 1);
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    auto resumed = request;
    resumed.output = First(whole, cut);
    Add(*engine, resumed);
    std::vector<int32_t> tokens = resumed.output;
    while (engine->HasWork()) {
      for (const wire::TokenEvent& event : engine->Step()) tokens.push_back(*event.token);
    }
    EXPECT_EQ(tokens, whole) << cut;
  }
}

// Others share its batch, guesses go past where it is closed, and pages are taken away.
TEST(EngineReasoning, IsTheSameInABatchWithDraftsAndAfterEvictions) {
  int64_t evictions = 0;
  int64_t accepted = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    TestEngine alone({});
    std::vector<wire::SequenceRequest> requests;
    Streams expected;
    for (int64_t id = 0; id < 16; ++id) {
      auto request = SampledRequest(id, random(), AdapterId(static_cast<int32_t>(id % 4) - 1));
      request.prompt = RandomPrompt(random, 5 + id);
      request.sampling.num_logprobs.reset();
      if (random() % 2 == 0) request.sampling.temperature = 0;
      request.prediction = RunAlone(alone, request).tokens;
      request.reasoning_budget = {.max_tokens = static_cast<int32_t>(random() % 20),
                                  .closing = kClosing};
      if (random() % 2 == 0) request.reasoning_budget->begin = request.prediction[random() % 5];
      if (random() % 2 == 0) request.prediction = RunAlone(alone, request).tokens;
      requests.push_back(request);
      expected[id] = RunAlone(alone, request);
    }
    TestEngineOptions options;
    options.engine.num_pages = 110;
    options.engine.drafts = {.max_tokens = 6, .max_rows = 40, .rows_of_step = 1'000'000};
    TestEngine engine(options);
    Streams streams = RunToEnd(*engine, requests, Streams::PerStep::kSeveral);
    EXPECT_THAT(streams.problems(), IsEmpty());
    for (const auto& request : requests) {
      const int64_t id = request.sequence.value();
      EXPECT_EQ(streams[id].tokens, expected[id].tokens) << id;
    }
    ExpectAllPagesBack(engine);
    evictions += engine->Stats().evictions;
    accepted += engine->Stats().num_accepted_tokens;
  }
  EXPECT_GT(evictions, 0);
  EXPECT_GT(accepted, 100);
}

// In the middle of a character, say.
TEST(EngineReasoning, IsClosedWhereItsFormatAllowsIt) {
  std::vector<std::string> texts(171);
  for (size_t t = 0; t < 26; ++t) texts[t] = std::string(1, static_cast<char>('a' + t));
  for (const int64_t format_work : {FormatTurns::kWork, int64_t{1}}) {
    TestEngineOptions options;
    options.engine.formats =
        std::make_shared<grammar::FormatCache>(std::make_shared<const grammar::TokenTable>(texts));
    options.engine.format_work = format_work;
    TestEngine engine(options);
    auto request = GreedyRequest(0, kPrompt, kLength);
    request.format = {.kind = wire::OutputFormat::Kind::kRegex, .source = "(abc){9}|(abc)+xyzq{2}"};
    request.sampling.logit_bias = {{23, -100.0F}};
    request.reasoning_budget = {.max_tokens = 4, .closing = {23, 24, 25}};
    const Stream stream = RunAlone(engine, request);
    EXPECT_THAT(stream.tokens, ElementsAre(0, 1, 2, 0, 1, 2, 23, 24, 25, 16, 16));
    EXPECT_EQ(stream.finish, FinishReason::kStop);
  }
}

TEST(EngineReasoning, MustHaveABudgetThatCanBeKeptTo) {
  TestEngine engine({});
  const std::pair<wire::ReasoningBudget, const char*> cases[] = {
      {{.max_tokens = -1, .closing = {1}}, "a budget of -1 tokens is none"},
      {{.max_tokens = 1}, "1 to 256 tokens may close it, and there are 0"},
      {{.max_tokens = 1, .closing = std::vector<int32_t>(257)}, "and there are 257"},
      {{.max_tokens = 1, .begin = 1, .closing = {2, 1}}, "it begins and ends with token 1"},
      {{.max_tokens = 1, .begin = -1, .closing = {2}}, "the budget for reasoning: token id -1"},
      {{.max_tokens = 1, .closing = {171, 2}}, "token id 171"}};
  for (const auto& [budget, complaint] : cases) {
    auto request = GreedyRequest(0, kPrompt, 4);
    request.reasoning_budget = budget;
    EXPECT_THAT(Message(engine->Accept(request).status()), HasSubstr(complaint));
  }
}

}  // namespace
}  // namespace aril
