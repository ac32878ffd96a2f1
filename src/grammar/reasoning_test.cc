#include "grammar/reasoning.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"
#include "grammar/free_text.h"
#include "grammar/test_support.h"
#include "grammar/token_table.h"
#include "grammar/tool_calls.h"
#include "gtest/gtest.h"
#include "wire/limits.h"

namespace aril::grammar {
namespace {

using ::testing::HasSubstr;
using Kind = wire::OutputFormat::Kind;

const wire::Reasoning kMay = {.begin = "<think>", .end = "</think>"};
const wire::Reasoning kBegun = {.begin = "", .end = "</think>"};
// As Mistral's, which are special tokens.
const std::string kMark(kSpecialTokenMark);
const wire::Reasoning kSpecial = {.begin = kMark + "[THINK]" + kMark,
                                  .end = kMark + "[/THINK]" + kMark};

Automaton AutomatonOf(const wire::OutputFormat& format) {
  auto grammar = Compile(format);
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  return Automaton(*std::move(grammar));
}

void Check(const wire::OutputFormat& format, const std::vector<std::string>& accepted,
           const std::vector<std::string>& refused) {
  Automaton automaton = AutomatonOf(format);
  for (const std::string& text : accepted) EXPECT_TRUE(Accepts(automaton, text)) << text;
  for (const std::string& text : refused) EXPECT_FALSE(Accepts(automaton, text)) << text;
}

TEST(Reasoning, MayComeBeforeAFormat) {
  Check({.kind = Kind::kRegex, .source = "yes|no", .reasoning = kMay},
        {"yes", "<think></think>no", "\n\n<think>a</think>no", "<think>\nIs it?\n</think>\n\nyes",
         "<think><think></</think>no", "<think>yes</think>  \n\nyes"},
        {"", "<think>", "<think>yes", "yes<think></think>", "<think></think>", "\nyes",
         "<think></think>x", "<think></think>     yes", "<think></think></think>yes", "think>yes",
         "     <think></think>yes", "<think>\xFF</think>yes"});
}

TEST(Reasoning, ThatHasBegunMustEnd) {
  Check({.kind = Kind::kJsonSchema, .source = R"({"type":"boolean"})", .reasoning = kBegun},
        {"</think>true", "Well.\n</think>\n\nfalse", "true</think>true", "<think></think>true"},
        {"true", "", "</think>", "</think>null", "true</think>"});
}

TEST(Reasoning, MayBeMarkedBySpecialTokens) {
  const std::string begin = SpecialTokenText("[THINK]");
  const std::string end = SpecialTokenText("[/THINK]");
  Check({.kind = Kind::kRegex, .source = "yes", .reasoning = kSpecial},
        {"yes", begin + end + "yes", begin + "a" + SpecialTokenText("<s>") + "b" + end + "yes",
         begin + "[THINK][/THINK" + end + "yes"},
        {begin + "[/THINK]yes", begin + "[/THINK]" + end + "yes", begin + begin + end + "yes",
         "[THINK]" + end + "yes", begin + "yes", end + "yes"});
}

ToolCallFormat Calls(const std::string& marker) {
  return {.syntax = {.begin = marker + "{\"name\": \"",
                     .middle = "\", \"arguments\": ",
                     .next = std::nullopt,
                     .end = "}",
                     .marker = marker},
          .tools = {{.name = "f", .parameters = Json::Object{}}}};
}

wire::OutputFormat Format(const ToolCallFormat& calls, const wire::Reasoning& reasoning) {
  return {.kind = Kind::kToolCalls, .source = ToSource(calls), .reasoning = reasoning};
}

// What calls begin with is just text there.
TEST(Reasoning, MayComeBeforeTextWithCalls) {
  for (const std::string marker : {"<call>", ""}) {
    SCOPED_TRACE(marker);
    const std::string call = marker + R"({"name": "f", "arguments": {}})";
    Check(Format(Calls(marker), kMay),
          {"", "Hello", call, "<", "<think", "<thin<think>", "     <think>", "a<think>", "<think>",
           "<think>Hello", "<think>" + call, " <think>", "\n <think>a</think>" + call,
           "<think><call>x{</think>", "<think>" + call + "</think>\n\n" + call,
           "<think></think>\n\nHello", "<think></think></think>", "<<think>"},
          {"<think></think><think>", "<think></think>\n <think>", "<think></think>" + call + "x"});
    ToolCallFormat required = Calls(marker);
    required.is_required = true;
    Check(Format(required, kMay), {call, "<think>Hm</think>\n" + call},
          {"", "Hello", "<think></think>", "<think></think>Hello" + call, "<think>" + call});
  }
}

TEST(Reasoning, OfSpecialTokensComesFirstOnly) {
  const std::string begin = SpecialTokenText("[THINK]");
  const std::string end = SpecialTokenText("[/THINK]");
  Check(Format(Calls("<call>"), kSpecial),
        {"Hello", begin + end + "Hello", SpecialTokenText("<s>") + "Hello", "[THIN", "x[THINK]"},
        {"a" + begin, "[THINK]", SpecialTokenText("<s>") + "[THINK]", begin + end + begin,
         begin + begin});
}

// As gpt-oss': what comes between messages, and before an answer, with reasoning or without.
TEST(Reasoning, MayBeAMessageBeforeAnother) {
  const auto marked = [](std::string_view token) { return StrCat(kMark, token, kMark); };
  const wire::Reasoning harmony = {
      .begin = StrCat(marked("<|channel|>"), "analysis", marked("<|message|>")),
      .end = StrCat(marked("<|end|>"), marked("<|start|>"), "assistant"),
      .answer = StrCat(marked("<|channel|>"), "final", marked("<|message|>"))};
  const std::string begin = WithSpecialBytes(harmony.begin), end = WithSpecialBytes(harmony.end),
                    answer = WithSpecialBytes(harmony.answer);
  Check({.kind = Kind::kRegex, .source = "yes", .reasoning = harmony},
        {answer + "yes", begin + end + answer + "yes",
         begin + "<|end|> is how it ends" + end + answer + "yes"},
        {"yes", begin + end + "yes", begin + "a" + answer + "yes",
         begin + SpecialTokenText("<|end|>") + answer + "yes", answer + answer + "yes",
         begin + end + begin + end + answer + "yes", "<|channel|>final<|message|>yes"});
  ToolCallFormat calls = Calls(StrCat(marked("<|channel|>"), "call"));
  calls.syntax.marker = marked("<|channel|>");
  const std::string call = WithSpecialBytes(calls.syntax.begin) + R"(f", "arguments": {}})";
  Check(Format(calls, harmony),
        {call, answer + "Hello", answer, begin + "a" + end + call, begin + "a" + end + answer + "b",
         answer + "<|channel|>call" + SpecialTokenText("<s>")},
        {"", "Hello", begin, begin + end + "Hello", answer + call, call + "x",
         answer + SpecialTokenText("<|end|>"), answer + SpecialTokenText("<|start|>")});
}

// Beside what a reader does: text that begins like reasoning is reasoning, and its end is the
// first.
TEST(Reasoning, IsToldFromTextAsAReaderDoes) {
  constexpr uint64_t kSeed = 20261126;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  for (const std::string begin : {"ab", "aab", "ba", "aba"}) {
    for (const std::string marker : {"<call>", "aa", "bb", "acab", ""}) {
      if (!marker.empty() && begin.find(marker) != std::string::npos) continue;
      SCOPED_TRACE(StrCat(begin, " ", marker));
      const wire::Reasoning reasoning = {.begin = begin, .end = "c"};
      Automaton automaton = AutomatonOf(Format(Calls(marker), reasoning));
      const auto without_spaces = [](std::string_view text) {
        const size_t num_spaces = std::min(text.find_first_not_of(' '), text.size());
        return num_spaces <= static_cast<size_t>(kMaxSpaces) ? text.substr(num_spaces) : "";
      };
      const auto is_text = [&](std::string_view text) {
        return !without_spaces(text).starts_with(begin) &&
               (marker.empty() || text.find(marker) == std::string_view::npos);
      };
      const auto is_reasoned = [&](std::string_view text) {
        text = without_spaces(text);
        if (!text.starts_with(begin)) return false;
        const size_t end = text.find('c', begin.size());
        if (end == std::string_view::npos) return true;  // text need not follow
        for (size_t i = 1; i <= 1 + kMaxSpaces && end + i <= text.size(); ++i) {
          if (is_text(text.substr(end + i))) return true;
          if (end + i == text.size() || text[end + i] != ' ') return false;
        }
        return false;
      };
      for (int i = 0; i < 500; ++i) {
        std::string text(random() % 2 == 0 ? random() % 7 : 0, ' ');
        for (size_t left = random() % 12; left > 0; --left) text += "abc "[random() % 4];
        EXPECT_EQ(Accepts(automaton, text), is_text(text) || is_reasoned(text)) << text;
      }
    }
  }
}

// Each is a way that its text may have begun.
TEST(Reasoning, LeavesRoomForAsManyChoicesAsThereMayBe) {
  std::string choices = "0";
  for (int i = 1; i < 1024; ++i) choices += StrCat("|", i);
  Check({.kind = Kind::kRegex, .source = choices, .reasoning = kMay},
        {"7", "<think></think>1023", "<think></think>\n\n\n\n0"}, {"1024", "<think>"});
}

TEST(Reasoning, MustBeMarked) {
  const auto error = [](const wire::Reasoning& reasoning) {
    return Message(Compile({.kind = Kind::kRegex, .source = "a", .reasoning = reasoning}).status());
  };
  EXPECT_EQ(error(kMay), "");
  for (const wire::Reasoning& wrong : std::vector<wire::Reasoning>{
           {.begin = "<think>", .end = ""},
           {.begin = "", .end = ""},
           {.begin = "same", .end = "same"},
           {.begin = "same", .end = kMark + "same" + kMark},
           {.begin = kMark, .end = "b"},
           {.begin = "a", .end = "b" + kMark + "c" + kMark},
           {.begin = "a", .end = kMark + kMark},
           {.begin = "a\xFF", .end = "b"},
           {.begin = "a", .end = std::string(wire::kMaxReasoningMarkerBytes + 1, 'b')}}) {
    EXPECT_THAT(error(wrong), HasSubstr("of its own")) << wrong.begin << ' ' << wrong.end;
  }
  for (const char* begin : {"x<call>", "<call>", "<call>{", "<ca"}) {
    EXPECT_THAT(Message(Compile(Format(Calls("<call>"), {.begin = begin, .end = "b"})).status()),
                HasSubstr("reasoning begins with what calls begin with"));
  }
  EXPECT_THAT(Message(Compile(Format(Calls(""), {.begin = "{", .end = "b"})).status()),
              HasSubstr("reasoning begins with what calls begin with"));
}

}  // namespace
}  // namespace aril::grammar
