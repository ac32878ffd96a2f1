// Adapters that apply from their invocation on (PEFT's "alora_invocation_tokens").

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/lora_spec.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// `members`: JSON members behind the others.
StatusOr<LoraConfig> Parse(const std::string& members) {
  const auto json = Json::Parse(R"({"peft_type":"LORA",)" + members + "}");
  EXPECT_TRUE(json.ok()) << json.status();
  return ParseLoraConfig(*json);
}

StatusOr<LoraSpec> Resolve(const std::string& members, const std::string& targets = ".*q_proj",
                           std::optional<ExpertsNaming> experts = std::nullopt) {
  ModelSpec base;
  base.num_layers = 2;
  base.hidden_size = 64;
  base.vocab_size = 100;
  if (experts) base.experts = ExpertsSpec{.count = 4, .per_token = 2};
  ASSIGN_OR_RETURN(const LoraConfig config,
                   Parse(StrCat(R"("target_modules":")", targets, "\",", members)));
  return ResolveLora(config, base, {"model", "lm_head", experts.value_or(ExpertsNaming::kModules)});
}

std::string TokensField(const std::vector<int64_t>& tokens) {
  return StrCat(R"("alora_invocation_tokens":[)", Join(tokens, ","), "]");
}

TEST(ActivatedLora, HasTheTokensOfItsInvocation) {
  const auto spec = Resolve(R"("alora_invocation_tokens":[7,0,99])");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->invocation_tokens, ElementsAre(7, 0, 99));
  for (const char* off : {"null", "[]"}) {
    const auto plain = Resolve(StrCat(R"("alora_invocation_tokens":)", off));
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_THAT(plain->invocation_tokens, IsEmpty());
  }
}

TEST(ActivatedLora, RefusesWhatAreNoTokens) {
  for (const char* value :
       {"3", "\"x\"", "true", "[1,\"x\"]", "[-1]", "[1.5]", "[2147483648]", "[[1]]", "{\"a\":1}"}) {
    EXPECT_THAT(Message(Parse(StrCat(R"("alora_invocation_tokens":)", value)).status()),
                HasSubstr(StrCat("\"alora_invocation_tokens\" is ", value)));
  }
  std::vector<int64_t> tokens(kMaxInvocationTokens, 1);
  EXPECT_TRUE(Parse(TokensField(tokens)).ok());
  tokens.push_back(1);
  EXPECT_THAT(Message(Parse(TokensField(tokens)).status()), HasSubstr("at most 256 tokens"));
  EXPECT_THAT(Message(Resolve(TokensField({1, 100})).status()),
              HasSubstr("has token 100, and the vocabulary 100 tokens"));
}

// As before PEFT had it: applied to all tokens, it would be another adapter.
TEST(ActivatedLora, RefusesAnInvocationAsText) {
  const std::string text =
      R"("target_modules":["q_proj"],"invocation_string":"<|start|>judge<|end|>")";
  const auto config = Parse(text);
  EXPECT_EQ(config.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(Message(config.status()), HasSubstr("\"invocation_string\" is \"<|start|>judge"));
  EXPECT_TRUE(Parse(text + "," + TokensField({5})).ok()) << "the tokens say it";
}

TEST(ActivatedLora, RefusesWhatCannotBeActivatedWithinASequence) {
  for (const auto& [field, value] : {std::pair("use_dora", "true"),
                                     {"target_parameters", R"(["gate_up_proj"])"},
                                     {"modules_to_save", R"(["lm_head"])"},
                                     {"task_type", R"("SEQ_CLS")"}}) {
    const auto config =
        Parse(StrCat(TokensField({1}), R"(,"target_modules":["q_proj"],")", field, "\":", value));
    EXPECT_EQ(config.status().code(), StatusCode::kUnimplemented) << field;
    EXPECT_THAT(Message(config.status()), HasSubstr(StrCat("together with \"", field, "\"")));
  }
  EXPECT_TRUE(Resolve(TokensField({1}), "lm_head|.*q_proj").ok());
  EXPECT_THAT(Message(Resolve(TokensField({1}), ".*embed_tokens").status()),
              HasSubstr("names the embedding"));
  for (const ExpertsNaming experts : {ExpertsNaming::kModules, ExpertsNaming::kParameters}) {
    EXPECT_TRUE(Resolve(TokensField({1}), ".*q_proj", experts).ok());
  }
  EXPECT_TRUE(Resolve(TokensField({1}), "all-linear", ExpertsNaming::kParameters).ok())
      << "of which experts are no modules";
  for (const char* target : {".*up_proj", R"(.*\\.gate)", "all-linear"}) {
    EXPECT_THAT(Message(Resolve(TokensField({1}), target, ExpertsNaming::kModules).status()),
                HasSubstr("names experts or their router"));
  }
}

TEST(ActivatedLora, AppliesFromTheLastInvocationInThePromptOn) {
  LoraSpec spec;
  EXPECT_EQ(spec.FirstToken(std::vector<int32_t>{1, 2}), 0) << "another LoRA applies to all";
  spec.invocation_tokens = {5, 6};
  const auto first = [&](const std::vector<int32_t>& prompt) { return spec.FirstToken(prompt); };
  EXPECT_EQ(first({5, 6}), 0);
  EXPECT_EQ(first({1, 5, 6, 2}), 1);
  EXPECT_EQ(first({5, 6, 1, 5, 6}), 3);
  EXPECT_EQ(first({5, 6, 5}), 0);
  EXPECT_EQ(first({5, 5, 6}), 1);
  EXPECT_EQ(first({6, 5}), std::nullopt);
  EXPECT_EQ(first({5}), std::nullopt);
  EXPECT_EQ(first({}), std::nullopt);
  spec.invocation_tokens = {5, 5};
  EXPECT_EQ(first({5, 5, 5}), 1) << "places may overlap";
}

// Of few different tokens, which repeat themselves.
TEST(ActivatedLora, FindsWhatComparingEverywhereFinds) {
  constexpr uint64_t kSeed = 3;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  const auto draw = [&](size_t most) {
    std::vector<int32_t> tokens(1 + random() % most);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 2);
    return tokens;
  };
  int num_found = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::vector<int32_t> sought = draw(8), prompt = draw(40);
    const auto last = std::find_end(prompt.begin(), prompt.end(), sought.begin(), sought.end());
    const auto found = FindInvocation(sought, prompt);
    ASSERT_EQ(found.has_value(), last != prompt.end());
    if (!found) continue;
    EXPECT_EQ(*found, last - prompt.begin());
    ++num_found;
  }
  EXPECT_GT(num_found, 1000);
}

}  // namespace
}  // namespace aril
