#include "tokenizer/chat_template.h"

#include "base/strings.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tokenizer/special_tokens.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kTemplate[] =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

Json Messages(const std::string& text) {
  auto json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << json.status();
  return json.value_or(Json());
}

const Json kHello = Messages(R"([{"role":"user","content":"Hi"}])");

class ChatTemplateTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) const {
    dir_.Write(name, content);
  }
  // What the folder's template makes of `prompt`.
  std::string Render(const ChatPrompt& prompt, const Json::Object& special_tokens = {}) const {
    auto loaded = ChatTemplate::Load(dir_.path(), special_tokens);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok() || !loaded->has_value()) return "(no template)";
    auto text = (*loaded)->Render(prompt);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("(error)");
  }
  std::string LoadError() const { return Message(ChatTemplate::Load(dir_.path(), {}).status()); }

  const TestDir dir_;
};

TEST_F(ChatTemplateTest, TakesTheStringOfTokenizerConfig) {
  Write("tokenizer_config.json", R"({"chat_template":)" + JsonQuote(kTemplate) +
                                     R"(,"bos_token":"<s>","eos_token":{"content":"</s>"}})");
  EXPECT_EQ(Render({.messages = kHello}), "<s>[user]Hi</s>[assistant]");
  EXPECT_EQ(Render({.messages = kHello, .add_generation_prompt = false}), "<s>[user]Hi</s>");
}

TEST_F(ChatTemplateTest, TakesNamedTemplates) {
  Write("tokenizer_config.json",
        R"({"chat_template":[{"name":"tool_use","template":"T{{ tools|length }}"},)"
        R"({"name":"default","template":"D"},{"name":"rag","template":"{% broken"}]})");
  EXPECT_EQ(Render({.messages = kHello}), "D");
  EXPECT_EQ(Render({.messages = kHello, .tools = Messages(R"([{},{}])")}), "T2");
}

TEST_F(ChatTemplateTest, TheJinjaFileWins) {
  Write("tokenizer_config.json", R"({"chat_template":"old","eos_token":"<end>"})");
  Write("chat_template.jinja", "new{{ eos_token }}");
  EXPECT_EQ(Render({.messages = kHello}), "new<end>");
  Write("additional_chat_templates/tool_use.jinja", "tools");
  EXPECT_EQ(Render({.messages = kHello, .tools = Messages("[{}]")}), "tools");
}

// Models that also see have one, which tokenizers alone do not read.
TEST_F(ChatTemplateTest, TakesThatOfAProcessorLast) {
  Write("chat_template.json", R"({"chat_template":"processor's"})");
  EXPECT_EQ(Render({.messages = kHello}), "processor's");
  Write("tokenizer_config.json", R"({"eos_token":"<end>"})");
  EXPECT_EQ(Render({.messages = kHello}), "processor's");
  Write("tokenizer_config.json", R"({"chat_template":"tokenizer's"})");
  EXPECT_EQ(Render({.messages = kHello}), "tokenizer's");
}

TEST_F(ChatTemplateTest, SpecialTokensOfTheBaseModelStandInForMissingOnes) {
  Write("chat_template.jinja", "{{ bos_token }}{{ eos_token }}{{ pad_token }}");
  Write("special_tokens_map.json", R"({"eos_token":"own"})");
  EXPECT_EQ(Render({.messages = kHello}, {{"bos_token", "base"}, {"eos_token", "base"}}),
            "baseown");
}

TEST_F(ChatTemplateTest, ANullUnsetsATokenOfTheBaseModel) {
  Write("chat_template.jinja", "{{ bos_token is defined }}{{ eos_token }}");
  Write("tokenizer_config.json", R"({"bos_token":null,"eos_token":"own"})");
  EXPECT_EQ(Render({.messages = kHello}, {{"bos_token", "base"}, {"eos_token", "base"}}),
            "Falseown");
}

std::string TokensOf(const std::string& dir) {
  const auto tokens = ReadSpecialTokens(dir);
  return tokens.ok() ? Json(*tokens).Dump() : Message(tokens.status());
}

TEST_F(ChatTemplateTest, SpecialTokensOfOldAndNewFolders) {
  EXPECT_EQ(TokensOf(dir_.path()), "{}");
  Write("tokenizer_config.json", R"({"bos_token":"config","pad_token":""})");
  Write("special_tokens_map.json", R"({"bos_token":"map","eos_token":{"content":"</s>"},)"
                                   R"("additional_special_tokens":["a",{"content":"b"}]})");
  EXPECT_EQ(TokensOf(dir_.path()),
            R"({"bos_token":"map","eos_token":"</s>","additional_special_tokens":["a","b"]})");
  Write("tokenizer_config.json", R"({"bos_token":"config","added_tokens_decoder":{}})");
  EXPECT_EQ(TokensOf(dir_.path()), R"({"bos_token":"config"})");
  Write("tokenizer_config.json", R"({"bos_token":["<s>"]})");
  EXPECT_THAT(TokensOf(dir_.path()), HasSubstr("bos_token must be a single token"));
  Write("tokenizer_config.json", R"({"bos_token":7})");
  EXPECT_THAT(TokensOf(dir_.path()),
              HasSubstr("bos_token must be a string or an object with content"));
}

TEST_F(ChatTemplateTest, FoldersWithoutOneAndBrokenOnes) {
  EXPECT_EQ(Render({.messages = kHello}), "(no template)");
  Write("tokenizer_config.json", R"({"chat_template":null})");
  EXPECT_EQ(Render({.messages = kHello}), "(no template)");
  Write("tokenizer_config.json", R"({"chat_template":7})");
  EXPECT_THAT(LoadError(), HasSubstr("chat_template"));
  Write("tokenizer_config.json", R"({"chat_template":[{"name":"rag","template":"x"}]})");
  EXPECT_THAT(LoadError(), HasSubstr("no template named \"default\""));
  Write("chat_template.json", "[]");
  Write("tokenizer_config.json", "{}");
  EXPECT_THAT(LoadError(), HasSubstr("chat_template.json"));
  Write("chat_template.jinja", "a\n{% if %}");
  EXPECT_THAT(LoadError(), AllOf(HasSubstr("chat_template.jinja"), HasSubstr("line 2")));
}

TEST_F(ChatTemplateTest, VariablesOfTheRequestCannotReplaceTheConversation) {
  Write("chat_template.jinja", "{{ style }}{{ messages|length }}{{ documents is none }}");
  EXPECT_EQ(Render({.messages = kHello,
                    .variables = Json::Object{{"style", "x"}, {"messages", Json::Array()}}}),
            "x1True");
  Write("chat_template.jinja", "{{ bos_token }}");
  EXPECT_EQ(Render({.messages = kHello, .variables = Json::Object{{"bos_token", "x"}}},
                   {{"bos_token", "<s>"}}),
            "x");
}

TEST_F(ChatTemplateTest, SeesDocuments) {
  Write("chat_template.jinja", "{{ documents[0].text }}");
  EXPECT_EQ(Render({.messages = kHello, .documents = Messages(R"([{"text":"x"}])")}), "x");
}

TEST_F(ChatTemplateTest, LeavesTheFinalMessageOpen) {
  ChatPrompt prompt = {.messages = Messages(R"([{"role":"user","content":"Hi"},
                                                {"role":"assistant","content":"Well, "}])"),
                       .add_generation_prompt = false,
                       .continue_final_message = true};
  Write("chat_template.jinja",
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}");
  EXPECT_EQ(Render(prompt), "[user]Hi</s>[assistant]Well, ");
  Write("chat_template.jinja", kTemplate);  // trims
  EXPECT_EQ(Render(prompt), "[user]Hi[assistant]Well,");
}

TEST_F(ChatTemplateTest, LeavesAnEmptyFinalMessageOpen) {
  const ChatPrompt prompt = {.messages = Messages(R"([{"role":"assistant","content":""}])"),
                             .add_generation_prompt = false,
                             .continue_final_message = true};
  Write("chat_template.jinja", "[{{ messages[0].role }}] {{ messages[0].content }}</s>");
  EXPECT_EQ(Render(prompt), "[assistant] ");
  Write("chat_template.jinja", "[{{ messages[0].role }}] {{ messages[0].content | trim }}</s>");
  EXPECT_EQ(Render(prompt), "[assistant]");
}

TEST_F(ChatTemplateTest, AFinalMessageIsTrimmedAsByPython) {
  // A no-break space, an ideographic one and a control character are white space to str.rstrip();
  // the "à" ends in a byte that is one in Latin-1.
  const auto render = [this](const std::string& end) {
    return Render(
        {.messages = Messages(StrCat(R"([{"role":"assistant","content":"x\u00e0)", end, R"("}])")),
         .add_generation_prompt = false,
         .continue_final_message = true});
  };
  Write("chat_template.jinja", "{{ messages[0].content | trim }}</s>");
  for (const char* end : {"", " \\n", "\\u00a0", "\\u3000", "\\u001c"}) {
    EXPECT_EQ(render(end), "x\u00e0") << end;
  }
}

TEST_F(ChatTemplateTest, FinalMessagesThatCannotBeContinued) {
  const auto error_of = [](const std::string& source, const std::string& messages) {
    const auto parsed = ChatTemplate::Parse(source, {});
    return Message(parsed
                       ->Render({.messages = Messages(messages),
                                 .add_generation_prompt = false,
                                 .continue_final_message = true})
                       .status());
  };
  EXPECT_THAT(error_of(kTemplate, R"([{"role":"assistant"}])"), HasSubstr("no text to continue"));
  EXPECT_THAT(error_of("constant", R"([{"role":"assistant","content":"x"}])"),
              HasSubstr("leaves the last message out"));
  EXPECT_THAT(error_of("{{ messages[-1].content.split('</think>')[-1] }}",
                       R"([{"role":"assistant","content":"<think>a</think>b"}])"),
              HasSubstr("changes the last message"));
}

TEST_F(ChatTemplateTest, ErrorsAreTheTemplatesWords) {
  const auto parsed =
      ChatTemplate::Parse("{{ raise_exception('Conversation roles must alternate') }}", {});
  const Status status = parsed->Render({.messages = kHello}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), "Conversation roles must alternate");
}

TEST(ChatTemplate, KnowsDevelopersIfItHasTheWord) {
  const auto knows = [](const std::string& main, std::optional<std::string> tool_use = {}) {
    const auto loaded = ChatTemplate::FromText(
        {.where = "", .main = main, .tool_use = std::move(tool_use), .special_tokens = {}});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() && loaded->knows_developers();
  };
  const std::string knowing = "{% if messages[0].role == 'developer' %}d{% endif %}";
  EXPECT_TRUE(knows(knowing));
  EXPECT_TRUE(knows("{{ messages[0].role in [\"system\", \"developer\"] }}"));
  EXPECT_FALSE(knows(kTemplate));
  EXPECT_FALSE(knows("{{ developer_preamble }}")) << "Command R's variable";
  EXPECT_TRUE(knows(knowing, knowing));
  EXPECT_FALSE(knows(knowing, kTemplate));
}

}  // namespace
}  // namespace aril
