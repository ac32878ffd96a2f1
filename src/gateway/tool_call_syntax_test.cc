#include "gateway/tool_call_syntax.h"

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Of Mistral and Llama.
const SpecialTokenizer kTokenizer({"[TOOL_CALLS]", "<|im_end|>", "</s>"});
constexpr int32_t kEndTokens[] = {257, 258};

StatusOr<grammar::ToolCallSyntax> Learn(const std::string& source) {
  const auto chat_template =
      ChatTemplate::Parse(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  if (!chat_template.ok()) return chat_template.status();
  return LearnToolCallSyntax(*chat_template, kTokenizer, kEndTokens);
}

std::string Error(const std::string& source) { return Message(Learn(source).status()); }

constexpr char kShown[] = "{{ tools | tojson }}";
// Of the turn of an assistant, with what is to come between.
std::string Turns(const std::string& calls) {
  return StrCat("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.tool_calls %}", calls,
                "{% endif %}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
}
std::string EachCall(const std::string& call) {
  return StrCat("{% for c in m.tool_calls %}", call, "{% endfor %}");
}
constexpr char kObject[] =
    R"({"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}})";

TEST(ToolCallSyntax, IsLearnedFromTags) {
  const auto syntax = Learn(
      kShown + Turns(EachCall(StrCat("{{ '\\n<tool_call>\\n' }}", kObject, "\n</tool_call>"))));
  ASSERT_TRUE(syntax.ok()) << syntax.status();
  EXPECT_EQ(*syntax, (grammar::ToolCallSyntax{
                         .begin = "<tool_call>\n{\"name\": \"",
                         .middle = "\", \"arguments\": ",
                         .next = "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
                         .end = "}\n</tool_call>",
                         .marker = "<tool_call>",
                     }));
}

// What the template adds to a turn that has no call is not a part of the syntax; ids are not
// either.
TEST(ToolCallSyntax, IsLearnedFromListsWithIds) {
  const auto syntax = Learn(
      kShown +
      Turns("[TOOL_CALLS][{% for c in m.tool_calls %}{% if c.id | length != 9 %}"
            "{{ raise_exception('id') }}{% endif %}{{ (c.function | tojson)[:-1] }}, \"id\": \""
            "{{ c.id }}\"}{{ ', ' if not loop.last }}{% endfor %}]"));
  ASSERT_TRUE(syntax.ok()) << syntax.status();
  EXPECT_EQ(*syntax, (grammar::ToolCallSyntax{.begin = "[TOOL_CALLS][{\"name\": \"",
                                              .middle = "\", \"arguments\": ",
                                              .next = "}, {\"name\": \"",
                                              .end = "}]",
                                              .marker = "[TOOL_CALLS]"}));
  const grammar::ToolCallSyntax marked = MarkSpecialTokens(*syntax, kTokenizer);
  const std::string mark(grammar::kSpecialTokenMark);
  EXPECT_EQ(marked.marker, mark + "[TOOL_CALLS]" + mark);
  EXPECT_EQ(marked.begin, marked.marker + "[{\"name\": \"");
  EXPECT_EQ(marked.end, syntax->end);
  EXPECT_EQ(marked.next, syntax->next);
}

TEST(ToolCallSyntax, OfOneCallIsLearnedWhereThereCannotBeMore) {
  const auto syntax =
      Learn(kShown + Turns("{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}"
                           "{% endif %}" +
                           EachCall(kObject)));
  ASSERT_TRUE(syntax.ok()) << syntax.status();
  EXPECT_EQ(syntax->begin, "{\"name\": \"");
  EXPECT_EQ(syntax->marker, "");
  EXPECT_EQ(syntax->next, std::nullopt);
  const auto numbered = Learn(kShown + Turns(EachCall(StrCat("<call {{ loop.index }}>", kObject))));
  ASSERT_TRUE(numbered.ok()) << numbered.status();
  EXPECT_EQ(numbered->begin, "<call 1>{\"name\": \"");
  EXPECT_EQ(numbered->next, std::nullopt) << "the model would have to count";
}

// In the form of Qwen 3.5 and Qwen 3 Coder.
TEST(ToolCallSyntax, IsLearnedFromArgumentsOneByOne) {
  const auto syntax = Learn(
      kShown +
      Turns(EachCall("{{ '\n<tool_call>\n<function=' + c.function.name + '>\n' }}"
                     "{% for name, value in c.function.arguments | items %}"
                     "{{ '<parameter=' + name + '>\n' }}{{ value if value is string else value | "
                     "tojson }}{{ '\n</parameter>\n' }}{% endfor %}"
                     "{{ '</function>\n</tool_call>' }}")));
  ASSERT_TRUE(syntax.ok()) << syntax.status();
  EXPECT_EQ(*syntax, (grammar::ToolCallSyntax{
                         .begin = "<tool_call>\n<function=",
                         .middle = ">\n",
                         .next = "</function>\n</tool_call>\n<tool_call>\n<function=",
                         .end = "</function>\n</tool_call>",
                         .marker = "<tool_call>",
                         .argument = grammar::ArgumentSyntax{
                             .begin = "<parameter=", .middle = ">\n", .end = "\n</parameter>\n"}}));
  // Special tokens are marked in all of it.
  const auto special =
      Learn(kShown + Turns(EachCall("[TOOL_CALLS]{{ c.function.name }}\n{% for name, value in "
                                    "c.function.arguments | items %}[TOOL_CALLS]{{ name }}="
                                    "{{ value }}[TOOL_CALLS]>\n{% endfor %}.")));
  ASSERT_TRUE(special.ok()) << special.status();
  EXPECT_EQ(
      special->argument,
      (grammar::ArgumentSyntax{.begin = "[TOOL_CALLS]", .middle = "=", .end = "[TOOL_CALLS]>\n"}));
  const std::string mark(grammar::kSpecialTokenMark);
  const grammar::ToolCallSyntax marked = MarkSpecialTokens(*special, kTokenizer);
  EXPECT_EQ(marked.argument->begin, mark + "[TOOL_CALLS]" + mark);
  EXPECT_EQ(marked.argument->end, mark + "[TOOL_CALLS]" + mark + ">\n");
}

TEST(ToolCallSyntax, OfHarmonyIsKnown) {
  for (const char* header : {" to=functions.{{ c.function.name }}<|channel|>commentary json",
                             "<|channel|>commentary to=functions.{{ c.function.name }} json"}) {
    const auto syntax = Learn(StrCat(
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|start|>{{ m.role }}"
        "{% if m.tool_calls %}",
        EachCall(header),
        "<|message|>{}<|call|>{% else %}<|channel|>final<|message|>{{ m.content }}<|end|>{% endif "
        "%}"
        "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"));
    ASSERT_TRUE(syntax.ok()) << syntax.status();
    EXPECT_EQ(*syntax, (grammar::ToolCallSyntax{.begin = "<|channel|>commentary to=functions.",
                                                .middle = " json<|message|>",
                                                .next = std::nullopt,
                                                .end = "<|call|>",
                                                .marker = "<|channel|>"}));
  }
}

TEST(ToolCallSyntax, IsNotLearnedFromTemplatesThatHaveNone) {
  const std::string tagged = Turns(EachCall(StrCat("<call>", kObject)));
  EXPECT_THAT(Error(tagged), HasSubstr("does not show tools to the model; leave tools out"));
  EXPECT_THAT(Error(kShown + Turns("")), HasSubstr("shows no calls of tools"));
  EXPECT_THAT(Error("{{ tools }}"), HasSubstr("leaves the last message out"));
  EXPECT_EQ(Error("{{ raise_exception('I take no tools') }}"), "I take no tools");
  for (
      const char* call :
      {"<call>{{ c.function.name }}", "{{ c.function.arguments | tojson }}",
       "{{ c.function.arguments | tojson }}: {{ c.function.name }}",
       "{{ c.function.name }}: {{ c.function.arguments.arilprobe_argument }}",
       "{{ c.function.name }}{{ c.function.arguments | tojson }}",
       "<call>{{ c.function.name }}x{{ c.function.arguments | tojson }}",
       R"(<call>{"id": "{{ c.id }}", "name": "{{ c.function.name }}", {{ c.function.arguments | tojson }}})",
       "<call>{{ c.function.name }}</s>{{ c.function.arguments | tojson }}",
       "<call>{{ c.function.name }}{{ c.function.name }}:{{ c.function.arguments | tojson }}",
       "<call>{{ c.function.name }} {{ c.id }}:{{ c.function.arguments | tojson }}",
       // Values of which one could be within another; strings with texts of their own around them.
       "<f={{ c.function.name }}>{% for k, v in c.function.arguments | items %}<p={{ k }}>"
       "{{ v }}</p>{% endfor %}</f>",
       "<f={{ c.function.name }}>{% for k, v in c.function.arguments | items %}<p={{ k }} "
       "string={{ v is string }}>{{ v }}\n</p>{% endfor %}</f>",
       // Strings as in JSON, or cut; names that no tag is before; the same text before and behind.
       "<f={{ c.function.name }}>{% for k, v in c.function.arguments | items %}<p={{ k }}>"
       "{{ v | tojson }}</p>{% endfor %}</f>",
       "<f={{ c.function.name }}>{% for k, v in c.function.arguments | items %}<p={{ k }}>"
       "{{ v | trim('0') }}</p>{% endfor %}</f>",
       "{{ c.function.name }}:{% for k, v in c.function.arguments | items %}\n  {{ k }}: {{ v }}"
       "{% endfor %}\n",
       "<f={{ c.function.name }}>{% for k, v in c.function.arguments | items %}<p={{ k }}>"
       "{{ v }}</p>{% endfor %}<p=",
       "<f={{ c.function.name }}>{% for k, v in c.function.arguments | items %}<p={{ k }}>"
       "{{ v }}</s></p>{% endfor %}</f>",
       R"({{ c.function.name }}: {{ c.function.arguments | tojson }}{% for i in range(999) %},"{{ c.id }}"{% endfor %})",
       "<call>{{ c.function.name }}: {{ c.function.arguments }}"}) {
    EXPECT_THAT(Error(kShown + Turns(EachCall(call))), HasSubstr("does not know")) << call;
  }
  EXPECT_THAT(Error(kShown + Turns("!")), HasSubstr("does not know"));
  EXPECT_THAT(Error(StrCat("{{ 'x' if messages[-1].tool_calls }}", kShown, tagged)),
              HasSubstr("does not know"));
}

// Some end a turn of calls otherwise than one of text.
TEST(ToolCallSyntax, DoesNotHaveTheEndOfTheTurn) {
  for (const char* end : {"<|im_end|>", "</s>", "\n</s>\n", ""}) {
    const auto syntax = Learn(StrCat(kShown, "{% for m in messages %}{{ m.role }}{{ m.content }}",
                                     "{% for c in m.tool_calls %}<f={{ c.function.name }}>{{ "
                                     "c.function.arguments | tojson }}</f>",
                                     "{% endfor %}{% if m.tool_calls %}", end,
                                     "{% elif not loop.last %}</s>{% endif %}", "{% endfor %}"));
    ASSERT_TRUE(syntax.ok()) << syntax.status();
    EXPECT_EQ(syntax->begin, "<f=");
    EXPECT_EQ(syntax->marker, "<f=");
    EXPECT_EQ(syntax->next, "</f><f=");
    EXPECT_EQ(syntax->end, "</f>") << end;
  }
}

// Else no text could have these words.
TEST(ToolCallSyntax, HasNoMarkerThatIsOrdinaryText) {
  for (const auto& [before, marker] : std::map<std::string, std::string>{{"call ", ""},
                                                                         {"- ", ""},
                                                                         {"Action: ", ""},
                                                                         {"<", ""},
                                                                         {"< ", ""},
                                                                         {"<a ", ""},
                                                                         {"[CALL] ", ""},
                                                                         {"<call>", "<call>"},
                                                                         {"<call=", "<call="},
                                                                         {"<|call|> x", "<|call|>"},
                                                                         {"</s2>", "</s2>"}}) {
    const auto syntax = Learn(
        kShown +
        Turns(EachCall(before + "{{ c.function.name }}: {{ c.function.arguments | tojson }}")));
    ASSERT_TRUE(syntax.ok()) << syntax.status() << before;
    EXPECT_EQ(syntax->marker, marker) << before;
  }
}

// Templates of models that are served, and of others.
TEST(ToolCallSyntax, IsLearnedFromRealTemplates) {
  const std::string folder = SharedPath("data/chat_templates/");
  if (!FileExists(folder)) GTEST_SKIP() << folder << " is absent";
  const auto learn = [&](const std::string& name) {
    std::stringstream source;
    source << std::ifstream(folder + name + ".jinja").rdbuf();
    const auto syntax = Learn(source.str());
    return syntax.ok()
               ? StrCat(syntax->begin, "…", syntax->middle, "…", syntax->next.value_or("(one)"),
                        "…", syntax->end, "…", syntax->marker,
                        syntax->argument
                            ? StrCat("…", syntax->argument->begin, "…", syntax->argument->middle,
                                     "…", syntax->argument->end)
                            : "")
               : Message(syntax.status());
  };
  const std::string tagged =
      "<tool_call>\n{\"name\": \"…\", \"arguments\": …}\n</tool_call>\n<tool_call>\n{\"name\": "
      "\"…}\n</tool_call>…<tool_call>";
  const std::string keys =
      "<tool_call>…\n…</tool_call>\n<tool_call>…</tool_call>…<tool_call>…<arg_key>…</arg_key>\n"
      "<arg_value>…</arg_value>\n";
  const std::string llama = "{\"name\": \"…\", \"parameters\": …(one)…}…";
  for (const auto& [name, expected] : std::map<std::string, std::string>{
           {"templates/Qwen-Qwen2.5-7B-Instruct", tagged},
           {"templates/Qwen-Qwen3-0.6B", tagged},
           {"templates/Qwen-QwQ-32B", tagged},
           {"templates/NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", tagged},
           {"templates/MiMo-VL", tagged},
           {"templates/Bielik-11B-v3.0-Instruct", tagged},
           {"from_tokenizer_configs/qwen2.5_adapter_unsloth", tagged},
           {"from_tokenizer_configs/qwen3-0.6b_adapter", tagged},
           {"templates/meta-llama-Llama-3.1-8B-Instruct", llama},
           {"from_tokenizer_configs/llama3.2_adapter", llama},
           {"templates/openai-gpt-oss-120b",
            "<|channel|>commentary to=functions.… json<|message|>…(one)…<|call|>…<|channel|>"},
           {"templates/GLM-4.6", keys},
           {"templates/poolside-Laguna-XS.2", keys},
           {"templates/ByteDance-Seed-OSS",
            "<seed:tool_call>\n<function=…>\n…</function>\n</seed:tool_call>\n<seed:tool_call>\n"
            "<function=…</function>\n</seed:tool_call>…<seed:tool_call>…<parameter=…>…</parameter>"
            "\n"},
           {"templates/MiniMax-M2",
            "<minimax:tool_call>\n<invoke name=\"…\">\n…</invoke>\n<invoke name=\"…</invoke>\n"
            "</minimax:tool_call>…<minimax:tool_call>…<parameter name=\"…\">…</parameter>\n"},
           {"templates/mistralai-Mistral-Nemo-Instruct-2407",
            "[TOOL_CALLS][{\"name\": \"…\", \"arguments\": …}, {\"name\": \"…}]…[TOOL_CALLS]"},
       }) {
    EXPECT_EQ(learn(name), expected) << name;
  }
  for (const char* name : {"templates/google-gemma-2-2b-it", "from_tokenizer_configs/llama2-chat",
                           "templates/ibm-granite-granite-3.3-2B-Instruct"}) {
    EXPECT_THAT(learn(name), StartsWith("The chat template of this model ")) << name;
  }
}

}  // namespace
}  // namespace aril::gateway
