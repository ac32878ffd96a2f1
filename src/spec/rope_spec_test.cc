#include "spec/rope_spec.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

StatusOr<RopeSpec> Parse(const std::string& text) {
  const auto config = Json::Parse(text);
  EXPECT_TRUE(config.ok()) << config.status();
  const ModelSpec spec{.head_dim = 128, .max_position_embeddings = 4096};
  return ParseRopeSpec(*config, spec, {.theta = 10000});
}

TEST(RopeSpec, NoScaling) {
  for (const char* text : {
           R"({"rope_theta":5e5})",
           R"({"rope_theta":500000,"rope_scaling":null})",
           R"({"rope_theta":500000,"rope_scaling":{"type":"default"}})",
           R"({"rope_scaling":{"rope_type":"default","rope_theta":500000}})",
           R"({"rope_parameters":{"rope_type":"default","rope_theta":500000}})",
           R"({"rope_theta":1e6,"rope_parameters":{"rope_theta":500000}})",
           R"({"rope_theta":500000,"rope_scaling":{},"partial_rotary_factor":1})",
       }) {
    const auto rope = Parse(text);
    ASSERT_TRUE(rope.ok()) << rope.status();
    EXPECT_EQ(rope->theta, 500000.0) << text;
    EXPECT_EQ(rope->scaling, RopeSpec::Scaling::kNone) << text;
  }
  EXPECT_EQ(Parse("{}")->theta, 10000.0);
}

// Of families that rotate a part of each head, which others refuse to.
TEST(RopeSpec, OfAPartOfTheHead) {
  const auto parse = [](const std::string& text) {
    const ModelSpec spec{.head_dim = 256, .max_position_embeddings = 4096};
    return ParseRopeSpec(*Json::Parse(text), spec, {.theta = 10000, .part = 0.25});
  };
  EXPECT_EQ(parse("{}")->num_pairs, 32);
  EXPECT_EQ(parse(R"({"partial_rotary_factor":0.5})")->num_pairs, 64);
  EXPECT_EQ(parse(R"({"partial_rotary_factor":0.5,
                      "rope_parameters":{"partial_rotary_factor":1,"rope_theta":5}})")
                ->num_pairs,
            128)
      << "what stands with the parameters counts";
  const auto yarn = parse(R"({"rope_parameters":{"rope_type":"yarn","factor":4,
                              "mrope_interleaved":true,"mrope_section":[11,11,10]}})");
  ASSERT_TRUE(yarn.ok()) << yarn.status();
  EXPECT_EQ(yarn->num_pairs, 32);
  EXPECT_EQ(yarn->scaling, RopeSpec::Scaling::kYarn);
  const auto odd = parse(R"({"rope_parameters":{"partial_rotary_factor":0.012}})");
  EXPECT_FALSE(odd.ok()) << "3 dimensions";
  const auto none = parse(R"({"rope_parameters":{"partial_rotary_factor":0.001}})");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(std::string(none.status().message()),
              AllOf(HasSubstr("rope_parameters"), HasSubstr("partial_rotary_factor")));
  EXPECT_FALSE(Parse("{}")->num_pairs);
}

TEST(RopeSpec, LinearInEachSpelling) {
  for (const char* text : {
           R"({"rope_scaling":{"type":"linear","factor":4}})",
           R"({"rope_scaling":{"rope_type":"linear","factor":4.0}})",
           R"({"rope_scaling":{"rope_type":"linear","type":"dynamic","factor":4.0}})",
           R"({"rope_parameters":{"rope_type":"linear","factor":4.0,"rope_theta":10000.0}})",
           R"({"rope_scaling":{"type":"linear","factor":4},"rope_parameters":{"type":"yarn"}})",
       }) {
    const auto rope = Parse(text);
    ASSERT_TRUE(rope.ok()) << rope.status();
    EXPECT_EQ(rope->scaling, RopeSpec::Scaling::kLinear) << text;
    EXPECT_EQ(rope->factor, 4.0) << text;
  }
}

TEST(RopeSpec, Llama3) {
  const auto rope = Parse(R"({"rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3",
      "factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
      "original_max_position_embeddings":8192}})");
  ASSERT_TRUE(rope.ok()) << rope.status();
  EXPECT_EQ(rope->scaling, RopeSpec::Scaling::kLlama3);
  EXPECT_EQ(rope->factor, 8.0);
  EXPECT_EQ(rope->low_freq_factor, 1.0);
  EXPECT_EQ(rope->high_freq_factor, 4.0);
  EXPECT_EQ(rope->original_max_position_embeddings, 8192);
}

TEST(RopeSpec, TheOriginalContextDefaultsAsInTransformers) {
  const std::string llama3 =
      R"("rope_parameters":{"rope_type":"llama3","factor":8,"low_freq_factor":1,
         "high_freq_factor":4)";
  EXPECT_EQ(Parse("{" + llama3 + "}}")->original_max_position_embeddings, 4096);
  EXPECT_EQ(Parse("{" + llama3 + R"(,"original_max_position_embeddings":2048}})")
                ->original_max_position_embeddings,
            2048);
  EXPECT_TRUE(Parse(R"({"original_max_position_embeddings":4096,)" + llama3 + "}}").ok());
  EXPECT_THAT(
      Message(Parse(R"({"original_max_position_embeddings":1024,)" + llama3 + "}}").status()),
      HasSubstr("\"original_max_position_embeddings\" is 1024; expected 4096"));
}

TEST(RopeSpec, Yarn) {
  const auto rope = Parse(R"({"rope_theta":1e6,"rope_scaling":{"type":"yarn","factor":4.0,
      "original_max_position_embeddings":32768}})");
  ASSERT_TRUE(rope.ok()) << rope.status();
  EXPECT_EQ(rope->scaling, RopeSpec::Scaling::kYarn);
  EXPECT_EQ(rope->factor, 4.0);
  EXPECT_EQ(rope->original_max_position_embeddings, 32768);
  EXPECT_EQ(rope->beta_fast, 32);
  EXPECT_EQ(rope->beta_slow, 1);
  EXPECT_TRUE(rope->truncate);
  EXPECT_NEAR(rope->attention_factor, 1.138629436111989, 1e-15);
}

// As transformers: a factor that is said counts, then both mscales, and 0 is as good as none.
TEST(RopeSpec, YarnsOptionsCountAsInTransformers) {
  const auto parse = [](const std::string& more) {
    const auto rope = Parse(R"({"rope_scaling":{"rope_type":"yarn","factor":40,)" + more + "}}");
    EXPECT_TRUE(rope.ok()) << rope.status();
    return rope.value_or(RopeSpec());
  };
  const double of_40 = 0.1 * std::log(40) + 1;
  EXPECT_EQ(parse(R"("attention_factor":0.5,"mscale":1,"mscale_all_dim":2)").attention_factor, 0.5);
  EXPECT_EQ(parse(R"("mscale":1,"mscale_all_dim":1)").attention_factor, 1);
  EXPECT_NEAR(parse(R"("mscale":0.5,"mscale_all_dim":1)").attention_factor,
              (0.05 * std::log(40) + 1) / of_40, 1e-15);
  EXPECT_NEAR(parse(R"("mscale":0.5)").attention_factor, of_40, 1e-15);
  EXPECT_NEAR(parse(R"("mscale":1,"mscale_all_dim":0)").attention_factor, of_40, 1e-15);
  const RopeSpec rope = parse(R"("beta_fast":0,"beta_slow":2,"truncate":false)");
  EXPECT_EQ(rope.beta_fast, 32);
  EXPECT_EQ(rope.beta_slow, 2);
  EXPECT_FALSE(rope.truncate);
  EXPECT_FALSE(parse(R"("truncate":null)").truncate);
  EXPECT_EQ(Parse(R"({"rope_scaling":{"type":"yarn","factor":0.5}})")->attention_factor, 1);
}

TEST(RopeSpec, RefusesTheRest) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"rope_scaling":{"type":"dynamic","factor":2}})",
       R"(rope_scaling: "type" is "dynamic", which is not supported; supported: default, linear, llama3, yarn)"},
      {R"({"rope_scaling":{"rope_type":"longrope","factor":2}})", R"("rope_type" is "longrope")"},
      {R"({"rope_parameters":{"rope_type":"yarn"}})", R"(rope_parameters: "factor" is missing)"},
      {R"({"rope_scaling":{"rope_type":"yarn","factor":2,"beta_fast":1,"beta_slow":2}})",
       R"("beta_fast" is 1; expected no less than beta_slow, which is 2)"},
      {R"({"rope_scaling":{"rope_type":"yarn","factor":2,"mscale":-1}})", R"("mscale" is -1)"},
      {R"({"rope_scaling":{"rope_type":"yarn","factor":2,"truncate":1}})", R"("truncate" is 1)"},
      {R"({"rope_theta":1,"rope_scaling":{"rope_type":"yarn","factor":2}})", "more than 1"},
      {R"({"rope_parameters":{"full_attention":{"rope_type":"default"}}})", "\"full_attention\""},
      {R"({"rope_parameters":{"partial_rotary_factor":0.25}})",
       "\"partial_rotary_factor\" is 0.25"},
      {R"({"rope_scaling":{"rope_type":7}})", "\"rope_type\" is 7; expected a string"},
      {R"({"rope_scaling":"linear"})", R"("rope_scaling" is "linear"; expected an object)"},
      {R"({"rope_scaling":{"type":"linear"}})", "\"factor\" is missing"},
      {R"({"rope_scaling":{"type":"linear","factor":0}})", "\"factor\" is 0"},
      {R"({"rope_scaling":{"type":"linear","factor":1e300}})", "\"factor\" is 1e+300"},
      {R"({"rope_scaling":{"rope_type":"llama3","factor":8}})", "\"low_freq_factor\" is missing"},
      {R"({"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,
           "high_freq_factor":4}})",
       "\"high_freq_factor\" is 4; expected more than low_freq_factor"},
      {R"({"rope_theta":-1})", "\"rope_theta\" is -1"},
      {R"({"rope_parameters":{"rope_theta":true}})", "\"rope_theta\" is true"},
      {R"({"partial_rotary_factor":"1"})", "\"partial_rotary_factor\" is \"1\""},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(Message(Parse(text).status()), HasSubstr(expected)) << text;
  }
}

StatusOr<TwoRopes> ParseTwo(const std::string& text) {
  const auto config = Json::Parse(text);
  EXPECT_TRUE(config.ok()) << config.status();
  return ParseTwoRopes(*config, 4096);
}

TEST(TwoRopes, InEachSpelling) {
  for (const char* text : {
           R"({"rope_theta":5e5,"rope_scaling":{"rope_type":"linear","factor":8},
               "rope_local_base_freq":2e4})",
           R"({"rope_theta":5e5,"rope_local_base_freq":2e4,
               "rope_parameters":{"full_attention":{"rope_type":"linear","factor":8}}})",
           R"({"rope_parameters":{
               "full_attention":{"rope_type":"linear","factor":8,"rope_theta":5e5},
               "sliding_attention":{"rope_type":"default","rope_theta":2e4}}})",
       }) {
    const auto ropes = ParseTwo(text);
    ASSERT_TRUE(ropes.ok()) << ropes.status();
    EXPECT_EQ(ropes->full.theta, 5e5) << text;
    EXPECT_EQ(ropes->full.scaling, RopeSpec::Scaling::kLinear) << text;
    EXPECT_EQ(ropes->full.factor, 8) << text;
    EXPECT_EQ(ropes->windowed.theta, 2e4) << text;
    EXPECT_EQ(ropes->windowed.scaling, RopeSpec::Scaling::kNone) << text;
  }
  const auto defaults = ParseTwo("{}");
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->full.theta, 1e6);
  EXPECT_EQ(defaults->windowed.theta, 1e4);
}

TEST(TwoRopes, RefusesWhatIsNeitherSpelling) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"rope_parameters":{"rope_type":"linear","factor":8}})",
       R"(rope_parameters: "rope_type" is "linear", which is not supported)"},
      {R"({"rope_parameters":{"full_attention":7}})",
       R"(rope_parameters: "full_attention" is 7; expected an object or null)"},
      {R"({"rope_parameters":{"sliding_attention":{"rope_type":"longrope"}}})",
       R"(rope_parameters: sliding_attention: "rope_type" is "longrope")"},
      {R"({"rope_scaling":{"rope_type":"linear","factor":8},
           "rope_parameters":{"full_attention":{"rope_theta":1e6}}})",
       R"(supported: null beside "rope_parameters")"},
      {R"({"rope_parameters":{"full_attention":{"rope_type":"yarn","factor":2,"truncate":false}}})",
       R"("truncate": false is not supported)"},
      {R"({"rope_local_base_freq":0})", R"("rope_local_base_freq" is 0)"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(Message(ParseTwo(text).status()), HasSubstr(expected)) << text;
  }
}

}  // namespace
}  // namespace aril::internal
