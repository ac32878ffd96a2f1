#include "spec/generation_config.h"

#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StatusOr<GenerationConfig> Parse(const std::string& text) {
  const auto json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << json.status();
  return ParseGenerationConfig(*json);
}

TEST(GenerationConfig, ReadsTheDefaultsOfRequests) {
  // Of Qwen2.5-0.5B-Instruct, with a min_p.
  const auto config = Parse(R"({"bos_token_id":151643,"pad_token_id":151643,"do_sample":true,
      "eos_token_id":[151645,151643],"repetition_penalty":1.1,"temperature":0.7,"top_p":0.8,
      "top_k":20,"min_p":0.05,"max_new_tokens":2048,"transformers_version":"4.37.0"})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->defaults.temperature, 0.7);
  EXPECT_EQ(config->defaults.top_k, 20);
  EXPECT_EQ(config->defaults.top_p, 0.8);
  EXPECT_EQ(config->defaults.min_p, 0.05);
  EXPECT_EQ(config->defaults.repetition_penalty, 1.1);
  EXPECT_EQ(config->defaults.max_new_tokens, 2048);
  EXPECT_THAT(config->stated,
              ElementsAre("temperature=0.7", "top_p=0.8", "min_p=0.05", "repetition_penalty=1.1",
                          "top_k=20", "max_new_tokens=2048"));
  EXPECT_THAT(config->ignored, IsEmpty());
}

TEST(GenerationConfig, WhatItDoesNotSayIsOff) {
  const auto config = Parse(R"({"eos_token_id":2,"temperature":null})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->defaults.temperature, 1);
  EXPECT_EQ(config->defaults.top_k, 0);
  EXPECT_EQ(config->defaults.top_p, 1);
  EXPECT_EQ(config->defaults.min_p, 0);
  EXPECT_EQ(config->defaults.repetition_penalty, 1);
  EXPECT_EQ(config->defaults.max_new_tokens, std::nullopt);
  EXPECT_THAT(config->stated, IsEmpty());
}

TEST(GenerationConfig, NamesWhatItIgnores) {
  const auto config = Parse(R"({"suppress_tokens":[1,2],"min_new_tokens":3,"bad_words_ids":[[4]],
      "forced_bos_token_id":0,"typical_p":0.9,"max_length":4096})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->ignored, ElementsAre("bad_words_ids", "forced_bos_token_id", "max_length",
                                           "min_new_tokens", "suppress_tokens", "typical_p"));
  const auto neutral =
      Parse(R"({"suppress_tokens":[],"begin_suppress_tokens":null,"min_length":0,"max_length":20,
      "no_repeat_ngram_size":0,"typical_p":1.0,"num_beams":1,"guidance_scale":1})");
  ASSERT_TRUE(neutral.ok()) << neutral.status();
  EXPECT_THAT(neutral->ignored, IsEmpty());
}

TEST(GenerationConfig, RefusesWhatNoRequestMayStateEither) {
  const TestDir dir;
  for (const char* member : {R"("temperature":-1)", R"("temperature":"hot")", R"("top_p":0)",
                             R"("top_p":1.5)", R"("top_k":-2)", R"("top_k":1.5)", R"("min_p":2)",
                             R"("repetition_penalty":0)", R"("max_new_tokens":0)"}) {
    dir.Write("generation_config.json", std::string("{") + member + "}");
    const std::string key = std::string(member).substr(0, std::string(member).find(':'));
    EXPECT_THAT(Message(LoadGenerationConfig(dir.path()).status()),
                AllOf(HasSubstr("generation_config.json: "), HasSubstr(key)));
  }
}

TEST(GenerationConfig, MayBeAbsent) {
  const auto config = LoadGenerationConfig(TestDir().path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->stated, IsEmpty());
}

}  // namespace
}  // namespace aril
