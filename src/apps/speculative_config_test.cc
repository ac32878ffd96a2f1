#include "apps/speculative_config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

TEST(SpeculativeConfig, ReadsWhatVllmDocuments) {
  const auto options = ParseSpeculativeConfig(
      R"({"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4})");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->max_tokens, 5);
  EXPECT_EQ(options->min_match, 2);
  EXPECT_EQ(options->max_match, 4);
}

TEST(SpeculativeConfig, HasDefaults) {
  const auto options = ParseSpeculativeConfig(R"({"method":"ngram"})");
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->max_tokens, 8);
  EXPECT_EQ(ParseSpeculativeConfig(R"({"method":"ngram","prompt_lookup_max":1})")->min_match, 1);
  EXPECT_EQ(ParseSpeculativeConfig(R"({"method":"ngram","prompt_lookup_min":3})")->min_match, 3);
  EXPECT_EQ(ParseSpeculativeConfig(R"({"method":"ngram","prompt_lookup_min":5})")->max_match, 5);
  EXPECT_EQ(ParseSpeculativeConfig(R"({"model":"[ngram]","num_speculative_tokens":0})")->max_tokens,
            0);
}

TEST(SpeculativeConfig, SaysWhatIsWrong) {
  const auto message = [](const std::string& text) {
    return Message(ParseSpeculativeConfig(text).status());
  };
  EXPECT_THAT(message("ngram"), HasSubstr("not JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("a JSON object"));
  EXPECT_THAT(message("{}"), HasSubstr("`method` is missing"));
  EXPECT_THAT(message(R"({"method": "eagle"})"), HasSubstr("`method` must be \"ngram\""));
  EXPECT_THAT(message(R"({"method": "ngram", "model": "x"})"), HasSubstr("`model` must be"));
  EXPECT_THAT(message(R"({"method": "ngram", "draft_model": "x"})"),
              HasSubstr("unknown key \"draft_model\"; there are method, "));
  EXPECT_THAT(message(R"({"method": "ngram", "num_speculative_tokens": 12})"),
              HasSubstr("`num_speculative_tokens` must be an integer from 0 to 11, not 12"));
  EXPECT_THAT(message(R"({"method": "ngram", "num_speculative_tokens": "5"})"),
              HasSubstr("`num_speculative_tokens`"));
  EXPECT_THAT(message(R"({"method": "ngram", "prompt_lookup_min": 5, "prompt_lookup_max": 4})"),
              HasSubstr("`prompt_lookup_min` (5) is more than `prompt_lookup_max` (4)"));
}

}  // namespace
}  // namespace aril
