// ToolCallsGrammar on any source; of every text that a grammar allows the parser finds the calls:
// of tools that there are, with arguments that are JSON objects.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "gateway/tool_call_parser.h"
#include "grammar/automaton.h"
#include "grammar/token_table.h"
#include "grammar/tool_calls.h"

namespace {

using aril::Json;
using aril::gateway::ToolCallDelta;
using aril::gateway::ToolCallParser;
using aril::gateway::ToolText;
using aril::grammar::Automaton;
using aril::grammar::ToolCallSyntax;

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

std::string TextOf(const Json& source, const char* name) {
  const Json* value = source.Find(name);
  std::string text = value == nullptr ? "" : *value->AsString();
  // As the parser has it, special tokens are their texts.
  for (size_t at = 0; (at = text.find(aril::grammar::kSpecialTokenMark)) != std::string::npos;) {
    text.erase(at, aril::grammar::kSpecialTokenMark.size());
  }
  return text;
}

bool NamesTool(const Json& source, const std::string& name) {
  return std::ranges::any_of(*source.Find("tools")->AsArray(), [&](const Json& tool) {
    return *tool.Find("name")->AsString() == name;
  });
}

// Some texts are cut.
std::string Walk(Automaton& automaton, size_t step, bool* is_complete) {
  std::string text;
  Automaton::State state = automaton.start();
  for (const size_t end = step + 400; step < end; ++step) {
    if (automaton.IsComplete(state) && (step % 7 == 0 || !automaton.HasNext(state))) break;
    int byte = -1;
    for (size_t i = 0; i < 256 && byte < 0; ++i) {
      const auto next = static_cast<uint8_t>(i * (step % 3 == 0 ? 1 : 5) + 31 * step);
      if (Automaton::IsState(automaton.Next(state, next))) byte = next;
    }
    if (byte < 0) break;
    text.push_back(static_cast<char>(byte));
    state = automaton.Next(state, static_cast<uint8_t>(byte));
  }
  *is_complete = automaton.IsComplete(state);
  std::erase(text, static_cast<char>(aril::grammar::kSpecialTokenByte));
  return text;
}

void CheckText(const Json& source, const std::string& text, bool is_complete, size_t piece) {
  const ToolCallSyntax syntax = {
      .begin = TextOf(source, "begin"),
      .middle = TextOf(source, "middle"),
      .next = source.Find("next") == nullptr ? std::nullopt : std::optional(TextOf(source, "next")),
      .end = TextOf(source, "end"),
      .marker = TextOf(source, "marker"),
  };
  const bool is_required = *source.Find("required")->AsBool();
  ToolCallParser parser(syntax, is_required || source.Find("text_schema") != nullptr);
  Said said;
  for (size_t at = 0; at < text.size(); at += piece) {
    said.Take(parser.Append(std::string_view(text).substr(at, piece)));
  }
  const bool is_whole = parser.has_whole_calls();
  said.content += parser.Flush();
  CHECK(said.content.size() <= text.size());
  for (const ToolCallDelta& call : said.calls) CHECK(NamesTool(source, call.name));
  if (!is_complete || said.calls.empty()) return;
  CHECK(is_whole);
  CHECK(!is_required || said.content.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto grammar = aril::grammar::ToolCallsGrammar(text);
  if (!grammar.ok()) {
    CHECK(!aril::Message(grammar.status()).empty());
    return 0;
  }
  const Json source = *Json::Parse(text);
  Automaton automaton(*std::move(grammar));
  if (!Automaton::IsState(automaton.start())) return 0;
  for (size_t i = 0; i < 6; ++i) {
    bool is_complete = false;
    const std::string walked = Walk(automaton, 1000 * i, &is_complete);
    CheckText(source, walked, is_complete, 1 + i * 3);
  }
  return 0;
}
