#include "grammar/tool_calls.h"

#include <random>
#include <regex>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"
#include "grammar/json_schema.h"
#include "grammar/test_support.h"
#include "grammar/token_table.h"
#include "gtest/gtest.h"
#include "wire/limits.h"

namespace aril::grammar {
namespace {

using ::testing::HasSubstr;

Json ParsedJson(const std::string& text) {
  auto json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << text << json.status();
  return json.value_or(Json());
}

// As Qwen 2.5 and Hermes 2 Pro.
const ToolCallSyntax kTagged = {
    .begin = "<call>\n{\"name\": \"",
    .middle = "\", \"arguments\": ",
    .next = "}\n</call>\n<call>\n{\"name\": \"",
    .end = "}\n</call>",
    .marker = "<call>",
};
// As Llama 3.1.
const ToolCallSyntax kBare = {.begin = "{\"name\": \"",
                              .middle = "\", \"parameters\": ",
                              .next = std::nullopt,
                              .end = "}",
                              .marker = ""};
// As Mistral's: the mark stands for a special token.
const std::string kMark(kSpecialTokenMark);
const ToolCallSyntax kSpecial = {.begin = kMark + "[CALLS][{\"name\": \"",
                                 .middle = "\", \"arguments\": ",
                                 .next = "}, {\"name\": \"",
                                 .end = "}]",
                                 .marker = kMark + "[CALLS]"};

ToolCallFormat Format(const ToolCallSyntax& syntax) {
  return {.syntax = syntax,
          .tools = {{.name = "add",
                     .parameters = ParsedJson(
                         R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],
                             "additionalProperties":false})")},
                    {.name = "address", .parameters = ParsedJson(R"({"properties":{"q":{}}})")},
                    {.name = "any", .parameters = ParsedJson("{}")}}};
}

Automaton AutomatonOf(const ToolCallFormat& format) {
  auto grammar = Compile({.kind = wire::OutputFormat::Kind::kToolCalls, .source = ToSource(format)});
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  return Automaton(*std::move(grammar));
}

void Check(const ToolCallFormat& format, const std::vector<std::string>& accepted,
           const std::vector<std::string>& refused) {
  Automaton automaton = AutomatonOf(format);
  for (const std::string& text : accepted) EXPECT_TRUE(Accepts(automaton, text)) << text;
  for (const std::string& text : refused) EXPECT_FALSE(Accepts(automaton, text)) << text;
}

std::string Tagged(const std::string& name, const std::string& arguments) {
  return StrCat("<call>\n{\"name\": \"", name, "\", \"arguments\": ", arguments, "}\n</call>");
}

TEST(ToolCalls, ComeBehindAnyText) {
  const std::string one = Tagged("add", R"({"a": 1})");
  Check(Format(kTagged),
        {"", "Hello.", "a < b", "<", "<call", "<cal<call", "\xE2\x82", one, "Well:\n" + one,
         "<<call" + one, one + "\n" + one + "\n" + Tagged("address", R"({"q": [null]})"),
         Tagged("any", R"({"x": {"y": 1}})"), Tagged("address", "{}")},
        {"<call>", "say <call> or so", one + "\n", one + "!", one + one, one + "\n<call>",
         Tagged("sub", "{}"), Tagged("add", "{}"), Tagged("add", R"({"a": "1"})"),
         Tagged("add", R"({"a": 1, "b": 2})"), Tagged("addres", "{}"), Tagged("any", "[]"),
         Tagged("any", "null"), Tagged("address", R"({"q": 1)"), "<call>{\"name\": \"any\"",
         "\xFF", "a\xFF"});
}

// A marker may begin again within itself.
TEST(ToolCalls, FindTheirMarkerWhereverItBegins) {
  std::mt19937_64 random(20261125);
  for (const std::string marker : {"<call>", "aab", "abab", "aa", "abacabad", "a"}) {
    SCOPED_TRACE(marker);
    ToolCallFormat format = Format(kTagged);
    format.syntax.begin = marker + ":";
    format.syntax.marker = marker;
    Automaton automaton = AutomatonOf(format);
    const std::string alphabet = marker + "ab<";
    for (int i = 0; i < 500; ++i) {
      std::string text;
      for (size_t length = random() % 20; text.size() < length;) {
        text.push_back(alphabet[random() % alphabet.size()]);
      }
      EXPECT_EQ(Accepts(automaton, text), text.find(marker) == std::string::npos) << text;
    }
  }
}

TEST(ToolCalls, WithoutAMarkerAreTheWholeOutput) {
  const std::string call = R"({"name": "add", "parameters": {"a": -3}})";
  Check(Format(kBare),
        {"", "Hello.", "{", "{\"name", "{\"name\": 1}", call, " " + call, "x" + call + call},
        {"{\"name\": \"", "{\"name\": \"x\"}", call + " ", call + call,
         R"({"name": "add", "parameters": {}})"});
}

TEST(ToolCalls, MayBeginWithASpecialToken) {
  const std::string begin = SpecialTokenText("[CALLS]");
  const std::string call = R"({"name": "add", "arguments": {"a": 2}})";
  Check(Format(kSpecial),
        {"", "[CALLS] is text", begin + "[" + call + "]", "So " + begin + "[" + call + ", " + call + "]"},
        {begin, begin + "[]", "\xFF", "\xFFhello", begin + "[" + call + ", ]", "[CALLS]\xFF"});
}

TEST(ToolCalls, MayBeRequiredOrSingle) {
  ToolCallFormat format = Format(kTagged);
  format.is_required = true;
  const std::string one = Tagged("add", R"({"a": 1})");
  Check(format, {one, one + "\n" + one}, {"", "text", "text" + one, "\n" + one});
  format.syntax.next.reset();
  Check(format, {one}, {"", one + "\n" + one});
  Automaton automaton = AutomatonOf(format);
  EXPECT_FALSE(automaton.HasNext(Read(automaton, one))) << "so that it ends by itself";
}

TEST(ToolCalls, MayStandBesideASchemaOfOtherOutputs) {
  ToolCallFormat format = Format(kTagged);
  format.text_schema = R"({"type":"object","properties":{"t":{"type":"string"}},"required":["t"]})";
  const std::string one = Tagged("add", R"({"a": 1})");
  const std::string text = R"({"t": "<call>"})";
  Check(format, {text, one, one + "\n" + one}, {"", "text", text + one, one + text});
  format.is_required = true;
  Check(format, {one}, {text});
}

// Every text is the calls that its begin announces, with arguments that their schemas allow.
TEST(ToolCalls, AreWhatTheirSchemasAllow) {
  std::mt19937_64 random(7);
  ToolCallFormat format = Format(kTagged);
  format.is_required = true;
  Automaton automaton = AutomatonOf(format);
  Automaton add(*JsonSchemaGrammar(format.tools[0].parameters.Dump()));
  int num_adds = 0;
  for (int i = 0; i < 300; ++i) {
    const auto text = RandomText(automaton, random, 2000);
    if (!text) continue;
    const std::string begin = kTagged.begin + "add" + kTagged.middle;
    if (!text->starts_with(begin)) continue;
    const size_t end = text->find("}\n</call>");
    EXPECT_TRUE(Accepts(add, text->substr(begin.size(), end - begin.size()))) << *text;
    ++num_adds;
  }
  EXPECT_GT(num_adds, 20);
}

TEST(ToolCalls, OfToolsThatNoArgumentsFitAreNeverMade) {
  ToolCallFormat format = Format(kTagged);
  format.tools[0].parameters = ParsedJson(R"({"properties":{"a":false},"required":["a"]})");
  Check(format, {"text", Tagged("any", "{}")}, {Tagged("add", "{}")});
  format.tools.resize(1);
  format.is_required = true;
  EXPECT_THAT(Message(ToolCallsGrammar(ToSource(format)).status()), HasSubstr("no arguments"));
}

TEST(ToolCalls, RefuseSourcesThatAreNone) {
  const std::string good = ToSource(Format(kTagged));
  ASSERT_TRUE(ToolCallsGrammar(good).ok());
  const auto error = [&](const std::string& from, const std::string& to) {
    return Message(ToolCallsGrammar(std::regex_replace(good, std::regex(from), to)).status());
  };
  EXPECT_THAT(error("\"begin\":\"<", "\"begin\":\""), HasSubstr("`begin`"));
  EXPECT_THAT(error("\"begin\":\"", "\"begins\":\""), HasSubstr("`begin`"));
  EXPECT_THAT(error("\"middle\":\"", "\"middle\":\"x"), HasSubstr("`middle`"));
  EXPECT_THAT(error("\"required\":false", "\"required\":0"), HasSubstr("`required`"));
  EXPECT_THAT(error("\"tools\":\\[", "\"tools\":[0,"), HasSubstr("`tools`"));
  EXPECT_THAT(error("\"name\":\"any\"", "\"name\":\"add\""), HasSubstr("different"));
  EXPECT_THAT(error("\"name\":\"any\"", "\"name\":\"a\\\"b\""), HasSubstr("names"));
  const auto error_of = [&](const std::string& parameters) {
    ToolCallFormat format = Format(kTagged);
    format.tools[2].parameters = ParsedJson(parameters);
    const std::string message = Message(ToolCallsGrammar(ToSource(format)).status());
    EXPECT_EQ(message, "any: " + Message(CheckParameters(format.tools[2].parameters)));
    return message;
  };
  EXPECT_THAT(error_of(R"({"type":"string"})"), HasSubstr("#: `type` must be \"object\""));
  EXPECT_THAT(error_of("true"), HasSubstr("#: it must be an object, not a boolean"));
  EXPECT_THAT(error_of(R"({"not":{"type":"object"}})"), HasSubstr("#: `not` is not supported"));
  EXPECT_THAT(error("\"middle\"", "\"json_schema\":\"{\",\"middle\""), HasSubstr("JSON"));
  EXPECT_FALSE(ToolCallsGrammar("{}").ok());
  EXPECT_FALSE(ToolCallsGrammar("[").ok());

  ToolCallFormat bare = Format(kBare);
  bare.text_schema = "true";
  EXPECT_THAT(Message(ToolCallsGrammar(ToSource(bare)).status()), HasSubstr("json_schema"));
  ToolCallFormat many = Format(kBare);
  many.tools.resize(kMaxTools + 1, many.tools[0]);
  EXPECT_THAT(Message(ToolCallsGrammar(ToSource(many)).status()), HasSubstr("`tools`"));
}

}  // namespace
}  // namespace aril::grammar
