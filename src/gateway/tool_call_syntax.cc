#include "gateway/tool_call_syntax.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "gateway/json_extent.h"

namespace aril::gateway {
namespace {

using grammar::ToolCallSyntax;

// What the conversation is made of, and no template has.
constexpr std::string_view kTool = "aril_probe_tool";
constexpr std::string_view kArgument = "aril_probe_argument";
constexpr std::string_view kContent = "aril_probe_content";
// Nine letters and digits: Mistral's templates take no others.
constexpr std::array<std::string_view, 3> kIds = {"aprobeid1", "aprobeid2", "aprobeid3"};

constexpr std::string_view kSpaces = " \t\r\n";

Status CannotBeLearned(std::string_view why) {
  return FailedPrecondition(
      StrCat("The chat template of this model ", why,
             "; leave tools out, or give the model a template that does (chat_template.jinja)."));
}

std::string_view StripLeft(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpaces), text.size()));
}

std::string_view StripRight(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpaces) + 1);
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
                         {"properties", Json::Object{{std::string(kArgument),
                                                      Json::Object{{"type", "string"},
                                                                   {"description", "?"}}}}},
                         {"required", Json::Array{std::string(kArgument)}}}}}}};
}

Json ProbeArguments(size_t call) {
  return Json::Object{{std::string(kArgument), StrCat("value ", call)}};
}

Json ProbeCall(size_t call) {
  return Json::Object{{"id", std::string(kIds[call])},
                      {"type", "function"},
                      {"function", Json::Object{{"name", std::string(kTool)},
                                                {"arguments", ProbeArguments(call)}}}};
}

// A template's text of one assistant's turn, and how the turn itself begins and ends.
class Probe {
 public:
  Probe(const ChatTemplate& chat_template, int64_t unix_seconds)
      : chat_template_(chat_template), unix_seconds_(unix_seconds) {}

  Status Begin() {
    ASSIGN_OR_RETURN(const std::string text, Render(kContent, 0));
    const size_t content = text.rfind(kContent);
    if (content == std::string::npos) return CannotBeLearned("leaves the last message out");
    if (text.find(kTool) > content) return CannotBeLearned("does not show tools to the model");
    // Some write a space before content, but none before calls.
    before_ = StripRight(std::string_view(text).substr(0, content));
    behind_ = text.substr(content + kContent.size());
    return OkStatus();
  }

  // What a turn of so many calls, and no content, consists of.
  StatusOr<std::string> Calls(size_t num_calls) const {
    ASSIGN_OR_RETURN(const std::string text, Render("", num_calls));
    std::string_view turn = text;
    if (turn.size() < before_.size() + behind_.size() || !turn.starts_with(before_) ||
        !turn.ends_with(behind_)) {
      return CannotBeLearned("writes calls of tools in a form that cannot be read back");
    }
    turn.remove_prefix(before_.size());
    turn.remove_suffix(behind_.size());
    return std::string(StripLeft(StripRight(turn)));
  }

 private:
  StatusOr<std::string> Render(std::string_view content, size_t num_calls) const {
    Json::Object turn = {{"role", "assistant"}, {"content", std::string(content)}};
    Json::Array calls;
    for (size_t i = 0; i < num_calls; ++i) calls.push_back(ProbeCall(i));
    if (num_calls > 0) turn.emplace_back("tool_calls", std::move(calls));
    return chat_template_.Render(
        {.messages = Json::Array{Json::Object{{"role", "user"}, {"content", "?"}}, std::move(turn)},
         .tools = Json::Array{ProbeTool()},
         .documents = {},
         .add_generation_prompt = false,
         .variables = {},
         .unix_seconds = unix_seconds_});
  }

  const ChatTemplate& chat_template_;
  const int64_t unix_seconds_;
  std::string before_;
  std::string behind_;
};

// Without the member of an id, which the model does not write: `, "id": "…"`.
std::optional<std::string> WithoutId(std::string_view text) {
  for (const std::string_view id : kIds) {
    const size_t at = text.find(id);
    if (at == std::string_view::npos) continue;
    const size_t comma = text.rfind(',', at);
    const size_t end = at + id.size();
    if (comma == std::string_view::npos || end >= text.size() || text[end] != '"' ||
        text.substr(comma, at - comma).find_first_of("{}[]") != std::string_view::npos) {
      return std::nullopt;
    }
    return WithoutId(StrCat(text.substr(0, comma), text.substr(end + 1)));
  }
  return std::string(text);
}

// The texts before, between and behind the names and arguments of calls.
std::optional<std::vector<std::string>> Parts(std::string_view text, size_t num_calls) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view part) {
    auto without = WithoutId(part);
    if (without) parts.push_back(*std::move(without));
    return without.has_value();
  };
  for (size_t i = 0; i < num_calls; ++i) {
    const size_t name = text.find(kTool);
    if (name == std::string_view::npos || !add(text.substr(0, name))) return std::nullopt;
    text.remove_prefix(name + kTool.size());
    const size_t arguments = text.rfind('{', text.find(kArgument));
    if (arguments == std::string_view::npos || !add(text.substr(0, arguments))) {
      return std::nullopt;
    }
    text.remove_prefix(arguments);
    JsonExtent extent;
    const size_t size = extent.Append(text);
    const auto json = Json::Parse(text.substr(0, size));
    if (!json.ok() || json->Dump() != ProbeArguments(i).Dump()) return std::nullopt;
    text.remove_prefix(size);
  }
  if (text.find(kTool) != std::string_view::npos || !add(text)) return std::nullopt;
  return parts;
}

bool FitsSyntax(const ToolCallSyntax& syntax) {
  if (syntax.begin.empty() || syntax.middle.empty()) return false;
  if (syntax.next && syntax.next->empty()) return false;
  for (const std::string* text : {&syntax.begin, &syntax.middle, &syntax.end}) {
    if (text->size() > grammar::kMaxSyntaxBytes ||
        text->find(grammar::kSpecialTokenMark) != std::string::npos) {
      return false;
    }
  }
  return !grammar::IsToolNameByte(syntax.middle[0]);
}

// A special token, or else a word that is more than brackets and quotes.
std::string MarkerOf(std::string_view begin, const Tokenizer& tokenizer) {
  const auto tokens =
      tokenizer.Encode(begin, {.add_special_tokens = false, .parse_special_tokens = true});
  if (!tokens.empty() && tokenizer.IsSpecial(tokens[0])) {
    const std::string token =
        tokenizer.TokenBytes(tokens[0], /*is_first=*/false, /*skip_special_tokens=*/false);
    if (!token.empty() && begin.starts_with(token)) return token;
  }
  return std::string(begin.substr(0, std::min(begin.find_first_of(" \t\r\n{[\""), begin.size())));
}

std::string Marked(std::string_view text, const Tokenizer& tokenizer) {
  std::string marked;
  for (const int32_t token :
       tokenizer.Encode(text, {.add_special_tokens = false, .parse_special_tokens = true})) {
    if (!tokenizer.IsSpecial(token)) continue;
    const std::string bytes =
        tokenizer.TokenBytes(token, /*is_first=*/false, /*skip_special_tokens=*/false);
    const size_t at = bytes.empty() ? std::string_view::npos : text.find(bytes);
    if (at == std::string_view::npos) continue;
    marked += StrCat(text.substr(0, at), grammar::kSpecialTokenMark, bytes);
    text.remove_prefix(at + bytes.size());
  }
  return marked + std::string(text);
}

}  // namespace

StatusOr<ToolCallSyntax> LearnToolCallSyntax(const ChatTemplate& chat_template,
                                             const Tokenizer& tokenizer, int64_t unix_seconds) {
  Probe probe(chat_template, unix_seconds);
  RETURN_IF_ERROR(probe.Begin());
  ASSIGN_OR_RETURN(const std::string one, probe.Calls(1));
  if (one.empty()) return CannotBeLearned("shows no calls of tools to the model");
  const auto parts = Parts(one, 1);
  if (!parts) {
    return CannotBeLearned("writes calls of tools in a form that this server does not know");
  }
  ToolCallSyntax syntax = {.begin = (*parts)[0],
                           .middle = (*parts)[1],
                           .next = std::nullopt,
                           .end = (*parts)[2],
                           .marker = MarkerOf((*parts)[0], tokenizer)};
  // Some templates have room for one call, and some number them.
  if (const auto several = probe.Calls(3); several.ok()) {
    const auto all = Parts(*several, 3);
    const std::vector<std::string> expected =
        all ? std::vector<std::string>{syntax.begin,  syntax.middle, (*all)[2],    syntax.middle,
                                       (*all)[2],     syntax.middle, syntax.end}
            : std::vector<std::string>();
    if (all && *all == expected) syntax.next = (*all)[2];
  }
  if (!FitsSyntax(syntax)) {
    return CannotBeLearned("writes calls of tools in a form that this server does not know");
  }
  return syntax;
}

ToolCallSyntax MarkSpecialTokens(const ToolCallSyntax& syntax, const Tokenizer& tokenizer) {
  ToolCallSyntax marked = {.begin = Marked(syntax.begin, tokenizer),
                           .middle = Marked(syntax.middle, tokenizer),
                           .next = std::nullopt,
                           .end = Marked(syntax.end, tokenizer),
                           .marker = Marked(syntax.marker, tokenizer)};
  if (syntax.next) marked.next = Marked(*syntax.next, tokenizer);
  return marked;
}

}  // namespace aril::gateway
