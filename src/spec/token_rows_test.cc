#include "spec/token_rows.h"

#include <optional>
#include <string>
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

ModelSpec Base(bool is_tied) {
  ModelSpec base;
  base.num_layers = 2;
  base.hidden_size = 64;
  base.vocab_size = 100;
  base.tie_word_embeddings = is_tied;
  return base;
}

// `members`: JSON members behind "trainable_token_indices".
StatusOr<LoraSpec> Resolve(const std::string& tokens, const ModelSpec& base,
                           const std::string& members = R"("target_modules":["q_proj"])") {
  const bool has_targets = members.find("target_modules") != std::string::npos;
  const auto json =
      Json::Parse(StrCat(R"({"peft_type":"LORA","trainable_token_indices":)", tokens,
                         has_targets ? "," : R"(,"target_modules":["q_proj"],)", members, "}"));
  EXPECT_TRUE(json.ok()) << json.status();
  ASSIGN_OR_RETURN(const LoraConfig config, ParseLoraConfig(*json));
  return ResolveLora(config, base);
}

std::string Error(const std::string& tokens,
                  const std::string& members = R"("target_modules":["q_proj"])",
                  bool is_tied = false) {
  return Message(Resolve(tokens, Base(is_tied), members).status());
}

TEST(TokenRows, AreOfTheEmbedding) {
  for (const char* tokens :
       {"[7,0,99]", R"({"embed_tokens":[7,0,99]})", R"({"model.embed_tokens":[7,0,99]})"}) {
    const auto spec = Resolve(tokens, Base(/*is_tied=*/false));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_THAT(spec->token_rows.embedding, ElementsAre(7, 0, 99)) << "as in the file";
    EXPECT_EQ(spec->embedding, (LoraModule{3, 1}));
    EXPECT_THAT(spec->token_rows.lm_head, IsEmpty());
    EXPECT_FALSE(spec->can_be_weighted());
  }
  for (const char* off : {"null", "[]", "{}"}) {
    const auto spec = Resolve(off, Base(/*is_tied=*/true));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_TRUE(spec->token_rows.empty());
    EXPECT_TRUE(spec->can_be_weighted());
  }
}

TEST(TokenRows, OfATiedMatrixAreOfLmHeadAsWell) {
  for (const char* tokens :
       {"[7,0]", R"({"embed_tokens":[7,0]})", R"({"embed_tokens":[7,0],"lm_head":[7,0]})"}) {
    const auto spec = Resolve(tokens, Base(/*is_tied=*/true), R"("ensure_weight_tying":true)");
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_THAT(spec->token_rows.lm_head, ElementsAre(7, 0));
    EXPECT_TRUE(spec->token_rows.lm_head_has_the_embeddings);
    EXPECT_EQ(spec->lm_head, (LoraModule{2, 1}));
  }
}

TEST(TokenRows, MayBeOthersOfLmHead) {
  for (const bool is_tied : {false, true}) {
    const auto spec = Resolve(R"({"embed_tokens":[7],"lm_head":[8,9]})", Base(is_tied));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_THAT(spec->token_rows.embedding, ElementsAre(7));
    EXPECT_THAT(spec->token_rows.lm_head, ElementsAre(8, 9));
    EXPECT_FALSE(spec->token_rows.lm_head_has_the_embeddings);
    const auto alone = Resolve(R"({"lm_head":[8]})", Base(is_tied));
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_THAT(alone->token_rows.embedding, IsEmpty());
    EXPECT_THAT(alone->token_rows.lm_head, ElementsAre(8));
  }
}

// A decoder alone has no lm_head that could follow.
TEST(TokenRows, OfADecoderAloneAreOfTheEmbedding) {
  ModelSpec decoder = Base(/*is_tied=*/true);
  decoder.has_lm_head = false;
  const auto spec = Resolve("[7]", decoder);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->token_rows.lm_head, IsEmpty());
  EXPECT_THAT(Message(Resolve(R"({"lm_head":[8]})", decoder).status()),
              HasSubstr("which this base model has not"));
}

TEST(TokenRows, RefuseWhatAreNoTokens) {
  for (const char* value : {"3", "\"x\"", "true", "[\"x\"]", "[-1]", "[1.5]", "[2147483648]",
                            "[4,4]", R"({"embed_tokens":3})", R"({"embed_tokens":[]})",
                            R"({"a":[1],"b":[1],"c":[1]})", R"({"":[1]})"}) {
    EXPECT_THAT(Error(value), HasSubstr(R"("trainable_token_indices" is )")) << value;
  }
  EXPECT_THAT(Error("[100]"), HasSubstr("has token 100, and the vocabulary 100"));
  std::vector<int> many;
  for (int i = 0; i < 513; ++i) many.push_back(i);
  EXPECT_THAT(Error(StrCat("[", Join(many, ","), "]")), HasSubstr("513 tokens; there may be 512"));
}

TEST(TokenRows, RefuseOtherModules) {
  EXPECT_THAT(Error(R"({"wte":[1]})"),
              HasSubstr("names \"wte\"; supported are model.embed_tokens and lm_head"));
  EXPECT_THAT(Error(R"({"embed_tokens":[1],"model.embed_tokens":[2]})"), HasSubstr("once each"));
}

TEST(TokenRows, RefuseAModuleThatIsChangedOtherwise) {
  EXPECT_THAT(Error("[1]", R"("target_modules":["q_proj","embed_tokens"])"),
              HasSubstr("same module"));
  EXPECT_THAT(Error("[1]", R"("modules_to_save":["embed_tokens"])"), HasSubstr("same module"));
  EXPECT_THAT(Error("[1]", R"("modules_to_save":["lm_head"])", /*is_tied=*/true),
              HasSubstr("same module"));
  EXPECT_EQ(Error("[1]", R"("modules_to_save":["lm_head"])"), "");
  EXPECT_THAT(Error("[1]", R"("alora_invocation_tokens":[1])"),
              HasSubstr("together with \"trainable_token_indices\""));
}

// PEFT would change both of two matrices that are one; of rows it does so anyway.
TEST(EnsureWeightTying, IsRefusedWhereItMatters) {
  constexpr const char* kEnsured = R"("ensure_weight_tying":true)";
  const auto error = [&](const std::string& members, bool is_tied) {
    return Error("null", StrCat(kEnsured, members), is_tied);
  };
  for (const char* members :
       {R"(,"modules_to_save":["embed_tokens"])", R"(,"target_modules":["q_proj","lm_head"])"}) {
    EXPECT_EQ(error(members, /*is_tied=*/false), "") << members;
    EXPECT_THAT(error(members, /*is_tied=*/true), HasSubstr("\"ensure_weight_tying\" is true"));
  }
  EXPECT_EQ(error("", /*is_tied=*/true), "");
  EXPECT_THAT(Error(R"({"embed_tokens":[1],"lm_head":[2]})", kEnsured, /*is_tied=*/true),
              HasSubstr("\"ensure_weight_tying\" is true"));
}

}  // namespace
}  // namespace aril
