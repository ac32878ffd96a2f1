// ToolCallsGrammar on any source, behind reasoning, too; of every text that a grammar allows the
// parsers find the calls: of tools that there are, with arguments that are JSON objects.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "gateway/reasoning_parser.h"
#include "gateway/text.h"
#include "gateway/tool_call_parser.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"
#include "grammar/token_table.h"
#include "grammar/tool_calls.h"

namespace {

using aril::Json;
using aril::gateway::ToolCallDelta;
using aril::gateway::ToolCallParser;
using aril::gateway::ToolText;
using aril::grammar::Automaton;
using aril::grammar::ToolCallSyntax;
using aril::wire::OutputFormat;

const aril::wire::Reasoning kReasoning = {.begin = "<t>", .end = "</t>"};

struct Said {
  std::string content;
  std::vector<ToolCallDelta> calls;

  void Take(const ToolText& more) {
    content += more.content;
    for (const ToolCallDelta& call : more.calls) {
      if (!call.name.empty()) {
        CHECK_EQ(call.index, static_cast<int64_t>(calls.size()));
        calls.push_back({.index = call.index, .name = call.name, .arguments = ""});
      }
      CHECK_EQ(call.index + 1, static_cast<int64_t>(calls.size()));
      calls.back().arguments += call.arguments;
    }
  }
};

// With `mark` in place of the marks of special tokens.
std::string TextOf(const Json& source, const char* name, const std::string& mark = "") {
  const Json* value = source.Find(name);
  std::string text = value == nullptr ? "" : *value->AsString();
  for (size_t at = 0; (at = text.find(aril::grammar::kSpecialTokenMark, at)) != std::string::npos;
       at += mark.size()) {
    text.replace(at, aril::grammar::kSpecialTokenMark.size(), mark);
  }
  return text;
}

const char* MiddleOf(const Json& source) {
  return source.Find("argument") == nullptr ? "middle" : "middle_of_one_by_one";
}

// The text as it is shown: without special tokens that calls are not written with.
std::string Shown(const std::string& text, const Json& source) {
  const std::string mark(1, static_cast<char>(aril::grammar::kSpecialTokenByte));
  std::string own;
  for (const char* name : {"begin", MiddleOf(source), "next", "end"}) {
    own += TextOf(source, name, mark);
  }
  if (const Json* argument = source.Find("argument")) {
    for (const char* name : {"begin", "middle", "end"}) own += TextOf(*argument, name, mark);
  }
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t special = std::min(text.find(mark, at), text.size());
    shown += text.substr(at, special - at);
    if (special == text.size()) break;
    const size_t end = std::min(text.find(mark, special + 1), text.size() - 1);
    const std::string token = text.substr(special, end + 1 - special);
    if (own.find(token) != std::string::npos) shown += token.substr(1, token.size() - 2);
    at = end + 1;
  }
  return shown;
}

bool NamesTool(const Json& source, const std::string& name) {
  return std::ranges::any_of(*source.Find("tools")->AsArray(), [&](const Json& tool) {
    return *tool.Find("name")->AsString() == name;
  });
}

struct Walked {
  std::string text;
  bool is_complete = false;  // else it was cut
  bool has_begun = false;    // calls
};

// Some walks begin calls, where they may; those and others go on with any bytes.
Walked Walk(Automaton& automaton, const std::string& begin, size_t step) {
  Walked walked;
  Automaton::State state = automaton.start();
  const size_t num_text_bytes = step % 5;
  for (const size_t end = step + 400; step < end; ++step) {
    if (walked.text.size() == num_text_bytes) {
      Automaton::State behind = state;
      for (const char byte : begin) {
        if (Automaton::IsState(behind)) behind = automaton.Next(behind, static_cast<uint8_t>(byte));
      }
      walked.has_begun = Automaton::IsState(behind);
      if (walked.has_begun) {
        walked.text += begin;
        state = behind;
      }
    }
    if (automaton.IsComplete(state) && (step % 41 == 0 || !automaton.HasNext(state))) break;
    int byte = -1;
    for (size_t i = 0; i < 256 && byte < 0; ++i) {
      const auto next = static_cast<uint8_t>(i * (step % 3 == 0 ? 1 : 5) + 31 * step);
      if (Automaton::IsState(automaton.Next(state, next))) byte = next;
    }
    if (byte < 0) break;
    walked.text.push_back(static_cast<char>(byte));
    state = automaton.Next(state, static_cast<uint8_t>(byte));
  }
  walked.is_complete = automaton.IsComplete(state);
  return walked;
}

// What comes behind reasoning, if there is any.
std::string AnswerIn(const std::string& text, size_t piece) {
  const aril::gateway::ReasoningSyntax syntax = {.begin = kReasoning.begin, .end = kReasoning.end};
  aril::gateway::ReasoningParser parser(syntax, /*has_begun=*/false);
  std::string reasoning, answer;
  const auto take = [&](const aril::gateway::ReasonedText& said) {
    reasoning += said.reasoning;
    answer += said.answer;
  };
  for (size_t at = 0; at < text.size(); at += piece) {
    take(parser.Append(std::string_view(text).substr(at, piece)));
  }
  take(parser.Flush());
  CHECK(reasoning.size() + answer.size() <= text.size());
  CHECK(aril::gateway::StripLeft(text).starts_with(syntax.begin) || answer == text);
  return answer;
}

ToolCallSyntax SyntaxOf(const Json& source) {
  ToolCallSyntax syntax = {
      .begin = TextOf(source, "begin"),
      .middle = TextOf(source, MiddleOf(source)),
      .next = source.Find("next") == nullptr ? std::nullopt : std::optional(TextOf(source, "next")),
      .end = TextOf(source, "end"),
      .marker = TextOf(source, "marker"),
  };
  if (const Json* argument = source.Find("argument")) {
    syntax.argument = {.begin = TextOf(*argument, "begin"),
                       .middle = TextOf(*argument, "middle"),
                       .end = TextOf(*argument, "end")};
  }
  return syntax;
}

void CheckText(const Json& source, const Walked& walked, size_t piece, bool may_reason) {
  std::string text = Shown(walked.text, source);
  bool is_calls = walked.has_begun;
  if (may_reason) {
    text = AnswerIn(text, piece);
    is_calls = false;  // it may be what was thought of
  }
  const ToolCallSyntax syntax = SyntaxOf(source);
  aril::gateway::ToolArgumentTypes types;
  for (const Json& tool : *source.Find("tools")->AsArray()) {
    types.emplace(*tool.Find("name")->AsString(),
                  aril::grammar::ArgumentTypes(*tool.Find("parameters")));
  }
  const bool is_required = *source.Find("required")->AsBool();
  ToolCallParser parser(syntax, is_required || source.Find("text_schema") != nullptr, &types);
  Said said;
  for (size_t at = 0; at < text.size(); at += piece) {
    said.Take(parser.Append(std::string_view(text).substr(at, piece)));
  }
  const bool is_whole = parser.has_whole_calls();
  said.content += parser.Flush();
  CHECK(said.content.size() <= text.size());
  for (const ToolCallDelta& call : said.calls) {
    CHECK(NamesTool(source, call.name));
    CHECK(!is_whole || (call.arguments.starts_with('{') && call.arguments.ends_with('}')));
  }
  if (!walked.is_complete) return;
  // Behind text, or without a marker, what looks like calls may be text.
  const bool must_call =
      is_required || (is_calls && !syntax.marker.empty() && source.Find("text_schema") == nullptr);
  CHECK(!must_call || !said.calls.empty());
  CHECK(said.calls.empty() || is_whole);
  CHECK(!is_required || said.content.empty());
}

void CheckFormat(const OutputFormat& format) {
  auto grammar = aril::grammar::Compile(format);
  if (!grammar.ok()) {
    CHECK(!aril::Message(grammar.status()).empty());
    return;
  }
  const Json source = *Json::Parse(format.source);
  Automaton automaton(*std::move(grammar));
  if (!Automaton::IsState(automaton.start())) return;
  const std::string begin =
      TextOf(source, "begin", std::string(1, static_cast<char>(aril::grammar::kSpecialTokenByte)));
  for (size_t i = 0; i < 6; ++i) {
    CheckText(source, Walk(automaton, begin, 1001 * i), 1 + i * 3, format.reasoning.has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OutputFormat format = {.kind = OutputFormat::Kind::kToolCalls,
                         .source = std::string(reinterpret_cast<const char*>(data), size)};
  CheckFormat(format);
  format.reasoning = kReasoning;
  CheckFormat(format);
  return 0;
}
