#include "gateway/reasoning_syntax.h"

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gateway/harmony.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

std::optional<ChatTemplate> Parsed(const std::string& source) {
  auto chat_template = ChatTemplate::Parse(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  if (!chat_template.ok()) return std::nullopt;
  return *std::move(chat_template);
}

std::string Learn(const std::string& source) {
  const auto chat_template = Parsed(source);
  if (!chat_template) return "no template";
  const auto syntax = LearnReasoningSyntax(*chat_template);
  if (!syntax) return "none";
  return StrCat(syntax->begin, " ", syntax->end, syntax->answer.empty() ? "" : " ", syntax->answer);
}

// Turns of assistants as said, and the beginning of one.
std::string Turns(const std::string& answer, const std::string& prompt = "") {
  return StrCat("{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}", answer,
                "{% else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}",
                "<|assistant|>", prompt, "{% endif %}");
}

TEST(ReasoningSyntax, IsLearnedFromWhatTemplatesShow) {
  EXPECT_EQ(
      Learn(Turns("{{ '<think>\\n' ~ m.reasoning_content ~ '\\n</think>\\n\\n' }}{{ m.content }}")),
      "<think> </think>");
  EXPECT_EQ(Learn(Turns("[THINK]{{ m.thinking }}[/THINK]{{ m.content }}")), "[THINK] [/THINK]");
  EXPECT_EQ(Learn(Turns("{{ '\\n' }}<|begin_of_thought|>{{ m.reasoning_content }}"
                        "<|end_of_thought|>{{ m.content }}")),
            "<|begin_of_thought|> <|end_of_thought|>");
  EXPECT_EQ(Learn(Turns("<a>{{ m.reasoning_content }}</a>{{ m.content }}", "{{ '<a>\\n' }}")),
            "<a> </a>");
}

TEST(ReasoningSyntax, IsLearnedFromWhatTemplatesTakeOut) {
  const auto cut = [](const std::string& tag) {
    return StrCat("{{ m.content.split('", tag, "')[-1] }}");
  };
  EXPECT_EQ(Learn(Turns(cut("</think>"))), "<think> </think>");
  EXPECT_EQ(Learn(Turns(cut("</think>"), "{{ '<think>\\n' }}")), "<think> </think>");
  EXPECT_EQ(Learn(Turns(cut("</reason>"), "<reason>")), "<reason> </reason>");
  EXPECT_EQ(Learn(Turns(cut("</reason>"))), "none") << "what it begins with is said nowhere";
}

TEST(ReasoningSyntax, IsNotLearnedFromOthers) {
  EXPECT_EQ(Learn(Turns("{{ m.content }}")), "none");
  EXPECT_EQ(Learn(Turns("{{ m.content }}", "<think>")), "none");
  EXPECT_EQ(Learn("{{ raise_exception('no') }}"), "none");
  EXPECT_EQ(Learn("poem:"), "none");
  for (const char* answer :
       {"{{ m.reasoning_content }}{{ m.content }}",
        "Thoughts: {{ m.reasoning_content }}. Answer: {{ m.content }}",
        "<a>{{ m.reasoning_content }}<a>{{ m.content }}",
        "<a>{{ m.content }}</a>{{ m.reasoning_content }}",
        "<a><b>{{ m.reasoning_content }}</a>{{ m.content }}",
        "<a b>{{ m.reasoning_content }}</a>{{ m.content }}",
        "<a>{{ m.reasoning_content }}</a><b>{{ m.content }}",
        "<|end|><|assistant|><a>{{ m.reasoning_content }}</a>{{ m.content }}",
        "{{ '<' ~ 'a' * 57 ~ '>' }}{{ m.reasoning_content }}</a>{{ m.content }}"}) {
    EXPECT_EQ(Learn(Turns(answer)), "none") << answer;
  }
  // A turn that begins otherwise than the prompt leaves it.
  EXPECT_EQ(Learn(Turns("<|channel|>x<a>{{ m.reasoning_content }}</a>{{ m.content }}")), "none");
}

TEST(ReasoningSyntax, OfHarmonySaysWhereAnAnswerBegins) {
  const ReasoningSyntax syntax = HarmonyReasoning();
  const std::string prompt = "<|start|>user<|message|>Hi<|end|><|start|>assistant";
  EXPECT_EQ(StateBehind(prompt, std::nullopt, syntax), ReasoningState::kMayBegin);
  EXPECT_EQ(StateBehind(prompt + syntax.begin, std::nullopt, syntax), ReasoningState::kHasBegun);
  const std::string begun = prompt + syntax.answer;
  EXPECT_EQ(StateBehind(begun + "Well", begun.size(), syntax), ReasoningState::kIsOver);
}

TEST(ReasoningSyntax, SaysWhereAnAnswerBegins) {
  const ReasoningSyntax syntax = {.begin = "<think>", .end = "</think>"};
  const auto state = [&](std::string_view prompt) {
    return StateBehind(prompt, std::nullopt, syntax);
  };
  EXPECT_EQ(state("<user>a <think> of</think><assistant>\n"), ReasoningState::kMayBegin);
  EXPECT_EQ(state("<user>a <think><assistant>\n"), ReasoningState::kMayBegin);
  EXPECT_EQ(state("<assistant>\n<think>\n"), ReasoningState::kHasBegun);
  EXPECT_EQ(state("<assistant>\n<think>\n\n</think>\n\n"), ReasoningState::kIsOver);
  // An answer that is to go on.
  const auto behind = [&](const std::string& prompt, std::string_view answer) {
    return StateBehind(StrCat(prompt, answer), prompt.size(), syntax);
  };
  EXPECT_EQ(behind("<assistant>", "<think>Well"), ReasoningState::kHasBegun);
  EXPECT_EQ(behind("<think>a</think><assistant>", "<think>Well"), ReasoningState::kHasBegun);
  EXPECT_EQ(behind("<assistant><think>\n", "Well"), ReasoningState::kHasBegun);
  EXPECT_EQ(behind("<assistant><think>\n", "Well</think>Yes"), ReasoningState::kIsOver);
  EXPECT_EQ(behind("<assistant>", "<think>Well</think>Yes"), ReasoningState::kIsOver);
  EXPECT_EQ(behind("<assistant>", "Yes"), ReasoningState::kIsOver);
  EXPECT_EQ(behind("<user>What does <think> do?<assistant>", "It"), ReasoningState::kIsOver);
  EXPECT_EQ(behind("<assistant><think>Well</think>", ""), ReasoningState::kIsOver);
}

// Templates of models that are served, and of others.
TEST(ReasoningSyntax, IsLearnedFromRealTemplates) {
  const std::string folder = SharedPath("data/chat_templates/");
  if (!FileExists(folder)) GTEST_SKIP() << folder << " is absent";
  const auto learn = [&](const std::string& name) {
    std::stringstream source;
    source << std::ifstream(folder + name + ".jinja").rdbuf();
    return Learn(source.str());
  };
  for (const char* name :
       {"templates/Qwen-Qwen3-0.6B", "templates/Qwen-QwQ-32B",
        "templates/deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "templates/Bielik-11B-v3.0-Instruct",
        "from_tokenizer_configs/qwen3-0.6b_adapter"}) {
    EXPECT_EQ(learn(name), "<think> </think>") << name;
  }
  EXPECT_EQ(learn("templates/openai-gpt-oss-120b"),
            "<|channel|>analysis<|message|> <|end|><|start|>assistant <|channel|>final<|message|>");
  for (const char* name :
       {"templates/Qwen-Qwen2.5-7B-Instruct", "templates/meta-llama-Llama-3.1-8B-Instruct",
        "templates/mistralai-Mistral-Nemo-Instruct-2407", "templates/google-gemma-2-2b-it",
        "from_tokenizer_configs/llama2-chat"}) {
    EXPECT_EQ(learn(name), "none") << name;
  }
}

}  // namespace
}  // namespace aril::gateway
