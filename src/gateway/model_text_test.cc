// Requests to an adapter that brings tokens, a chat template and an end of texts of its own.

#include "gateway/model_text.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gateway/anthropic_messages.h"
#include "gateway/auth.h"
#include "gateway/chat_completions.h"
#include "gateway/completions.h"
#include "gateway/embeddings.h"
#include "gateway/test_support.h"
#include "gateway/tokenize_api.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Bytes, of which the first are tokens of its own.
class OwnTokenizer final : public Tokenizer {
 public:
  explicit OwnTokenizer(bool are_special = true) : are_special_(are_special) {}

  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<int32_t> ids;
    while (!text.empty()) {
      const auto own = std::ranges::find_if(
          kOwn, [&](std::string_view token) { return text.starts_with(token); });
      const bool is_own = options.parse_special_tokens && own != std::end(kOwn);
      ids.push_back(is_own ? static_cast<int32_t>(own - std::begin(kOwn))
                           : static_cast<unsigned char>(text[0]));
      text.remove_prefix(is_own ? own->size() : 1);
    }
    return ids;
  }
  std::string TokenBytes(int32_t id, bool is_first, bool skip_special_tokens) const override {
    if (!IsOwn(id)) return bytes_.TokenBytes(id, is_first, skip_special_tokens);
    return skip_special_tokens && are_special_ ? "" : std::string(kOwn[id]);
  }
  int64_t vocab_size() const override { return bytes_.vocab_size(); }
  bool IsSpecial(int32_t id) const override { return are_special_ && IsOwn(id); }
  std::optional<int32_t> bos_token_id() const override { return std::nullopt; }
  std::optional<int32_t> eos_token_id() const override { return 0; }

 private:
  static constexpr std::string_view kOwn[] = {"<|im_end|>", "<call>", "<think>", "</think>"};

  static bool IsOwn(int32_t id) { return id >= 0 && id < static_cast<int32_t>(std::size(kOwn)); }

  const ByteTokenizer bytes_;
  const bool are_special_;
};

constexpr const char* kQuestion = R"("messages":[{"role":"user","content":"Hi<call>"}])";
constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";

// "poet" has OwnTokenizer.
class ModelTextTest : public ::testing::Test {
 protected:
  ModelTextTest() { Give(std::make_shared<OwnTokenizer>()); }
  void Give(std::shared_ptr<const Tokenizer> tokenizer, Status keeps_formats = OkStatus(),
            int64_t vocab_size = 258) {
    auto chat_template = ChatTemplate::Parse(kChatTemplate, {});
    EXPECT_TRUE(chat_template.ok()) << chat_template.status();
    model_->adapter_texts->Set(
        AdapterId(0),
        std::make_shared<const ModelText>(ModelText{
            .tokenizer = std::move(tokenizer),
            .vocab_size = vocab_size,
            .chat_dialect = std::make_shared<const ChatDialect>(*std::move(chat_template)),
            .keeps_formats = std::move(keeps_formats)}));
  }
  template <typename Parse>
  auto Read(const Parse& parse, const std::string& model, const std::string& fields) const {
    return parse(StrCat(R"({"model":")", model, "\",", fields, "}"),
                 RequestContext{.model = *model_, .limits = limits_, .tenant = kDefaultTenant});
  }
  CompletionRequest Ask(const std::string& model, const std::string& fields) const {
    auto request = Read(ParseCompletionRequest, model, fields);
    EXPECT_TRUE(request.ok()) << request.error().message;
    return std::move(request.value());
  }
  CompletionRequest Chat(const std::string& model, const std::string& fields) const {
    auto request = Read(ParseChatRequest, model, fields);
    EXPECT_TRUE(request.ok()) << request.error().message;
    return std::move(request.value());
  }
  std::string Refusal(const std::string& fields, const std::string& param) const {
    const auto request = Read(ParseChatRequest, "poet", StrCat(kQuestion, ",", fields));
    if (request.ok()) return "none";
    EXPECT_EQ(request.error().status, 400);
    EXPECT_EQ(request.error().param, param);
    return request.error().message;
  }

  const std::shared_ptr<const ServedModel> model_ = MakeServedModel();
  const CompletionLimits limits_;
};

TEST_F(ModelTextTest, ReadsPromptsAsTheAdapterDoes) {
  constexpr const char* kPrompt = R"("prompt":"a<call>")";
  EXPECT_THAT(Ask("poet", kPrompt).prompts[0].tokens, ElementsAre('a', 1));
  EXPECT_THAT(Ask("base", kPrompt).prompts[0].tokens,
              ElementsAre(kBosToken, 'a', '<', 'c', 'a', 'l', 'l', '>'));
  EXPECT_THAT(Ask("org/pirate", kPrompt).prompts[0].tokens, ::testing::SizeIs(8));
  const auto embedded = Read(ParseEmbeddingsRequest, "poet", R"("input":"a<call>")");
  ASSERT_TRUE(embedded.ok()) << embedded.error().message;
  EXPECT_THAT(embedded.value().prompts[0].tokens, ElementsAre('a', 1));
  const auto chat = Chat(
      "poet", StrCat(kQuestion, R"(,"prediction":{"type":"content",)", R"("content":"<think>"})"));
  EXPECT_THAT(chat.prompts[0].tokens, ElementsAre('u', ':', 'H', 'i', 1, ';', 'a', ':'));
  EXPECT_THAT(chat.common.prediction, ElementsAre(2));
}

// Of ids as of what is generated.
TEST_F(ModelTextTest, WritesTextAsTheAdapterDoes) {
  constexpr const char* kEchoed = R"("prompt":[97,1,98],"echo":true,"skip_special_tokens":false)";
  EXPECT_EQ(Ask("poet", kEchoed).prompts[0].text, "a<call>b");
  EXPECT_EQ(Ask("base", kEchoed).prompts[0].text, "a\1b");
}

TEST_F(ModelTextTest, EndsTextWhereTheAdapterDoesOrTheModel) {
  EXPECT_THAT(Ask("poet", R"("prompt":"a","stop_token_ids":[9])").common.stop_token_ids,
              ElementsAre(9, kEosToken, 0));
  EXPECT_THAT(Ask("base", R"("prompt":"a")").common.stop_token_ids, ElementsAre(kEosToken));
  EXPECT_THAT(Ask("poet", R"("prompt":"a","ignore_eos":true)").common.stop_token_ids,
              ElementsAre());
}

// As with the template: where there are several, the first.
TEST_F(ModelTextTest, OfSeveralAdaptersIsThatOfTheFirst) {
  const auto mix = [&](const std::string& first, const std::string& second) {
    return Ask("base", StrCat(R"("prompt":"<call>","adapters":[{"name":")", first,
                              R"("},{"name":")", second, R"("}])"))
        .prompts[0]
        .tokens.size();
  };
  EXPECT_EQ(mix("poet", "org/pirate"), 1u);
  EXPECT_EQ(mix("org/pirate", "poet"), 7u);
}

// Whose ids are those of requests.
TEST_F(ModelTextTest, HasTheAdaptersVocabulary) {
  Give(std::make_shared<OwnTokenizer>(), OkStatus(), /*vocab_size=*/260);
  const std::string fields = R"("prompt":[1,259],"stop_token_ids":[259],"logit_bias":{"259":1})";
  EXPECT_EQ(Ask("poet", fields).prompts[0].tokens.back(), 259);
  for (const char* field : {R"("prompt":[260])", R"("prompt":[1],"stop_token_ids":[260])",
                            R"("prompt":[1],"logit_bias":{"260":1})"}) {
    EXPECT_FALSE(Read(ParseCompletionRequest, "poet", field).ok()) << field;
  }
  EXPECT_FALSE(Read(ParseCompletionRequest, "base", fields).ok());
  EXPECT_TRUE(Read(Detokenize, "poet", R"("tokens":[259])").ok());
  EXPECT_FALSE(Read(Detokenize, "base", R"("tokens":[259])").ok());
  const auto mix = [&](const std::string& first, const std::string& second) {
    return Read(ParseCompletionRequest, "base",
                StrCat(R"("prompt":"a","adapters":[{"name":")", first, R"("},{"name":")", second,
                       R"("}])"));
  };
  const auto refused = mix("org/pirate", "poet");
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("name it first"));
}

TEST_F(ModelTextTest, IsWhatIsTokenized) {
  const auto tokens = Read(Tokenize, "poet", R"("prompt":"a<call>")");
  ASSERT_TRUE(tokens.ok()) << tokens.error().message;
  EXPECT_EQ(tokens.value().Find("tokens")->Dump(), "[97,1]");
  const auto text = Read(Detokenize, "poet", R"("tokens":[97,1])");
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text.value().Find("prompt")->AsString(), "a<call>");
  const auto of_base = Read(Detokenize, "base", R"("tokens":[97,1])");
  ASSERT_TRUE(of_base.ok()) << of_base.error().message;
  EXPECT_EQ(*of_base.value().Find("prompt")->AsString(), "a\1");
}

TEST_F(ModelTextTest, KeepsNoCallsThatAreWrittenWithItsOwnTokens) {
  EXPECT_THAT(Refusal(StrCat(kTools, R"(,"reasoning_format":"none")"), "tools"),
              HasSubstr("writes calls of tools with \"<call>\", a token that it has added"));
  EXPECT_TRUE(Chat("base", StrCat(kQuestion, ",", kTools)).tool_calls.has_value());
}

// Such as PEFT's users add without saying that they are special.
TEST_F(ModelTextTest, KeepsNoCallsThatAreWrittenWithItsOwnWords) {
  Give(std::make_shared<OwnTokenizer>(/*are_special=*/false));
  EXPECT_THAT(Refusal(StrCat(kTools, R"(,"reasoning_format":"none")"), "tools"),
              HasSubstr("writes calls of tools with"));
}

TEST_F(ModelTextTest, SaysWhyItKeepsNoFormat) {
  Give(std::make_shared<OwnTokenizer>(), Unimplemented("so it is"));
  const std::string untold = R"(,"reasoning_format":"none")";
  EXPECT_THAT(Refusal(R"("response_format":{"type":"json_object"})" + untold, "response_format"),
              HasSubstr("cannot be kept to: so it is"));
  const auto completion =
      Read(ParseCompletionRequest, "poet", R"("prompt":"a","guided_regex":"[a-z]")");
  ASSERT_FALSE(completion.ok());
  EXPECT_EQ(completion.error().param, "guided_regex");
}

TEST_F(ModelTextTest, ThinksWithinABudget) {
  const auto budget = [&](const std::string& fields) {
    return Chat("poet", StrCat(kQuestion, ",", fields)).common.reasoning_budget;
  };
  constexpr const char* kBegun = R"(,"chat_template_kwargs":{"mood":"<think>\n"})";
  EXPECT_EQ(budget(R"("thinking_token_budget":9)"),
            (wire::ReasoningBudget{.max_tokens = 9, .begin = 2, .closing = {3}}));
  EXPECT_EQ(budget(StrCat(R"("reasoning_budget_tokens":0)", kBegun)),
            (wire::ReasoningBudget{.max_tokens = 0, .closing = {3}}));
  EXPECT_EQ(budget(StrCat(R"("thinking_budget_tokens":9,"thinking_token_budget":9,)",
                          R"("reasoning_budget_message":"So:<call>","reasoning_format":"none")")),
            (wire::ReasoningBudget{.max_tokens = 9,
                                   .begin = 2,
                                   .closing = {'S', 'o', ':', '<', 'c', 'a', 'l', 'l', '>', 3}}));
  for (const char* unbound :
       {R"("thinking_token_budget":-1)", R"("thinking_token_budget":null)",
        R"("reasoning_budget_message":"So")",
        R"("thinking_token_budget":9,"chat_template_kwargs":{"mood":"<think></think>"})",
        // The format holds from the first token on.
        R"("thinking_token_budget":9,"reasoning_format":"none","guided_regex":"a")"}) {
    EXPECT_EQ(budget(unbound), std::nullopt) << unbound;
  }
}

TEST_F(ModelTextTest, RefusesBudgetsThatCannotBeKeptTo) {
  const std::pair<std::string, const char*> cases[] = {
      {R"("thinking_token_budget":-2)", "thinking_token_budget"},
      {R"("reasoning_budget_tokens":"9")", "reasoning_budget_tokens"},
      {R"("thinking_token_budget":9,"thinking_budget_tokens":-1)", "thinking_budget_tokens"},
      {R"("reasoning_budget_message":9)", "reasoning_budget_message"},
      {R"("thinking_token_budget":9,"reasoning_budget_message":"a</think>b")",
       "reasoning_budget_message"},
      {StrCat(R"("thinking_token_budget":9,"reasoning_budget_message":")", std::string(256, 'a'),
              "\""),
       "reasoning_budget_message"},
      {StrCat(R"("thinking_token_budget":9,"reasoning_budget_message":")", std::string(32769, 'a'),
              "\""),
       "reasoning_budget_message"},
  };
  for (const auto& [fields, param] : cases) EXPECT_NE(Refusal(fields, param), "none") << fields;
  const auto of_base =
      Read(ParseChatRequest, "base", StrCat(kQuestion, R"(,"reasoning_budget_tokens":9)"));
  ASSERT_FALSE(of_base.ok());
  EXPECT_EQ(of_base.error().param, "reasoning_budget_tokens");
  EXPECT_THAT(of_base.error().message, HasSubstr("\"</think>\" of its reasoning is not one token"));
}

// Who asks for thinking there must name a budget: where none can be kept to it bounds nothing.
TEST_F(ModelTextTest, ThinksWithinTheBudgetOfAMessage) {
  const auto budget = [&](const std::string& model, const std::string& fields) {
    auto request = Read(ParseMessagesRequest, model,
                        StrCat(kQuestion, R"(,"max_tokens":20,"thinking":{"type":"enabled",)",
                               R"("budget_tokens":7})", fields));
    EXPECT_TRUE(request.ok()) << request.error().message;
    return request.value().common.reasoning_budget;
  };
  EXPECT_EQ(
      budget("poet", ""),
      (wire::ReasoningBudget{.max_tokens = 7, .begin = 2, .closing = {3}, .is_required = false}));
  EXPECT_EQ(budget("poet", R"(,"reasoning_budget_tokens":3)")->max_tokens, 3);
  EXPECT_EQ(budget("poet", R"(,"reasoning_budget_tokens":-1)"), std::nullopt);
  EXPECT_EQ(budget("base", ""), std::nullopt);
}

TEST_F(ModelTextTest, KeepsNoFormatBehindReasoningInItsOwnTokens) {
  constexpr const char* kFormat = R"("response_format":{"type":"json_object"})";
  EXPECT_THAT(Refusal(kFormat, "response_format"), HasSubstr("writes its reasoning with"));
  EXPECT_EQ(Refusal(StrCat(kFormat, R"(,"reasoning_format":"none")"), ""), "none");
  // Without a format it is told apart.
  const CompletionRequest request = Chat("poet", kQuestion);
  ASSERT_TRUE(request.reasoning.has_value());
  EXPECT_THAT(request.reasoning->special_tokens, ElementsAre(2, 3));
}

}  // namespace
}  // namespace aril::gateway
