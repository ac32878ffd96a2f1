// What each parameter means, on tables small enough to check by hand.

#include "kernels/sampling/sampling.h"

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Tokens {
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> output = {};
  std::vector<int32_t> masked = {};
  std::vector<uint64_t> allowed = {};
};

StatusOr<SampleResult> Choose(const std::vector<float>& logits,
                              const wire::SamplingParams& params = {}, const Tokens& tokens = {},
                              int64_t position = 0) {
  SamplingScratch scratch;
  return Sample({.logits = logits,
                 .params = &params,
                 .prompt = tokens.prompt,
                 .output = tokens.output,
                 .masked = tokens.masked,
                 .allowed = tokens.allowed,
                 .position = position},
                scratch);
}

int32_t Token(const std::vector<float>& logits, const wire::SamplingParams& params = {},
              const Tokens& tokens = {}, int64_t position = 0) {
  const auto result = Choose(logits, params, tokens, position);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->token : -1;
}

std::string ErrorOf(const std::vector<float>& logits, const wire::SamplingParams& params = {},
                    const Tokens& tokens = {}) {
  const auto result = Choose(logits, params, tokens);
  if (result.ok()) return "";
  EXPECT_EQ(result.status().code(), StatusCode::kInternal);
  return Message(result.status());
}

// Every token that 2000 draws give. One of probability 0.02 stays out with probability 3e-18.
std::set<int32_t> Drawn(const std::vector<float>& logits, const wire::SamplingParams& params = {},
                        const Tokens& tokens = {}) {
  std::set<int32_t> drawn;
  for (int64_t position = 0; position < 2000; ++position) {
    drawn.insert(Token(logits, params, tokens, position));
  }
  return drawn;
}

// The token that wins after bias and penalties tells what they did.
int32_t Greedy(const std::vector<float>& logits, wire::SamplingParams params = {},
               const Tokens& tokens = {}) {
  params.temperature = 0;
  return Token(logits, params, tokens);
}

// Logits whose probabilities at temperature 1 are these.
std::vector<float> Logs(const std::vector<float>& probabilities) {
  std::vector<float> logits;
  for (const float p : probabilities) logits.push_back(std::log(p));
  return logits;
}

TEST(Sample, GreedyTakesTheLargestAndTheLowestIdOnATie) {
  EXPECT_EQ(Greedy({1, 5, 2}), 1);
  EXPECT_EQ(Greedy({1, 5, 5}), 1);
  EXPECT_EQ(Greedy({-kInfinity, -7}), 1);
  EXPECT_EQ(Greedy({-3e38f, -3.1e38f}), 0);
}

TEST(Sample, GreedyIgnoresTheFilters) {
  EXPECT_EQ(Greedy({1, 5, 2}, {.top_k = 2, .top_p = 0.1f, .min_p = 0.5f}), 1);
}

TEST(Sample, LogitBiasIsAdded) {
  EXPECT_EQ(Greedy({1, 2}, {.logit_bias = {{0, 1.5f}}}), 0);
  EXPECT_EQ(Greedy({1, 2}, {.logit_bias = {{1, -1.5f}}}), 0);
  EXPECT_EQ(Greedy({1, 2}, {.logit_bias = {{0, 0.5f}}}), 1);
}

TEST(Sample, LogitBiasComesBeforeTheRepetitionPenalty) {
  // (-1 + 4) / 2 = 1.5, not -1 · 2 + 4 = 2.
  EXPECT_EQ(
      Greedy({-1, 1.6f}, {.repetition_penalty = 2, .logit_bias = {{0, 4.0f}}}, {.prompt = {0}}), 1);
}

TEST(Sample, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogitsOnce) {
  const wire::SamplingParams params{.repetition_penalty = 2};
  EXPECT_EQ(Greedy({4, 1.9f}, params), 0);
  EXPECT_EQ(Greedy({4, 2.1f}, params, {.prompt = {0}}), 1);
  EXPECT_EQ(Greedy({4, 1.9f}, params, {.prompt = {0, 0}, .output = {0}}), 0);
  EXPECT_EQ(Greedy({-1, -1.9f}, params, {.output = {0}}), 1);
  EXPECT_EQ(Greedy({-1, -2.1f}, params, {.output = {0, 0}}), 0);
}

TEST(Sample, PresencePenaltyCountsTheOutputOnce) {
  const wire::SamplingParams params{.presence_penalty = 1};
  EXPECT_EQ(Greedy({4, 3.5f}, params, {.prompt = {0}}), 0);
  EXPECT_EQ(Greedy({4, 3.5f}, params, {.output = {0}}), 1);
  EXPECT_EQ(Greedy({4, 2.5f}, params, {.output = {0, 0, 0}}), 0);
}

TEST(Sample, FrequencyPenaltyCountsEveryTimeInTheOutput) {
  const wire::SamplingParams params{.frequency_penalty = 1};
  EXPECT_EQ(Greedy({4, 2.5f}, params, {.prompt = {0, 0}}), 0);
  EXPECT_EQ(Greedy({4, 2.5f}, params, {.output = {0}}), 0);
  EXPECT_EQ(Greedy({4, 2.5f}, params, {.output = {0, 0}}), 1);
  EXPECT_EQ(Greedy({4, 4.5f}, {.frequency_penalty = -1}, {.output = {0}}), 0);
}

TEST(Sample, RepetitionPenaltyComesBeforeTheOthers) {
  // 4 / 2 - 1 - 1 = 0, not (4 - 2) / 2 = 1.
  EXPECT_EQ(
      Greedy({4, 0.5f}, {.repetition_penalty = 2, .presence_penalty = 1, .frequency_penalty = 1},
             {.output = {0}}),
      1);
}

TEST(Sample, MaskedTokensAreNeverChosen) {
  EXPECT_EQ(Greedy({1, 5, 2}, {}, {.masked = {1}}), 2);
  EXPECT_THAT(Drawn({1, 5, 2}, {}, {.masked = {1}}), ElementsAre(0, 2));
  EXPECT_EQ(Greedy({1, 5}, {.logit_bias = {{1, 100.0f}}}, {.masked = {1}}), 0);
}

TEST(Sample, OnlyAllowedTokensAreChosen) {
  EXPECT_EQ(Greedy({1, 5, 2}, {}, {.allowed = {0b101}}), 2);
  EXPECT_THAT(Drawn({1, 5, 2}, {}, {.allowed = {0b101}}), ElementsAre(0, 2));
  EXPECT_EQ(Greedy({1, 5, 2}, {}, {.masked = {2}, .allowed = {0b101}}), 0);
  EXPECT_EQ(Greedy({1, 5}, {.logit_bias = {{1, 100.0f}}}, {.allowed = {0b01}}), 0);
  // What lies behind the set is not in it, and what of it lies behind the vocabulary does not
  // count.
  std::vector<float> many(70, 1.0f);
  many[65] = 2;
  EXPECT_EQ(Greedy(many, {}, {.allowed = {0b1000}}), 3);
  EXPECT_EQ(Greedy(many, {}, {.allowed = {0, ~uint64_t{0}}}), 65);
}

// top_p is of what is allowed.
TEST(Sample, IsNormalizedOverWhatIsAllowed) {
  const std::vector<float> logits = Logs({0.1f, 0.6f, 0.2f, 0.1f});
  EXPECT_THAT(Drawn(logits, {.top_p = 0.6f}, {.allowed = {0b1101}}), ElementsAre(0, 2));
  EXPECT_THAT(Drawn(logits, {.top_p = 0.4f}, {.allowed = {0b1101}}), ElementsAre(2));
}

TEST(Sample, OnlyTokensThatTheParametersAllowAreChosen) {
  EXPECT_EQ(Greedy({1, 5, 2}, {.allowed_token_ids = {0, 2}}), 2);
  EXPECT_THAT(Drawn({1, 5, 2}, {.allowed_token_ids = {0, 2}}), ElementsAre(0, 2));
  EXPECT_EQ(Greedy({1, 5, 2}, {.allowed_token_ids = {0, 2}}, {.masked = {2}}), 0);
  EXPECT_EQ(Greedy({1, 5, 2}, {.allowed_token_ids = {1, 3, 100}}), 1);
}

TEST(Sample, BadWordsAreNotCompleted) {
  const wire::SamplingParams params = {.bad_words = {{0, 2, 1}, {2}, {1, 1}}};
  EXPECT_EQ(Greedy({1, 5, 9}, params), 1);
  EXPECT_EQ(Greedy({1, 5, 9}, params, {.output = {0, 2}}), 0);
  EXPECT_EQ(Greedy({1, 5, 9}, params, {.output = {0, 2, 2}}), 1);
  EXPECT_EQ(Greedy({1, 5, 9}, params, {.output = {2, 0, 1}}), 0);
  EXPECT_EQ(Greedy({1, 5, 9}, params, {.prompt = {0}, .output = {2}}), 1)
      << "they are the output's";
  EXPECT_THAT(Drawn({1, 5, 9}, params, {.output = {1}}), ElementsAre(0));
}

// Even by chance that is next to none, or none.
TEST(Sample, WhatIsForcedIsChosen) {
  const std::vector<float> logits = {9, -kInfinity, 1};
  const wire::SamplingParams params = {.allowed_token_ids = {0}, .num_logprobs = 0};
  const std::vector<int32_t> masked = {1};
  SamplingScratch scratch;
  const auto result =
      Sample({.logits = logits, .params = &params, .forced = 1, .masked = masked}, scratch);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->token, 1);
  EXPECT_EQ(result->logprobs->logprob, -kInfinity);
  const std::vector<float> broken = {9, 1, kNan};
  EXPECT_FALSE(Sample({.logits = broken, .params = &params, .forced = 1}, scratch).ok());
}

TEST(Sample, ADeviceLeavesMasksToTheHost) {
  const wire::SamplingParams params;
  const std::vector<uint64_t> allowed = {1};
  EXPECT_TRUE(DeviceCanChoose({.params = &params}));
  EXPECT_FALSE(DeviceCanChoose({.params = &params, .allowed = allowed}));
  EXPECT_FALSE(DeviceCanChoose({.params = &params, .forced = 0}));
  const wire::SamplingParams with_tokens = {.allowed_token_ids = {1}};
  EXPECT_FALSE(DeviceCanChoose({.params = &with_tokens}));
  const wire::SamplingParams with_words = {.bad_words = {{1, 2}}};
  EXPECT_FALSE(DeviceCanChoose({.params = &with_words}));
}

TEST(Sample, IgnoresTokensOutsideTheVocabulary) {
  const std::vector<int32_t> outside = {-1, 2, 1 << 30, std::numeric_limits<int32_t>::min()};
  EXPECT_EQ(Greedy({1, 2},
                   {.repetition_penalty = 1.5f,
                    .presence_penalty = 1,
                    .frequency_penalty = 1,
                    .logit_bias = {{-1, 9.0f}, {2, 9.0f}},
                    .bad_words = {{-1}, {2}}},
                   {.prompt = outside, .output = outside, .masked = outside}),
            1);
}

TEST(Sample, TopKKeepsTheLargest) {
  const std::vector<float> logits = Logs({0.2f, 0.3f, 0.1f, 0.2f, 0.2f});
  EXPECT_THAT(Drawn(logits, {.top_k = 1}), ElementsAre(1));
  EXPECT_THAT(Drawn(logits, {.top_k = 2}), ElementsAre(0, 1));
  EXPECT_THAT(Drawn(logits, {.top_k = 4}), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(Drawn(logits, {.top_k = 5}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Drawn(logits, {.top_k = 99}), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Sample, TopPKeepsTheShortestPrefix) {
  const std::vector<float> logits = Logs({0.1f, 0.4f, 0.2f, 0.3f});
  EXPECT_THAT(Drawn(logits, {.top_p = 0.0f}), ElementsAre(1));
  EXPECT_THAT(Drawn(logits, {.top_p = 0.39f}), ElementsAre(1));
  EXPECT_THAT(Drawn(logits, {.top_p = 0.41f}), ElementsAre(1, 3));
  EXPECT_THAT(Drawn(logits, {.top_p = 0.71f}), ElementsAre(1, 2, 3));
  EXPECT_THAT(Drawn(logits, {.top_p = 0.91f}), ElementsAre(0, 1, 2, 3));
}

TEST(Sample, TopPEndsExactlyAtItsSumAndByIdAmongEquals) {
  const std::vector<float> logits(4, 0.0f);
  EXPECT_THAT(Drawn(logits, {.top_p = 0.5f}), ElementsAre(0, 1));
  EXPECT_THAT(Drawn(logits, {.top_p = 0.75f}), ElementsAre(0, 1, 2));
}

TEST(Sample, TopPIsNormalizedOverWhatTopKLeft) {
  // Of the first two, 0.4 and 0.3, the first has 4/7 = 0.571.
  const std::vector<float> logits = Logs({0.1f, 0.4f, 0.2f, 0.3f});
  EXPECT_THAT(Drawn(logits, {.top_k = 2, .top_p = 0.56f}), ElementsAre(1));
  EXPECT_THAT(Drawn(logits, {.top_k = 2, .top_p = 0.58f}), ElementsAre(1, 3));
}

TEST(Sample, MinPIsRelativeToTheLargest) {
  const std::vector<float> logits = Logs({0.1f, 0.4f, 0.2f, 0.3f});
  EXPECT_THAT(Drawn(logits, {.min_p = 1.0f}), ElementsAre(1));
  EXPECT_THAT(Drawn(logits, {.min_p = 0.74f}), ElementsAre(1, 3));
  EXPECT_THAT(Drawn(logits, {.min_p = 0.49f}), ElementsAre(1, 2, 3));
  EXPECT_THAT(Drawn(logits, {.top_k = 2, .min_p = 0.49f}), ElementsAre(1, 3));
  EXPECT_THAT(Drawn(logits, {.top_p = 0.41f, .min_p = 0.49f}), ElementsAre(1, 3));
}

TEST(Sample, TemperatureComesBeforeTopP) {
  // At temperature 0.5 the probabilities are squared: 0.16 of 0.30 = 0.53 for the first.
  const std::vector<float> logits = Logs({0.1f, 0.4f, 0.2f, 0.3f});
  EXPECT_THAT(Drawn(logits, {.temperature = 0.5f, .top_p = 0.52f}), ElementsAre(1));
}

TEST(Sample, TheDrawIsTheFirstTokenById) {
  const std::vector<float> logits(10, 1.5f);
  for (int64_t position = 0; position < 100; ++position) {
    const wire::SamplingParams params{.seed = 7};
    EXPECT_EQ(Token(logits, params, {}, position),
              static_cast<int32_t>(UniformDraw(7, 0, position) * 10));
  }
}

TEST(Sample, ExtremeLogitsAndTemperaturesAreFine) {
  const std::vector<float> logits = {-1e30f, 1e30f, 0, 1e30f};
  for (const float temperature : {1e-45f, 1e-5f, 1.0f, 1e5f}) {
    EXPECT_THAT(Drawn(logits, {.temperature = temperature}), ElementsAre(1, 3));
  }
  const wire::SamplingParams all{.temperature = 1e-5f, .top_k = 3, .top_p = 0.99f, .min_p = 0.01f};
  EXPECT_THAT(Drawn(logits, all), ElementsAre(1, 3));
  EXPECT_THAT(Drawn({1, 2, 3}, {.temperature = 1e30f}), ElementsAre(0, 1, 2));
}

TEST(Sample, RefusesRowsThatAllowNoChoice) {
  EXPECT_THAT(ErrorOf({1, kNan, 2}), HasSubstr("the logit of token 1 is nan"));
  EXPECT_THAT(ErrorOf({1, 2, kInfinity}), HasSubstr("the logit of token 2 is inf"));
  EXPECT_THAT(ErrorOf({-kInfinity, -kInfinity}), HasSubstr("all 2 tokens"));
  EXPECT_THAT(ErrorOf({}), HasSubstr("all 0 tokens"));
}

// The request's own doing, not the model's.
TEST(Sample, RefusesAMaskOverEverything) {
  const auto result = Choose({1, 2}, {}, {.masked = {0, 1}});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(result.status()), HasSubstr("none of the 2 tokens"));
  EXPECT_THAT(Message(Choose({1, 2}, {}, {.allowed = {0b100}}).status()), HasSubstr("its format"));
}

TEST(Sample, AMaskHidesNoNan) {
  EXPECT_THAT(ErrorOf({1, kNan}, {}, {.masked = {1}}), HasSubstr("token 1 is nan"));
}

TEST(Sample, RefusesWhatPenaltiesMakeInfinite) {
  EXPECT_THAT(ErrorOf({1e38f, 1}, {.repetition_penalty = 1e-5f}, {.prompt = {0}}),
              HasSubstr("token 0 is inf"));
}

TEST(Sample, LogprobsAreOfTheModelBeforeAnyParameter) {
  const auto result = Choose(Logs({0.25f, 0.75f}),
                             {.temperature = 0, .logit_bias = {{0, 50.0f}}, .num_logprobs = 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->token, 0);
  ASSERT_TRUE(result->logprobs);
  EXPECT_NEAR(result->logprobs->logprob, std::log(0.25), 1e-6);
  EXPECT_EQ(result->logprobs->rank, 2);
  ASSERT_EQ(result->logprobs->top.size(), 1u);
  EXPECT_EQ(result->logprobs->top[0].token, 1);
  EXPECT_FALSE(Choose({1, 2})->logprobs);
}

}  // namespace
}  // namespace aril::kernels
