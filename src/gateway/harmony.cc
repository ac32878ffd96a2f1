#include "gateway/harmony.h"

#include <string>
#include <utility>

#include "base/json.h"
#include "base/strings.h"
#include "gateway/special_text.h"
#include "gateway/text.h"

namespace aril::gateway {

bool WritesHarmony(const ChatTemplate& chat_template) {
  constexpr std::string_view kContent = "arilprobe_content";  // which no template has
  const Json question = Json::Object{{"role", "user"}, {"content", "?"}};
  const Json answer = Json::Object{{"role", "assistant"}, {"content", std::string(kContent)}};
  const auto render = [&](Json::Array messages, bool begins_answer) -> std::string {
    auto text = chat_template.Render({.messages = std::move(messages),
                                      .tools = {},
                                      .documents = {},
                                      .add_generation_prompt = begins_answer,
                                      .variables = {},
                                      .unix_seconds = 0});
    return text.ok() ? *std::move(text) : "";
  };
  const std::string prompt = render({question}, true);
  if (!StripRight(prompt).ends_with(kHarmonyStart)) return false;
  const std::string said = StrCat(kHarmonyStart, HarmonyReasoning().answer, kContent);
  return render({question, answer}, false).find(said) != std::string::npos;
}

ReasoningSyntax HarmonyReasoning() {
  return {.begin = StrCat(kHarmonyChannel, "analysis", kHarmonyMessage),
          .end = StrCat(kHarmonyEnd, kHarmonyStart),
          .answer = StrCat(kHarmonyChannel, "final", kHarmonyMessage)};
}

grammar::ToolCallSyntax HarmonyCalls(const Tokenizer& tokenizer) {
  constexpr std::string_view kConstrain = "<|constrain|>";
  const bool has_constrain = FindSpecialTokens(kConstrain, tokenizer).size() == 1;
  return {.begin = StrCat(kHarmonyChannel, "commentary ", kHarmonyRecipient, kHarmonyFunctions),
          .middle = StrCat(" ", has_constrain ? kConstrain : "", "json", kHarmonyMessage),
          .next = std::nullopt,
          .end = "<|call|>",
          .marker = std::string(kHarmonyChannel)};
}

}  // namespace aril::gateway
