// What one request gets: where it ends, and what is reported about it.

#include "engine/engine.h"

#include <algorithm>

#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::FinishReason;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5, 63, 28};

TEST(Engine, StopsAtMaxTokens) {
  TestEngine engine({});
  const Stream stream = RunAlone(engine, GreedyRequest(0, kPrompt, 12));
  EXPECT_THAT(stream.tokens, SizeIs(12));
  EXPECT_EQ(stream.finish, FinishReason::kLength);
  EXPECT_EQ(stream.stop_token, std::nullopt);
  ExpectAllPagesBack(engine);
}

TEST(Engine, StopsAtTheFirstStopToken) {
  TestEngine engine({});
  const std::vector<int32_t> tokens = RunAlone(engine, GreedyRequest(0, kPrompt, 12)).tokens;
  auto request = GreedyRequest(1, kPrompt, 12);
  request.stop_token_ids = {1'000'000, -1, tokens[4]};  // some are no tokens at all
  const Stream stream = RunAlone(engine, request);
  const auto end = std::find(tokens.begin(), tokens.end(), tokens[4]) + 1;
  EXPECT_EQ(stream.tokens, std::vector(tokens.begin(), end)) << "the stop token is reported, too";
  EXPECT_EQ(stream.finish, FinishReason::kStop);
  EXPECT_EQ(stream.stop_token, tokens[4]);
}

TEST(Engine, AStopTokenAtTheVeryEndIsAStop) {
  TestEngine engine({});
  const std::vector<int32_t> tokens = RunAlone(engine, GreedyRequest(0, kPrompt, 1)).tokens;
  auto request = GreedyRequest(1, kPrompt, 1);
  request.stop_token_ids = tokens;
  EXPECT_EQ(RunAlone(engine, request).finish, FinishReason::kStop);
}

// What a cluster promises when a runner dies: the next attempt, with the tokens so far, goes on as
// if nothing had been, whatever depends on positions and on what has been said.
TEST(Engine, GoesOnBehindTheOutputOfAnEarlierAttempt) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 12, AdapterId(0));
  request.sampling = {.temperature = 0.9f,
                      .repetition_penalty = 1.1f,
                      .presence_penalty = 0.3f,
                      .frequency_penalty = 0.2f,
                      .seed = 7,
                      .num_logprobs = 2,
                      .prompt_logprobs = true};
  request.min_tokens = 9;
  request.stop_token_ids = {3};
  const Stream whole = RunAlone(engine, request);
  ASSERT_GE(whole.tokens.size(), 9u);
  const auto num_tokens = static_cast<int64_t>(whole.tokens.size());
  for (int64_t cut = 1; cut < num_tokens; ++cut) {
    auto resumed = request;
    resumed.sequence = SequenceId(cut);
    resumed.output.assign(whole.tokens.begin(), whole.tokens.begin() + cut);
    engine->Add(*engine->Accept(resumed));
    std::vector<int32_t> tokens;
    std::optional<FinishReason> finish;
    while (engine->HasWork()) {
      for (const wire::TokenEvent& event : engine->Step()) {
        EXPECT_EQ(event.index, cut + static_cast<int64_t>(tokens.size()));
        EXPECT_THAT(event.prompt_logprobs, IsEmpty()) << "they went with the first token";
        EXPECT_LE(event.num_cached, static_cast<int32_t>(kPrompt.size()));
        tokens.push_back(*event.token);
        finish = event.finish;
      }
    }
    EXPECT_EQ(tokens, std::vector(whole.tokens.begin() + cut, whole.tokens.end())) << cut;
    EXPECT_EQ(finish, whole.finish);
  }
  ExpectAllPagesBack(engine);
}

TEST(Engine, DoesNotStopBeforeMinTokens) {
  TestEngine engine({});
  const std::vector<int32_t> tokens = RunAlone(engine, GreedyRequest(0, kPrompt, 12)).tokens;
  auto request = GreedyRequest(1, kPrompt, 12);
  request.stop_token_ids = {tokens[0]};
  request.min_tokens = 5;
  const Stream stream = RunAlone(engine, request);
  ASSERT_GE(stream.tokens.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_NE(stream.tokens[i], tokens[0]) << "it is not even chosen";

  // From min_tokens on it may: here the second token is the first that may stop.
  ASSERT_NE(tokens[0], tokens[1]);
  request = GreedyRequest(2, kPrompt, 12);
  request.stop_token_ids = {tokens[1]};
  request.min_tokens = 1;
  EXPECT_THAT(RunAlone(engine, request).tokens, ElementsAre(tokens[0], tokens[1]));
}

TEST(Engine, MinTokensBeyondMaxTokensEndsByLength) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 3);
  request.min_tokens = 100;
  request.stop_token_ids = {2};
  const Stream stream = RunAlone(engine, request);
  EXPECT_THAT(stream.tokens, SizeIs(3));
  EXPECT_EQ(stream.finish, FinishReason::kLength);
}

TEST(Engine, MaxTokensZeroOnlyReadsThePrompt) {
  TestEngineOptions options;
  options.engine.max_num_seqs = options.engine.max_num_batched_tokens = 4;  // two chunks
  TestEngine engine(options);
  const Stream stream = RunAlone(engine, GreedyRequest(0, kPrompt, 0, AdapterId(0)));
  EXPECT_THAT(stream.tokens, IsEmpty());
  EXPECT_THAT(stream.prompt_logprobs, IsEmpty());
  EXPECT_EQ(stream.finish, FinishReason::kLength);
  EXPECT_EQ(engine->Stats().step, 2);
  ExpectAllPagesBack(engine);
}

TEST(Engine, ReportsLogprobsWithEveryToken) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 6, AdapterId(1));
  request.sampling.num_logprobs = 3;
  const Stream stream = RunAlone(engine, request);
  ASSERT_THAT(stream.logprobs, SizeIs(6));
  for (size_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(stream.logprobs[i].has_value());
    EXPECT_EQ(stream.logprobs[i]->rank, 1) << "greedy";
    ASSERT_THAT(stream.logprobs[i]->top, SizeIs(3));
    EXPECT_EQ(stream.logprobs[i]->top[0].token, stream.tokens[i]);
    EXPECT_EQ(stream.logprobs[i]->top[0].logprob, stream.logprobs[i]->logprob);
  }
  EXPECT_FALSE(RunAlone(engine, GreedyRequest(1, kPrompt, 1)).logprobs.at(0).has_value());
}

TEST(Engine, AnOddNumberOfAlternativesDoesNoHarm) {
  TestEngine engine({});
  for (const int32_t count : {-1, 0, 1'000'000}) {
    auto request = GreedyRequest(0, kPrompt, 1);
    request.sampling.num_logprobs = count;
    const Stream stream = RunAlone(engine, request);
    const int64_t expected = std::clamp<int64_t>(count, 0, engine.spec().vocab_size);
    EXPECT_EQ(static_cast<int64_t>(stream.logprobs[0]->top.size()), expected);
  }
}

TEST(Engine, EventsCarryTheAttempt) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 1);
  request.attempt = 7;
  Add(*engine, request);
  EXPECT_EQ(engine->Step().at(0).attempt, 7u);
}

TEST(Engine, AnEmptyStepIsHarmless) {
  TestEngine engine({});
  EXPECT_THAT(engine->Step(), IsEmpty());
  EXPECT_EQ(engine->Stats().num_rows, 0);
}

}  // namespace
}  // namespace aril
