#include "spec/lora_config.h"

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// `members`: JSON members after "peft_type".
StatusOr<LoraConfig> Parse(const std::string& members) {
  const auto config = Json::Parse(R"({"peft_type":"LORA")" + members + "}");
  EXPECT_TRUE(config.ok()) << config.status();
  return ParseLoraConfig(*config);
}

std::string ErrorOf(const std::string& members) { return Message(Parse(members).status()); }

TEST(LoraConfig, ReadsRankAlphaAndTargets) {
  const auto config = Parse(
      R"(,"r":16,"lora_alpha":32.5,"use_rslora":true,"target_modules":["v_proj","x","v_proj"])");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rank, 16);
  EXPECT_EQ(config->lora_alpha, 32.5);
  EXPECT_TRUE(config->use_rslora);
  EXPECT_THAT(config->target_modules.names, ElementsAre("v_proj", "x", "v_proj"));
  EXPECT_FALSE(config->target_modules.regex.has_value());
}

TEST(LoraConfig, MissingFieldsDefaultAsInPeft) {
  const auto config = Parse("");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rank, 8);
  EXPECT_EQ(config->lora_alpha, 8.0);
  EXPECT_FALSE(config->use_rslora);
  EXPECT_THAT(config->target_modules.names, ElementsAre("q_proj", "v_proj"));
}

TEST(LoraConfig, ReadsPatternsAndLayers) {
  const auto config = Parse(
      R"(,"target_modules":["q_proj"],"exclude_modules":".*3.*","rank_pattern":{"a":4,"b":2},)"
      R"("alpha_pattern":{"c":0.5},"layers_to_transform":[1,3],"layers_pattern":"layers")");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->exclude_modules.regex, ".*3.*");
  EXPECT_THAT(config->rank_pattern, ElementsAre(Pair("a", 4), Pair("b", 2)));
  EXPECT_THAT(config->alpha_pattern, ElementsAre(Pair("c", 0.5)));
  EXPECT_THAT(*config->layers_to_transform, ElementsAre(1, 3));
  EXPECT_THAT(config->layers_pattern, ElementsAre("layers"));
}

TEST(LoraConfig, AllLinearIsAWordOfItsOwn) {
  EXPECT_TRUE(Parse(R"(,"target_modules":"All-Linear")")->all_linear);
  EXPECT_FALSE(Parse(R"(,"target_modules":["all-linear"])")->all_linear);
}

TEST(LoraConfig, RefusesBadTargetsLayersAndPatterns) {
  EXPECT_THAT(ErrorOf(R"(,"target_modules":[])"), HasSubstr("\"target_modules\" is []"));
  EXPECT_THAT(ErrorOf(R"(,"target_modules":{"a":1})"), HasSubstr("a list of strings, or a string"));
  EXPECT_THAT(ErrorOf(R"(,"target_modules":["q_proj",1])"), HasSubstr("a list of strings"));
  EXPECT_THAT(ErrorOf(R"(,"exclude_modules":7)"), HasSubstr("\"exclude_modules\" is 7"));
  EXPECT_THAT(ErrorOf(R"(,"layers_pattern":"h")"), HasSubstr("without \"layers_to_transform\""));
  EXPECT_THAT(ErrorOf(R"(,"layers_to_transform":[0,-1])"), HasSubstr("an index of a layer"));
  EXPECT_THAT(ErrorOf(R"(,"layers_to_transform":"3")"), HasSubstr("an index of a layer"));
  EXPECT_THAT(ErrorOf(R"(,"layers_to_transform":1,"target_modules":".*q_proj")"),
              HasSubstr("because \"target_modules\" is a string"));
  EXPECT_THAT(ErrorOf(R"(,"rank_pattern":[4])"), HasSubstr("\"rank_pattern\" is [4]"));
  EXPECT_THAT(ErrorOf(R"(,"rank_pattern":{"q_proj":0})"),
              HasSubstr("\"rank_pattern\": \"q_proj\" is 0; expected an integer from 1 to 512"));
  EXPECT_THAT(ErrorOf(R"(,"alpha_pattern":{"q_proj":"4"})"), HasSubstr("\"q_proj\" is \"4\""));
}

// Each entry is tried on each module, or takes memory: a stranger's file must not hold any number.
TEST(LoraConfig, ListsAreBounded) {
  const auto list = [](const std::string& item, size_t count) {
    return StrCat("[", Join(std::vector<std::string>(count, item), ","), "]");
  };
  const auto layers_pattern = [&](size_t count) {
    return ErrorOf(
        StrCat(R"(,"layers_to_transform":[1],"layers_pattern":)", list("\"layers\"", count)));
  };
  EXPECT_EQ(layers_pattern(64), "");
  EXPECT_EQ(layers_pattern(65), "\"layers_pattern\" has 65 patterns; there may be 64 at most");
  const auto layers = [&](size_t count) {
    return ErrorOf(StrCat(R"(,"layers_to_transform":)", list("1", count)));
  };
  EXPECT_EQ(layers(1024), "");
  EXPECT_EQ(layers(1025), "\"layers_to_transform\" has 1025 indices; there may be 1024 at most");
  for (const char* field : {"target_modules", "exclude_modules", "modules_to_save"}) {
    const auto names = [&](size_t count) {
      return ErrorOf(StrCat(",\"", field, "\":", list("\"lm_head\"", count)));
    };
    EXPECT_EQ(names(8192), "") << field;
    EXPECT_EQ(names(8193), StrCat("\"", field, "\" has 8193 names; there may be 8192 at most"));
  }
}

TEST(LoraConfig, RefusesOtherKinds) {
  const auto config = Json::Parse(R"({"r":8,"lora_parameters":{"rank":8}})");
  EXPECT_THAT(Message(ParseLoraConfig(*config).status()), HasSubstr("\"peft_type\" is missing"));
  EXPECT_THAT(Message(ParseLoraConfig(*Json::Parse(R"({"peft_type":"IA3"})")).status()),
              HasSubstr(R"("peft_type" is "IA3")"));
  EXPECT_THAT(Message(ParseLoraConfig(Json("LORA")).status()), HasSubstr("must be a JSON object"));
  EXPECT_THAT(
      ErrorOf(R"(,"task_type":"TOKEN_CLS")"),
      HasSubstr(R"("task_type" is "TOKEN_CLS", which is not supported; supported: CAUSAL_LM, )"
                "FEATURE_EXTRACTION, SEQ_CLS"));
}

TEST(LoraConfig, KnowsAClassifierByItsTask) {
  EXPECT_TRUE(Parse(R"(,"task_type":"SEQ_CLS")")->is_classifier);
  for (const char* other : {"", R"(,"task_type":null)", R"(,"task_type":"CAUSAL_LM")",
                            R"(,"task_type":"FEATURE_EXTRACTION")"}) {
    const auto config = Parse(other);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_FALSE(config->is_classifier) << other;
  }
}

TEST(LoraConfig, RefusesBadNumbers) {
  EXPECT_THAT(ErrorOf(R"(,"r":0)"), HasSubstr("\"r\" is 0; expected an integer from 1 to 512"));
  EXPECT_THAT(ErrorOf(R"(,"r":513)"), HasSubstr("\"r\" is 513"));
  EXPECT_THAT(ErrorOf(R"(,"r":8.5)"), HasSubstr("\"r\" is 8.5"));
  EXPECT_THAT(ErrorOf(R"(,"r":"8")"), HasSubstr("\"r\" is \"8\""));
  EXPECT_THAT(ErrorOf(R"(,"lora_alpha":"16")"), HasSubstr("\"lora_alpha\" is \"16\""));
  EXPECT_THAT(ErrorOf(R"(,"lora_alpha":1e300)"), HasSubstr("\"lora_alpha\" is 1e+300"));
  EXPECT_THAT(ErrorOf(R"(,"use_rslora":1)"), HasSubstr("\"use_rslora\" is 1"));
}

TEST(LoraConfig, RefusesWhatWouldChangeTheResult) {
  const std::vector<std::pair<std::string, std::string>> fields = {
      {"lora_bias", "true"},
      {"use_qalora", "true"},
      {"use_bdlora", R"({"nblocks":2})"},
      {"kasa_config", R"({"beta":1})"},
      {"monteclora_config", R"({"a":1})"},
      {"velora_config", R"({"a":1})"},
      {"arrow_config", R"({"top_k":2})"},
      {"megatron_config", R"({"a":1})"},
      {"layer_replication", "[[0,4]]"},
      {"enable_lora", "[true,false,true]"},
      {"bias", "\"all\""},
      {"init_lora_weights", "\"pissa\""},
      {"init_lora_weights", "\"pissa_niter_16\""},
      {"init_lora_weights", "\"olora\""},
      {"init_lora_weights", "\"loftq\""},
      {"init_lora_weights", "\"something new\""},
      {"init_lora_weights", "3"},
  };
  for (const auto& [key, value] : fields) {
    const auto config = Parse(StrCat(",\"", key, "\":", value));
    EXPECT_EQ(config.status().code(), StatusCode::kUnimplemented) << key;
    EXPECT_THAT(Message(config.status()), HasSubstr(StrCat("\"", key, "\" is ", value)));
  }
}

// What PEFT makes of "all-linear" on a mixture of experts, with and without attention.
TEST(LoraConfig, MayNameParametersInPlaceOfModules) {
  const std::string parameters =
      R"(,"target_parameters":["gate_up_proj","down_proj","gate.weight"])";
  for (const char* modules : {"", R"(,"target_modules":null)", R"(,"target_modules":[])"}) {
    const auto config = Parse(modules + parameters);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_TRUE(config->target_modules.empty());
    EXPECT_THAT(config->target_parameters,
                testing::ElementsAre("gate_up_proj", "down_proj", "gate.weight"));
  }
  const auto both = Parse(R"(,"target_modules":["q_proj"])" + parameters);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(both->target_modules.names, testing::ElementsAre("q_proj"));
  EXPECT_EQ(Parse(R"(,"target_parameters":[])")->target_modules.names.size(), 2U) << "defaults";

  EXPECT_THAT(ErrorOf(R"(,"target_parameters":"w")"), HasSubstr("a list of names"));
  EXPECT_THAT(ErrorOf(R"(,"target_modules":[],"target_parameters":[])"), HasSubstr("non-empty"));
  EXPECT_THAT(ErrorOf(R"(,"use_dora":true)" + parameters), HasSubstr("exclude each other"));
}

TEST(LoraConfig, IgnoresWhatDoesNotMatter) {
  for (const char* members : {
           R"(,"use_dora":false,"bias":"none","modules_to_save":null,"rank_pattern":{})",
           R"(,"exclude_modules":[],"fan_in_fan_out":true,"layers_to_transform":[])",
           R"(,"init_lora_weights":"gaussian","lora_dropout":0.5,"loftq_config":{"bits":4})",
           R"(,"init_lora_weights":false,"task_type":null,"qalora_group_size":16)",
           R"(,"base_model_name_or_path":null,"peft_version":"9.9","brand_new":{"x":[1]})",
       }) {
    EXPECT_EQ(ErrorOf(members), "");
  }
}

}  // namespace
}  // namespace aril
