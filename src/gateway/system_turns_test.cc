#include "gateway/system_turns.h"

#include <fstream>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/test_paths.h"
#include "gateway/anthropic_messages.h"
#include "gateway/auth.h"
#include "gateway/responses.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;

ChatTemplate Template(const std::string& source) {
  auto parsed = ChatTemplate::Parse(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return *std::move(parsed);
}

constexpr char kAnywhere[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
// As Qwen's newer ones, as Gemma's, and such that leave out what they do not expect.
constexpr char kRefusing[] =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}";
constexpr char kAlternating[] =
    "{% if messages[0].role == 'system' %}{% set rest = messages[1:] %}"
    "{{ messages[0].content }}{% else %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}{% "
    "endfor %}";
constexpr char kDropping[] =
    "{% for m in messages %}{% if m.role != 'system' or loop.first %}"
    "<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}";
constexpr char kInFront[] =
    "{% for m in messages if m.role == 'system' %}{{ m.content }}{% endfor %}"
    "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}";

TEST(SystemTurns, AreShownByTemplatesThatShowThemInTheirPlace) {
  EXPECT_TRUE(ShowsLaterSystem(Template(kAnywhere)));
  for (const char* source : {kRefusing, kAlternating, kDropping, kInFront}) {
    EXPECT_FALSE(ShowsLaterSystem(Template(source))) << source;
  }
}

// Of models that are served.
TEST(SystemTurns, AreShownBySomeRealTemplates) {
  const std::string folder = SharedPath("data/chat_templates/");
  if (!FileExists(folder)) GTEST_SKIP() << folder << " is absent";
  const auto shows = [&](const std::string& name) {
    std::stringstream source;
    source << std::ifstream(folder + name + ".jinja").rdbuf();
    return ShowsLaterSystem(Template(source.str()));
  };
  for (const char* name :
       {"templates/Qwen-Qwen3-0.6B", "templates/Qwen-Qwen2.5-7B-Instruct",
        "templates/meta-llama-Llama-3.1-8B-Instruct", "templates/microsoft-Phi-3.5-mini-instruct",
        "templates/ibm-granite-granite-3.3-2B-Instruct",
        "from_tokenizer_configs/tinyllama-zephyr"}) {
    EXPECT_TRUE(shows(name)) << name;
  }
  for (const char* name :
       {"templates/mistralai-Mistral-Nemo-Instruct-2407", "templates/google-gemma-2-2b-it",
        "templates/HuggingFaceTB-SmolLM3-3B", "templates/deepseek-ai-DeepSeek-V3.1",
        "templates/openai-gpt-oss-120b", "from_tokenizer_configs/llama2-chat"}) {
    EXPECT_FALSE(shows(name)) << name;
  }
}

std::string Folded(const std::string& text) {
  Json messages = *Json::Parse(text);
  EXPECT_EQ(HasLaterSystem(messages), text.find("later") != std::string::npos) << text;
  FoldLaterSystem(&messages);
  return messages.Dump();
}

TEST(SystemTurns, AreFoldedIntoTheUsers) {
  for (const char* untouched :
       {"[]", R"([{"role":"system","content":"a"}])",
        R"([{"role":"system","content":"a"},{"role":"developer","content":"b"},)"
        R"({"role":"user","content":"c"},{"role":"user","content":"d"},)"
        R"({"role":"assistant","content":"e"}])"}) {
    EXPECT_EQ(Folded(untouched), untouched);
  }
  EXPECT_EQ(Folded(R"([{"role":"user","content":"a"},{"role":"system","content":"later"}])"),
            R"([{"role":"user","content":"a\n<system-reminder>\nlater\n</system-reminder>"}])");
  EXPECT_EQ(Folded(R"([{"role":"system","content":"s"},{"role":"user","content":"a"},
                       {"role":"developer","content":"later"},{"role":"user","content":"b"},
                       {"role":"assistant","content":"c"},{"role":"system","content":"later"},
                       {"role":"user","content":"d"},{"role":"assistant","content":"e"},
                       {"role":"user","content":"f"},{"role":"user","content":"g"}])"),
            R"([{"role":"system","content":"s"},)"
            R"({"role":"user","content":"a\n<system-reminder>\nlater\n</system-reminder>\nb"},)"
            R"({"role":"assistant","content":"c"},)"
            R"({"role":"user","content":"<system-reminder>\nlater\n</system-reminder>\nd"},)"
            R"({"role":"assistant","content":"e"},)"
            R"({"role":"user","content":"f"},{"role":"user","content":"g"}])");
}

// Of a request, the prompt by this template, or the error.
template <typename Parse>
std::string PromptBy(const char* source, Parse parse, const std::string& body) {
  const auto model = MakeServedModel();
  const ServedModel other = {
      .spec = model->spec,
      .text = TextOfBytes(std::make_shared<const ChatDialect>(Template(source))),
      .catalog = model->catalog,
      .max_model_len = 256};
  const auto parsed = parse(body, {.model = other, .limits = {}, .tenant = kDefaultTenant});
  if (!parsed.ok()) return parsed.error().message;
  return ByteTokenizer().Decode(parsed.value().prompts[0].tokens, false);
}

TEST(SystemTurns, AreFoldedWhereTheTemplateDoesNotShowThem) {
  const std::string turns = R"([{"role":"user","content":"a"},{"role":"system","content":"s"}])";
  const std::string messages = R"({"model":"base","messages":)" + turns + "}";
  const std::string input = R"({"model":"base","input":)" + turns + "}";
  const std::string folded = "<user>a\n<system-reminder>\ns\n</system-reminder>";
  EXPECT_EQ(PromptBy(kAnywhere, ParseMessagesRequest, messages), "<user>a<system>s");
  EXPECT_EQ(PromptBy(kAnywhere, ParseResponsesRequest, input), "<user>a<system>s");
  for (const char* source : {kRefusing, kAlternating, kDropping, kInFront}) {
    EXPECT_EQ(PromptBy(source, ParseMessagesRequest, messages), folded);
    EXPECT_EQ(PromptBy(source, ParseResponsesRequest, input), folded);
  }
}

}  // namespace
}  // namespace aril::gateway
