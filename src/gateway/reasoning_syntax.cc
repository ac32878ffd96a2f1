#include "gateway/reasoning_syntax.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gateway/harmony.h"
#include "gateway/text.h"
#include "grammar/free_text.h"
#include "wire/limits.h"

namespace aril::gateway {
namespace {

// What the conversation is made of, and no template has.
constexpr std::string_view kReasoning = "arilprobe_reasoning";
constexpr std::string_view kContent = "arilprobe_content";

// Of what may have the marks of a special token around it.
constexpr size_t kMaxTagBytes =
    wire::kMaxReasoningMarkerBytes - 2 * grammar::kSpecialTokenMark.size();

// How it is written where templates show nothing of it.
constexpr std::string_view kUsualTag = "<think>";

// <think>, </think>, [THINK], <|begin_of_thought|>.
bool IsTag(std::string_view text) {
  if (text.size() < 3 || text.size() > kMaxTagBytes) return false;
  const char close = text[0] == '<' ? '>' : ']';
  return (text[0] == '<' || text[0] == '[') && text.find(close) == text.size() - 1 &&
         text.find_first_of(" \t\r\n<[", 1) == std::string_view::npos;
}

// The tag at the end of a text, or nothing.
std::string_view LastTag(std::string_view text) {
  const size_t begin = text.find_last_of("<[");
  if (begin == std::string_view::npos || !IsTag(text.substr(begin))) return "";
  return text.substr(begin);
}

// </think> of <think>.
std::string EndTagOf(std::string_view tag) { return StrCat(tag.substr(0, 1), "/", tag.substr(1)); }

class Probe {
 public:
  explicit Probe(const ChatTemplate& chat_template) : chat_template_(chat_template) {}

  // A question, and then the beginning of an answer.
  std::optional<std::string> RenderPrompt() const { return Render({Question()}, true); }
  // An answer with reasoning.
  std::optional<std::string> RenderReasoned() const {
    Json::Object answer = Answer(std::string(kContent));
    for (const char* name : {"reasoning_content", "thinking"}) {
      answer.emplace_back(name, std::string(kReasoning));
    }
    return Render({Question(), std::move(answer)}, false);
  }
  // An answer of an earlier turn: some templates take nothing out of the last one.
  std::optional<std::string> RenderEarlier(std::string content) const {
    return Render({Question(), Answer(std::move(content)), Question()}, false);
  }

 private:
  static Json::Object Question() { return {{"role", "user"}, {"content", "?"}}; }
  static Json::Object Answer(std::string content) {
    return {{"role", "assistant"}, {"content", std::move(content)}};
  }
  std::optional<std::string> Render(std::vector<Json::Object> messages, bool begins_answer) const {
    auto text = chat_template_.Render(
        {.messages = Json::Array(messages.begin(), messages.end()),
         .tools = {},
         .documents = {},
         .add_generation_prompt = begins_answer,
         .variables = Json::Object{{"enable_thinking", true}, {"thinking", true}},
         .unix_seconds = 0});
    return text.ok() ? std::optional(*std::move(text)) : std::nullopt;
  }

  const ChatTemplate& chat_template_;
};

// Of a template that shows reasoning: what stands around it, but for how an assistant's turn
// begins.
std::optional<ReasoningSyntax> Shown(std::string_view text, std::string_view turn) {
  const size_t reasoning = text.rfind(kReasoning);
  const size_t content = text.rfind(kContent);
  if (reasoning == std::string_view::npos || content == std::string_view::npos ||
      content < reasoning)
    return std::nullopt;
  const std::string_view before = StripRight(text.substr(0, reasoning));
  if (!before.starts_with(turn)) return std::nullopt;
  const std::string_view begin = StripLeft(before.substr(turn.size()));
  const size_t behind = reasoning + kReasoning.size();
  const std::string_view end = StripLeft(StripRight(text.substr(behind, content - behind)));
  // The prompt may have begun it.
  const std::string_view tag = begin.empty() ? LastTag(turn) : begin;
  if (!IsTag(tag) || !IsTag(end) || tag == end) return std::nullopt;
  return ReasoningSyntax{.begin = std::string(tag), .end = std::string(end)};
}

bool IsTakenOut(const ReasoningSyntax& syntax, const Probe& probe) {
  const auto text = probe.RenderEarlier(StrCat(syntax.begin, kReasoning, syntax.end, kContent));
  return text && text->find(kContent) != std::string::npos &&
         text->find(kReasoning) == std::string::npos;
}

}  // namespace

std::optional<ReasoningSyntax> LearnReasoningSyntax(const ChatTemplate& chat_template) {
  if (WritesHarmony(chat_template)) return HarmonyReasoning();
  const Probe probe(chat_template);
  const auto prompt = probe.RenderPrompt();
  if (!prompt) return std::nullopt;
  const std::string_view turn = StripRight(*prompt);
  if (const auto text = probe.RenderReasoned()) {
    if (auto shown = Shown(*text, turn)) return shown;
  }
  for (const std::string_view tag : {LastTag(turn), kUsualTag}) {
    if (tag.empty()) continue;
    const ReasoningSyntax syntax = {.begin = std::string(tag), .end = EndTagOf(tag)};
    if (IsTakenOut(syntax, probe)) return syntax;
  }
  return std::nullopt;
}

ReasoningState StateBehind(std::string_view prompt, std::optional<size_t> answer,
                           const ReasoningSyntax& syntax) {
  // Of the answer's beginning the last tag counts; else what the template has before it.
  if (answer) {
    const std::string_view text = prompt.substr(*answer);
    const size_t begin = text.rfind(syntax.begin);
    const size_t end = text.rfind(syntax.end);
    const bool is_over =
        end != std::string_view::npos && (begin == std::string_view::npos || begin < end);
    if (is_over) return ReasoningState::kIsOver;
    if (begin != std::string_view::npos) return ReasoningState::kHasBegun;
  }
  const std::string_view before = StripRight(prompt.substr(0, answer.value_or(prompt.size())));
  if (before.ends_with(syntax.begin)) return ReasoningState::kHasBegun;
  // What ends a message of Harmony's begins the next: before an answer, too.
  const bool is_behind = !syntax.is_in_channels() && before.ends_with(syntax.end);
  const bool may_begin = !answer && !is_behind;
  return may_begin ? ReasoningState::kMayBegin : ReasoningState::kIsOver;
}

}  // namespace aril::gateway
