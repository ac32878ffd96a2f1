// What an engine refuses before it begins, and says why.

#include "base/strings.h"
#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5, 63, 28};

TEST(Engine, RefusesAnOutputThatLeavesNothingToDo) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 3);
  request.output = {1, 2, 3};
  EXPECT_THAT(Message(engine->Accept(request).status()),
              HasSubstr("has 3 tokens of output already, and max_tokens is 3"));
  request.output = {1, 1'000'000};
  EXPECT_THAT(Message(engine->Accept(request).status()), HasSubstr("outside the vocabulary"));
}

TEST(EngineAccept, RefusesMixesThatAreNone) {
  TestEngine engine({});
  const AdapterId known(0);
  for (const AdapterMix& mix : {AdapterMix{{kBaseModel}}, AdapterMix{{known}, {known, 2}},
                                AdapterMix{{known, NAN}}, AdapterMix{{known}, {AdapterId(99)}}}) {
    auto request = GreedyRequest(0, kPrompt, 9);
    request.adapters = mix;
    EXPECT_FALSE(engine->Accept(request).ok());
  }
}

TEST(EngineAccept, RefusesWeightsThatMeanNothing) {
  TestEngineOptions options;
  options.adapter_dirs = {kEngineTestModel + "/adapters/saved-r2",
                          kEngineTestModel + "/adapters/saved-r2",
                          kEngineTestModel + "/adapters/all-r4"};
  TestEngine engine(options);
  const auto error = [&](AdapterMix mix) {
    auto request = GreedyRequest(0, kPrompt, 9);
    request.adapters = std::move(mix);
    return Message(engine->Accept(request).status());
  };
  EXPECT_EQ(error({{AdapterId(0)}, {AdapterId(2), 0.5f}}), "");
  EXPECT_THAT(error({{AdapterId(0), 0.5f}}),
              HasSubstr("trainable_token_indices), applies with weight 1"));
  EXPECT_THAT(error({{AdapterId(0)}, {AdapterId(1)}}), HasSubstr("for the same module"));
}

TEST(EngineAccept, RefusesMasksThatMeanNothing) {
  TestEngine engine({});
  const std::pair<wire::SamplingParams, const char*> cases[] = {
      {{.allowed_token_ids = {3, 3}}, "do not rise"},
      {{.allowed_token_ids = {-1, 3}}, "token id -1"},
      {{.bad_words = {{1}, {}}}, "has no tokens"},
      {{.bad_words = {{1, 171}}}, "token id 171"}};
  for (const auto& [sampling, complaint] : cases) {
    auto request = GreedyRequest(0, {1, 2, 3}, 4);
    request.sampling = sampling;
    EXPECT_THAT(Message(engine->Accept(request).status()), HasSubstr(complaint));
  }
  auto request = GreedyRequest(0, {1, 2, 3}, 4);
  request.sampling.bad_words = {{1}};
  request.format = {.kind = wire::OutputFormat::Kind::kRegex, .source = "a"};
  EXPECT_THAT(Message(engine->Accept(request).status()), HasSubstr("the output has a format"));
}

// Of a vocabulary that was resized.
TEST(EngineAccept, TokensAreThoseOfTheAdaptersVocabulary) {
  TestEngineOptions options;
  options.adapter_dirs.clear();
  for (const char* name : {"added-r4", "added-saved-r3", "head-embedding-r6", "all-r4"}) {
    options.adapter_dirs.push_back(StrCat(kEngineTestModel, "/adapters/", name));
  }
  TestEngine engine(options);
  const auto accept = [&](const std::vector<int32_t>& prompt, AdapterMix mix) {
    auto request = GreedyRequest(0, prompt, 9);
    request.adapters = std::move(mix);
    request.stop_token_ids = {174, 175, -1, 1'000'000};
    return engine->Accept(request);
  };
  const AdapterId added(0), saved(1), head(2), layers(3);
  const auto accepted = accept({1, 171, 174}, {{added}, {layers}});
  ASSERT_TRUE(accepted.ok()) << accepted.status();
  EXPECT_EQ(accepted->request.stop_token_ids, std::vector<int32_t>{174}) << "others cannot come";
  EXPECT_EQ(Message(accept({175}, {{added}}).status()),
            "token id 175 is outside the vocabulary of 175 tokens");
  EXPECT_EQ(Message(accept({171}, {{layers}}).status()),
            "token id 171 is outside the vocabulary of 171 tokens");
  for (const AdapterMix& mix : {AdapterMix{{added}, {head}}, {{head}, {saved}}}) {
    EXPECT_THAT(Message(accept({1}, mix).status()), HasSubstr("vocabularies of different sizes"));
  }
}

TEST(EngineAccept, SaysWhatCanNeverRun) {
  TestEngineOptions options;
  options.engine.num_pages = 20;
  TestEngine engine(options);
  const auto message = [&](const wire::SequenceRequest& request) {
    const Status status = engine->Accept(request).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return Message(status);
  };
  EXPECT_TRUE(engine->Accept(GreedyRequest(0, kPrompt, 5)).ok());
  EXPECT_EQ(message(GreedyRequest(0, {}, 5)), "the prompt has no tokens");
  EXPECT_EQ(message(GreedyRequest(0, {1, 171}, 5)),
            "token id 171 is outside the vocabulary of 171 tokens");
  EXPECT_EQ(message(GreedyRequest(0, {-1}, 5)),
            "token id -1 is outside the vocabulary of 171 tokens");
  EXPECT_EQ(message(GreedyRequest(0, {1}, -1)), "max_tokens is negative");
  for (const int32_t id : {3, -2}) {
    EXPECT_EQ(engine->Accept(GreedyRequest(0, {1}, 1, AdapterId(id))).status(),
              NotFound("there is no adapter " + std::to_string(id)));
  }
  EXPECT_THAT(message(GreedyRequest(0, kPrompt, 122)),
              HasSubstr("maximum context length is 128 tokens. However, you requested 129 tokens "
                        "(7 in the prompt, 122 in the completion)"));
  EXPECT_THAT(message(GreedyRequest(0, kPrompt, std::numeric_limits<int32_t>::max())),
              HasSubstr("you requested 2147483654 tokens"));
  EXPECT_THAT(message(GreedyRequest(0, kPrompt, 100)),
              HasSubstr("need 27 pages, but the whole pool has 20"));
  const int64_t adapter = engine->PagesFor(AdapterId(1));
  ASSERT_GT(adapter, 0);
  const auto fits = static_cast<int32_t>((20 - adapter) * engine.page_tokens() - 7);
  EXPECT_TRUE(engine->Accept(GreedyRequest(0, kPrompt, fits, AdapterId(1))).ok());
  EXPECT_THAT(message(GreedyRequest(0, kPrompt, fits + 1, AdapterId(1))),
              HasSubstr("the sequence and its adapters need 21 pages"));
}

}  // namespace
}  // namespace aril
