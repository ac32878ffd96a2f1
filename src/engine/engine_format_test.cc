// Requests whose output has a format.

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

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::FinishReason;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5, 63, 28};
constexpr int32_t kStop = 170;

// Token t is the letter t, twice that letter, …; the last ones have no text.
std::vector<std::string> Texts() {
  std::vector<std::string> texts(171);
  for (size_t t = 0; t < 160; ++t)
    texts[t] = std::string(1 + t / 26, static_cast<char>('a' + t % 26));
  return texts;
}

std::string TextOf(const std::vector<int32_t>& tokens) {
  const std::vector<std::string> texts = Texts();
  std::string text;
  for (const int32_t token : tokens) text += texts[static_cast<size_t>(token)];
  return text;
}

TestEngineOptions WithTexts() {
  TestEngineOptions options;
  options.engine.formats =
      std::make_shared<grammar::FormatCache>(std::make_shared<const grammar::TokenTable>(Texts()));
  return options;
}

wire::SequenceRequest FormatRequest(int64_t id, const std::string& expression,
                                    AdapterId adapter = kBaseModel) {
  auto request = GreedyRequest(id, kPrompt, 40, adapter);
  request.format = {.kind = wire::OutputFormat::Kind::kRegex, .source = expression};
  request.stop_token_ids = {kStop};
  return request;
}

TEST(EngineFormat, EndsWithTheTextThatNothingCanFollow) {
  TestEngine engine(WithTexts());
  const Stream stream = RunAlone(engine, FormatRequest(0, "ab{2}c"));
  EXPECT_EQ(TextOf(stream.tokens), "abbc");
  EXPECT_EQ(stream.finish, FinishReason::kStop);
  EXPECT_EQ(stream.stop_token, std::nullopt) << "no step is spent on a token that says so";
  ExpectAllPagesBack(engine);
}

TEST(EngineFormat, StopsOnlyWhereTheTextIsComplete) {
  TestEngine engine(WithTexts());
  auto request = FormatRequest(0, "(xyz)+");
  request.sampling.temperature = 1;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    request.sequence = SequenceId(static_cast<int64_t>(seed));
    request.sampling.seed = seed;
    request.sampling.logit_bias = {{kStop, seed % 2 == 0 ? 9.0F : 0.0F}};
    Stream stream = RunAlone(engine, request);
    ASSERT_FALSE(stream.tokens.empty());
    if (stream.finish == FinishReason::kStop) {
      EXPECT_EQ(stream.stop_token, kStop);
      EXPECT_EQ(stream.tokens.back(), kStop);
      stream.tokens.pop_back();
      EXPECT_EQ(stream.tokens.size() % 3, 0u);
    }
    const std::string text = TextOf(stream.tokens);
    for (size_t i = 0; i < text.size(); ++i) EXPECT_EQ(text[i], "xyz"[i % 3]) << text;
  }
}

TEST(EngineFormat, AStopTokenWithATextMayBePartOfIt) {
  TestEngine engine(WithTexts());
  auto request = FormatRequest(0, "abc");
  request.stop_token_ids = {1};
  EXPECT_THAT(RunAlone(engine, request).tokens, ElementsAre(0, 1));
}

TEST(EngineFormat, WithoutAStopTokenGoesOnToMaxTokens) {
  TestEngine engine(WithTexts());
  auto request = FormatRequest(0, "a+");
  request.stop_token_ids = {};
  const Stream stream = RunAlone(engine, request);
  EXPECT_EQ(stream.tokens.size(), 40u);
  EXPECT_EQ(stream.finish, FinishReason::kLength);
}

// The token that completes the text is also the last that was asked for.
TEST(EngineFormat, CompleteAtMaxTokensIsAStop) {
  TestEngine engine(WithTexts());
  auto request = FormatRequest(0, "ab");
  request.max_tokens = 2;
  EXPECT_EQ(RunAlone(engine, request).finish, FinishReason::kStop);
  request.max_tokens = 1;
  EXPECT_EQ(RunAlone(engine, request).finish, FinishReason::kLength);
}

TEST(EngineFormat, GoesOnBehindTheOutputOfAnEarlierAttempt) {
  TestEngine engine(WithTexts());
  auto request = FormatRequest(0, "(a|b|cc|[d-z]{3}){8}", AdapterId(0));
  request.sampling = {.temperature = 1.5F, .seed = 11};
  const Stream whole = RunAlone(engine, request);
  ASSERT_EQ(whole.finish, FinishReason::kStop);
  for (size_t cut = 1; cut < whole.tokens.size(); ++cut) {
    auto resumed = request;
    resumed.output.assign(whole.tokens.begin(), whole.tokens.begin() + static_cast<int64_t>(cut));
    engine->Add(*engine->Accept(resumed));
    std::vector<int32_t> tokens = resumed.output;
    while (engine->HasWork()) {
      for (const wire::TokenEvent& event : engine->Step()) tokens.push_back(*event.token);
    }
    EXPECT_EQ(tokens, whole.tokens) << cut;
  }
}

// Others share its batch, and its pages are taken away now and then.
TEST(EngineFormat, IsTheSameInABatchAndAfterEvictions) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<wire::SequenceRequest> requests;
  for (int64_t id = 0; id < 12; ++id) {
    auto request =
        FormatRequest(id, id % 2 == 0 ? "([a-m]{5}-?[n-z]+){3,9}" : "([aeiou][^aeiou]{2}){20}",
                      AdapterId(static_cast<int32_t>(id % 3) - 1));
    if (id % 3 == 0) request.format = {};
    request.prompt = RandomPrompt(random, 5 + id);
    request.sampling = {.temperature = 1, .seed = random()};
    requests.push_back(request);
  }
  TestEngineOptions tight = WithTexts();
  tight.engine.num_pages = 40;
  TestEngine engine(tight);
  Streams together = RunToEnd(*engine, requests);
  EXPECT_THAT(together.problems(), ::testing::IsEmpty());
  EXPECT_GT(engine->Stats().evictions, 0);
  TestEngine alone(WithTexts());
  for (const auto& request : requests) {
    EXPECT_EQ(together[request.sequence.value()].tokens, RunAlone(alone, request).tokens);
  }
}

// A step has time for one of them: the others sit it out, and their tokens are the same.
TEST(EngineFormat, IsTheSameWhereStepsHaveNoTimeForIt) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<wire::SequenceRequest> requests;
  for (int64_t id = 0; id < 12; ++id) {
    const std::string expression =
        id % 2 == 0 ? StrCat("([a-m]{5}-?[n-z]+){3,", 3 + id, "}") : "([aeiou][^aeiou]{2}){20}";
    auto request = FormatRequest(id, expression, AdapterId(static_cast<int32_t>(id % 3) - 1));
    if (id % 4 == 3) request.format = {};
    request.tenant = StrCat(id % 3);
    // 33 of them and more fill pages, which must not be cached before their last row is final.
    request.prompt = RandomPrompt(random, 25 + id);
    request.sampling = {
        .temperature = 1, .seed = random(), .num_logprobs = 2, .prompt_logprobs = id % 5 == 0};
    requests.push_back(request);
  }
  TestEngineOptions slow = WithTexts();
  slow.engine.num_pages = 60;
  slow.engine.format_work = 1;
  TestEngine engine(slow);
  Streams together = RunToEnd(*engine, requests);
  EXPECT_THAT(together.problems(), ::testing::IsEmpty());
  ExpectAllPagesBack(engine);
  slow.engine.format_work = FormatTurns::kWork;
  TestEngine timely(slow);
  RunToEnd(*timely, requests);
  EXPECT_GT(engine->Stats().step, timely->Stats().step) << "nobody sat out";
  TestEngine quick(WithTexts());
  for (const auto& request : requests) {
    const Stream& one = together[request.sequence.value()];
    const Stream alone = RunAlone(quick, request);
    EXPECT_EQ(one.tokens, alone.tokens);
    EXPECT_EQ(one.finish, alone.finish);
    EXPECT_TRUE(Same(one.prompt_logprobs, alone.prompt_logprobs));
  }
}

TEST(EngineFormat, OneThatSitsOutMayBeCancelled) {
  TestEngineOptions slow = WithTexts();
  slow.engine.format_work = 1;
  TestEngine engine(slow);
  for (int64_t id = 0; id < 3; ++id) {
    engine->Add(*engine->Accept(FormatRequest(id, StrCat("[a-z]{1,", 9 + id, "}"))));
  }
  Streams streams;
  streams.Take(engine->Step());
  engine->Cancel(SequenceId(2));
  while (engine->HasWork()) streams.Take(engine->Step());
  EXPECT_THAT(streams[2].tokens, ::testing::IsEmpty());
  EXPECT_EQ(streams[2].finish, FinishReason::kCancelled);
  EXPECT_EQ(streams[1].tokens, RunAlone(engine, FormatRequest(1, "[a-z]{1,10}")).tokens);
  ExpectAllPagesBack(engine);
}

TEST(EngineFormat, ATokenThatTheFormatDoesNotAllowEndsThatSequence) {
  TestEngine engine(WithTexts());
  auto request = FormatRequest(0, "abc");
  request.output = {25};  // z
  Streams streams = RunToEnd(*engine, {request, FormatRequest(1, "abc")});
  EXPECT_EQ(streams[0].finish, FinishReason::kError);
  EXPECT_THAT(Message(streams[0].error), HasSubstr("token 25 after 0 bytes"));
  EXPECT_EQ(TextOf(streams[1].tokens), "abc");
}

TEST(EngineFormat, WhatTheVocabularyCannotSayEndsThatSequence) {
  TestEngine engine(WithTexts());
  Streams streams = RunToEnd(*engine, {FormatRequest(0, "a!"), FormatRequest(1, "abc")});
  EXPECT_EQ(streams[0].finish, FinishReason::kError);
  EXPECT_EQ(streams[0].error.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(streams[0].error), HasSubstr("no token can follow after 1 bytes"));
  EXPECT_EQ(TextOf(streams[1].tokens), "abc");
}

TEST(EngineFormat, IsUnavailableWhileThereIsNoRoomForIt) {
  TestEngineOptions options;
  options.engine.formats = std::make_shared<grammar::FormatCache>(
      std::make_shared<const grammar::TokenTable>(Texts()),
      std::make_shared<grammar::FormatMemory>(/*max_grammar_bytes=*/4096));
  TestEngine engine(options);
  auto waiting = engine->Accept(FormatRequest(0, "a{200}"));
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  EXPECT_EQ(engine->Accept(FormatRequest(1, "b{200}")).status().code(), StatusCode::kUnavailable);
  waiting = Unavailable("gone");
  EXPECT_TRUE(engine->Accept(FormatRequest(1, "b{200}")).ok());
}

TEST(EngineFormat, RefusesWhatIsNoFormatAndAllWithoutTexts) {
  TestEngine engine(WithTexts());
  EXPECT_THAT(Message(engine->Accept(FormatRequest(0, "(")).status()), HasSubstr("`)` is missing"));
  TestEngine without({});
  const Status refused = without->Accept(FormatRequest(0, "a")).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(refused), HasSubstr("texts of tokens are not known"));
}

}  // namespace
}  // namespace aril
