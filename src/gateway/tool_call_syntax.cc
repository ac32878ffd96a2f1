#include "gateway/tool_call_syntax.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "gateway/harmony.h"
#include "gateway/json_extent.h"
#include "gateway/special_text.h"
#include "gateway/text.h"

namespace aril::gateway {
namespace {

using grammar::ToolCallSyntax;

// What the conversation is made of, and no template has.
constexpr std::string_view kProbe = "arilprob";
constexpr std::string_view kTool = "arilprobe_tool";
constexpr std::string_view kArgument = "arilprobe_argument";
constexpr std::string_view kSecondArgument = "arilprobe_argument_too";
constexpr int64_t kProbeNumber = 7;
constexpr std::string_view kContent = "arilprobe_content";
// Nine letters and digits: Mistral's templates take no others.
constexpr std::array<std::string_view, 3> kIds = {"arilprob1", "arilprob2", "arilprob3"};

// Of a turn of three calls.
constexpr size_t kMaxTurnBytes = 8192;

constexpr std::string_view kUnknownForm =
    "writes calls of tools in a form that this server does not know";

Status CannotBeLearned(std::string_view why) {
  return FailedPrecondition(
      StrCat("The chat template of this model ", why,
             "; leave tools out, or give the model a template that does (chat_template.jinja)."));
}

Json ProbeTool() {
  return Json::Object{
      {"type", "function"},
      {"function",
       Json::Object{
           {"name", std::string(kTool)},
           {"description", "?"},
           {"parameters",
            Json::Object{{"type", "object"},
                         {"properties",
                          Json::Object{{std::string(kArgument),
                                        Json::Object{{"type", "string"}, {"description", "?"}}}}},
                         {"required", Json::Array{std::string(kArgument)}}}}}}};
}

// Of a call's first or second argument. In JSON it would be written otherwise.
std::string ProbeValue(size_t call, size_t argument = 0) {
  return StrCat("arilprob \"value\" ", argument, " of\n", call);
}

Json ProbeArguments(size_t call) {
  return Json::Object{{std::string(kArgument), ProbeValue(call)}};
}

Json ProbeCall(size_t call, Json arguments) {
  return Json::Object{{"id", std::string(kIds[call])},
                      {"type", "function"},
                      {"function", Json::Object{{"name", std::string(kTool)},
                                                {"arguments", std::move(arguments)}}}};
}

// A template's text of one assistant's turn, and how the turn itself begins and ends.
class Probe {
 public:
  explicit Probe(const ChatTemplate& chat_template) : chat_template_(chat_template) {}

  Status Begin() {
    ASSIGN_OR_RETURN(const std::string text, Render(kContent, {}));
    const size_t content = text.rfind(kContent);
    if (content == std::string::npos) return CannotBeLearned("leaves the last message out");
    if (text.find(kTool) > content) return CannotBeLearned("does not show tools to the model");
    // Some write a space before content, but none before calls.
    before_ = StripRight(std::string_view(text).substr(0, content));
    behind_ = text.substr(content + kContent.size());
    return OkStatus();
  }

  // What a turn of calls with these arguments, and no content, consists of. It may have its own end
  // behind it, where that is another than that of a turn of text.
  StatusOr<std::string> Calls(const std::vector<Json>& arguments) const {
    ASSIGN_OR_RETURN(const std::string text, Render("", arguments));
    std::string_view turn = text;
    if (!turn.starts_with(before_)) return CannotBeLearned(kUnknownForm);
    turn.remove_prefix(before_.size());
    if (turn.ends_with(behind_)) turn.remove_suffix(behind_.size());
    turn = StripLeft(StripRight(turn));
    if (turn.size() > kMaxTurnBytes) return CannotBeLearned(kUnknownForm);
    return std::string(turn);
  }

 private:
  StatusOr<std::string> Render(std::string_view content, const std::vector<Json>& arguments) const {
    Json::Object turn = {{"role", "assistant"}, {"content", std::string(content)}};
    Json::Array calls;
    for (size_t i = 0; i < arguments.size(); ++i) calls.push_back(ProbeCall(i, arguments[i]));
    if (!calls.empty()) turn.emplace_back("tool_calls", std::move(calls));
    return chat_template_.Render(
        {.messages = Json::Array{Json::Object{{"role", "user"}, {"content", "?"}}, std::move(turn)},
         .tools = Json::Array{ProbeTool()},
         .documents = {},
         .add_generation_prompt = false,
         .variables = {},
         .unix_seconds = 0});
  }

  const ChatTemplate& chat_template_;
  std::string before_;
  std::string behind_;
};

// Without the member of an id, which the model does not write: `, "id": "…"`. Nothing if more of
// what the calls were made of is there.
std::optional<std::string> WithoutId(std::string_view text) {
  std::string without(text);
  for (const std::string_view id : kIds) {
    const size_t at = text.find(id);
    if (at == std::string_view::npos) continue;
    const size_t comma = text.rfind(',', at);
    const size_t end = at + id.size();
    if (comma == std::string_view::npos || end >= text.size() || text[end] != '"' ||
        text.substr(comma, at - comma).find_first_of("{}[]") != std::string_view::npos) {
      return std::nullopt;
    }
    without = StrCat(text.substr(0, comma), text.substr(end + 1));
    break;
  }
  const bool is_left = without.find(kProbe) != std::string::npos;
  return is_left ? std::nullopt : std::optional(std::move(without));
}

bool AddPart(std::string_view part, std::vector<std::string>* parts) {
  auto without = WithoutId(part);
  if (!without) return false;
  parts->push_back(*std::move(without));
  return true;
}

// The texts before, between and behind the names and arguments of calls.
std::optional<std::vector<std::string>> Parts(std::string_view text, size_t num_calls) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < num_calls; ++i) {
    const size_t name = text.find(kTool);
    if (name == std::string_view::npos || !AddPart(text.substr(0, name), &parts))
      return std::nullopt;
    text.remove_prefix(name + kTool.size());
    const size_t arguments = text.rfind('{', text.find(kArgument));
    if (arguments == std::string_view::npos || !AddPart(text.substr(0, arguments), &parts)) {
      return std::nullopt;
    }
    text.remove_prefix(arguments);
    JsonExtent extent;
    const size_t size = extent.Append(text);
    const auto json = Json::Parse(text.substr(0, size));
    if (!json.ok() || json->Dump() != ProbeArguments(i).Dump()) return std::nullopt;
    text.remove_prefix(size);
  }
  if (!AddPart(text, &parts)) return std::nullopt;
  return parts;
}

// A special token, or else a tag: ordinary text has neither.
std::string MarkerOf(std::string_view begin, const std::vector<PlacedToken>& special) {
  if (!special.empty() && special[0].at == 0) return special[0].text;
  if (!begin.starts_with('<')) return "";
  const size_t end = std::min(begin.find_first_of(" \t\r\n{[\"=>"), begin.size() - 1);
  const bool is_tag = end >= 2 && (begin[end] == '>' || begin[end] == '=');
  return is_tag ? std::string(begin.substr(0, end + 1)) : "";
}

// What comes between calls whose arguments are objects. Nothing where templates have room for one
// call, or number them.
std::optional<std::string> NextOf(const Probe& probe, const ToolCallSyntax& syntax) {
  const auto several = probe.Calls({ProbeArguments(0), ProbeArguments(1), ProbeArguments(2)});
  const auto parts = several.ok() ? Parts(*several, 3) : std::nullopt;
  if (!parts) return std::nullopt;
  const std::string& next = (*parts)[2];
  const std::vector<std::string> expected = {syntax.begin, syntax.middle, next,      syntax.middle,
                                             next,         syntax.middle, syntax.end};
  return *parts == expected ? std::optional(next) : std::nullopt;
}

// The texts before, between and behind these, which come in this order.
std::optional<std::vector<std::string>> PartsAround(std::string_view text,
                                                    const std::vector<std::string>& words) {
  std::vector<std::string> parts;
  for (const std::string& word : words) {
    const size_t at = text.find(word);
    if (at == std::string_view::npos || !AddPart(text.substr(0, at), &parts)) return std::nullopt;
    text.remove_prefix(at + word.size());
  }
  return AddPart(text, &parts) ? std::optional(std::move(parts)) : std::nullopt;
}

std::vector<std::string> WordsOf(size_t call) {
  return {std::string(kTool), std::string(kArgument), ProbeValue(call)};
}

// What is before the first of two arguments, between them, and behind, is the sum of two texts each
// time, and so is what is between a name and the end of a call that has none. There are several
// ways to cut them, which allow the same calls; an argument is to begin with a tag or special
// token.
bool CutArguments(const std::string& before, const std::string& between, const std::string& behind,
                  const std::string& without, const std::function<bool(std::string_view)>& begins,
                  ToolCallSyntax* syntax) {
  for (size_t size = before.size(); size-- > 1;) {
    const std::string begin = before.substr(size);
    if (!between.ends_with(begin)) break;
    if (!begins(begin)) continue;
    const std::string end = between.substr(0, between.size() - begin.size());
    if (!behind.starts_with(end)) continue;
    syntax->middle = before.substr(0, size);
    syntax->end = behind.substr(end.size());
    syntax->argument->begin = begin;
    syntax->argument->end = end;
    if (without == syntax->middle + syntax->end) return true;
  }
  return false;
}

// What comes between calls whose arguments are written one by one.
std::optional<std::string> NextOfOneByOne(const Probe& probe, const ToolCallSyntax& syntax) {
  const auto several = probe.Calls({ProbeArguments(0), ProbeArguments(1), ProbeArguments(2)});
  if (!several.ok()) return std::nullopt;
  std::vector<std::string> words;
  for (size_t call = 0; call < 3; ++call) {
    for (std::string& word : WordsOf(call)) words.push_back(std::move(word));
  }
  const auto parts = PartsAround(*several, words);
  const auto& [begin, middle, end] = *syntax.argument;
  if (!parts || !(*parts)[3].starts_with(end)) return std::nullopt;
  const std::string next = (*parts)[3].substr(end.size());
  const std::string before = syntax.middle + begin;
  const std::string between = end + next;
  const std::vector<std::string> expected = {syntax.begin, before,          middle,  between,
                                             before,       middle,          between, before,
                                             middle,       end + syntax.end};
  return *parts == expected ? std::optional(next) : std::nullopt;
}

// Of calls whose arguments are written one by one, strings as they are.
template <typename FindSpecial>
std::optional<ToolCallSyntax> LearnOneByOne(const Probe& probe, const FindSpecial& special) {
  const auto two = probe.Calls({Json::Object{{std::string(kArgument), ProbeValue(0)},
                                             {std::string(kSecondArgument), ProbeValue(0, 1)}}});
  const auto none = probe.Calls({Json::Object{}});
  if (!two.ok() || !none.ok()) return std::nullopt;
  std::vector<std::string> words = WordsOf(0);
  words.insert(words.end(), {std::string(kSecondArgument), ProbeValue(0, 1)});
  const auto parts = PartsAround(*two, words);
  const auto without = PartsAround(*none, {std::string(kTool)});
  // Before the call, before and behind the first name, between arguments, and so on.
  if (!parts || !without || (*parts)[2] != (*parts)[4] || (*parts)[0] != (*without)[0]) {
    return std::nullopt;
  }
  ToolCallSyntax syntax = {
      .begin = (*parts)[0],
      .middle = "",
      .next = std::nullopt,
      .end = "",
      .marker = "",
      .argument = grammar::ArgumentSyntax{.begin = "", .middle = (*parts)[2], .end = ""}};
  const auto begins = [&](std::string_view text) {
    const auto tokens = special(text);
    return text[0] == '<' || (!tokens.empty() && tokens[0].at == 0);
  };
  if (!CutArguments((*parts)[1], (*parts)[3], (*parts)[5], (*without)[1], begins, &syntax)) {
    return std::nullopt;
  }
  // Values that are no strings are to stand between the same texts.
  const auto others = probe.Calls({Json::Object{{std::string(kArgument), kProbeNumber},
                                                {std::string(kSecondArgument), Json::Array{}}}});
  const auto& [begin, middle, end] = *syntax.argument;
  const std::string expected =
      StrCat(syntax.begin, kTool, syntax.middle, begin, kArgument, middle, kProbeNumber, end, begin,
             kSecondArgument, middle, "[]", end, syntax.end);
  if (!others.ok() || *others != expected) return std::nullopt;
  syntax.next = NextOfOneByOne(probe, syntax);
  return syntax;
}

// `special`: finds the special tokens in a text.
template <typename FindSpecial>
StatusOr<ToolCallSyntax> Learn(const Probe& probe, const FindSpecial& special) {
  ASSIGN_OR_RETURN(const std::string one, probe.Calls({ProbeArguments(0)}));
  if (one.empty()) return CannotBeLearned("shows no calls of tools to the model");
  if (one.find(grammar::kSpecialTokenMark) != std::string::npos) {
    return CannotBeLearned(kUnknownForm);
  }
  std::optional<ToolCallSyntax> syntax;
  if (const auto parts = Parts(one, 1)) {
    syntax = {.begin = (*parts)[0],
              .middle = (*parts)[1],
              .next = std::nullopt,
              .end = (*parts)[2],
              .marker = ""};
    syntax->next = NextOf(probe, *syntax);
  } else {
    syntax = LearnOneByOne(probe, special);
  }
  if (!syntax) return CannotBeLearned(kUnknownForm);
  syntax->marker = MarkerOf(syntax->begin, special(syntax->begin));
  return *std::move(syntax);
}

}  // namespace

StatusOr<ToolCallSyntax> LearnToolCallSyntax(const ChatTemplate& chat_template,
                                             const Tokenizer& tokenizer,
                                             std::span<const int32_t> end_tokens) {
  Probe probe(chat_template);
  RETURN_IF_ERROR(probe.Begin());
  const auto special = [&](std::string_view text) {
    return FindSpecialTokens(text, tokenizer, end_tokens);
  };
  const auto ends = [&](const PlacedToken& placed) {
    return IsEnd(placed.token, tokenizer, end_tokens);
  };
  ToolCallSyntax syntax;
  if (WritesHarmony(chat_template)) {
    syntax = HarmonyCalls(tokenizer);
  } else {
    ASSIGN_OR_RETURN(syntax, Learn(probe, special));
  }
  // What ends the turn is not a part of it.
  const auto behind = special(syntax.end);
  const auto end = std::ranges::find_if(behind, ends);
  if (end != behind.end()) {
    syntax.end = StripRight(std::string_view(syntax.end).substr(0, end->at));
  }
  bool is_fit = CheckSyntax(MarkSpecialTokens(syntax, tokenizer)).ok();
  for (const std::string& text : TextsOf(syntax)) {
    is_fit = is_fit && std::ranges::none_of(special(text), ends);
  }
  if (!is_fit) return CannotBeLearned(kUnknownForm);
  return syntax;
}

ToolCallSyntax MarkSpecialTokens(const ToolCallSyntax& syntax, const Tokenizer& tokenizer) {
  ToolCallSyntax marked = {.begin = MarkSpecialTokens(syntax.begin, tokenizer),
                           .middle = MarkSpecialTokens(syntax.middle, tokenizer),
                           .next = std::nullopt,
                           .end = MarkSpecialTokens(syntax.end, tokenizer),
                           .marker = MarkSpecialTokens(syntax.marker, tokenizer)};
  if (syntax.next) marked.next = MarkSpecialTokens(*syntax.next, tokenizer);
  if (const auto& argument = syntax.argument) {
    marked.argument = {.begin = MarkSpecialTokens(argument->begin, tokenizer),
                       .middle = MarkSpecialTokens(argument->middle, tokenizer),
                       .end = MarkSpecialTokens(argument->end, tokenizer)};
  }
  return marked;
}

std::vector<int32_t> SpecialTokensOf(const ToolCallSyntax& syntax, const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (const std::string& text : TextsOf(syntax)) {
    for (const PlacedToken& special : FindSpecialTokens(text, tokenizer)) {
      tokens.push_back(special.token);
    }
  }
  return tokens;
}

}  // namespace aril::gateway
