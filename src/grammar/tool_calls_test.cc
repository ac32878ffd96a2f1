#include "grammar/tool_calls.h"

#include <memory>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"
#include "grammar/json_schema.h"
#include "grammar/schema_keywords.h"
#include "grammar/test_support.h"
#include "grammar/token_automaton.h"
#include "grammar/token_table.h"
#include "gtest/gtest.h"
#include "wire/limits.h"

namespace aril::grammar {
namespace {

using ::testing::ElementsAre;
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
// As Mistral's: the marks are those of a special token.
const std::string kMark(kSpecialTokenMark);
const ToolCallSyntax kSpecial = {.begin = kMark + "[CALLS]" + kMark + "[{\"name\": \"",
                                 .middle = "\", \"arguments\": ",
                                 .next = "}, {\"name\": \"",
                                 .end = "}]",
                                 .marker = kMark + "[CALLS]" + kMark};

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
  auto grammar =
      Compile({.kind = wire::OutputFormat::Kind::kToolCalls, .source = ToSource(format)});
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
         one + "\n", one + "\n \n", "<<call" + one,
         one + "\n" + one + "\n" + Tagged("address", R"({"q": [null]})"),
         Tagged("any", R"({"x": {"y": 1}})"), Tagged("address", "{}")},
        {"<call>", "say <call> or so", one + "\n\n\n\n\n", one + "\nx", one + "!", one + one,
         one + "\n<call>", Tagged("sub", "{}"), Tagged("add", "{}"), Tagged("add", R"({"a": "1"})"),
         Tagged("add", R"({"a": 1, "b": 2})"), Tagged("addres", "{}"), Tagged("any", "[]"),
         Tagged("any", "null"), Tagged("address", R"({"q": 1)"), "<call>{\"name\": \"any\"", "\xFF",
         "a\xFF"});
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
  Check(
      Format(kBare),
      {"", "Hello.", "{", "{\"name", "{\"name\": 1}", call, " \n" + call, "x" + call + call, "\n"},
      {"{\"name\": \"", "{\"name\": \"x\"}", call + " ", call + call, " " + call + call,
       R"({"name": "add", "parameters": {}})"});
}

TEST(ToolCalls, MayHaveSpecialTokensBefore) {
  const std::string special = SpecialTokenText("<think>");
  const std::string one = Tagged("any", "{}");
  Check(Format(kTagged), {special, "a" + special + one, "<ca" + special + "l", special + special},
        {"\xFF", "\xFF<think>", "<ca" + special + "ll>", one + special, "<call>" + special});
  const std::string call = R"({"name": "any", "parameters": {}})";
  Check(Format(kBare), {special + call, "{\"name\"" + special + ": 1"},
        {special + call + call, "{\"na" + special + "me\": \"x\"}"});
  ToolCallFormat ends_specially = Format(kTagged);
  ends_specially.syntax.end = "}" + kMark + "<end>" + kMark;
  const std::string end = SpecialTokenText("<end>");
  Check(ends_specially,
        {SpecialTokenText("<en"), SpecialTokenText("<end>>"), SpecialTokenText("x") + "<ca",
         "<call>\n{\"name\": \"any\", \"arguments\": {}}" + end},
        {end, "a" + end, "<ca" + end + "ll>"});
  const std::string begin = SpecialTokenText("[CALLS]");
  Check(Format(kSpecial),
        {SpecialTokenText("[CALL"), SpecialTokenText("[CALLS]]"), SpecialTokenText("x"),
         special + begin + "[{\"name\": \"any\", \"arguments\": {}}]"},
        {begin, begin + "x", begin + special});
}

TEST(ToolCalls, MayBeginWithASpecialToken) {
  const std::string begin = SpecialTokenText("[CALLS]");
  const std::string call = R"({"name": "add", "arguments": {"a": 2}})";
  Check(Format(kSpecial),
        {"", "[CALLS is text", "[CALL" + begin + "[" + call + "]", begin + "[" + call + "]",
         "So " + begin + "[" + call + ", " + call + "]"},
        {"[CALLS] is text", "[CALLS][" + call + "]", begin, begin + "[]", "\xFF", "\xFFhello",
         begin + "[" + call + ", ]", "[CALLS]\xFF"});
}

// The token, that is: not what is spelled like it. Others add nothing to a text.
TEST(ToolCalls, BeginWithTheSpecialTokenItself) {
  enum : int32_t { kCalls, kOther, kSpelled, kBytes, kText, kEnd };
  const std::vector<std::string> texts = {SpecialTokenText("[CALLS]"),
                                          SpecialTokenText("[CALL"),
                                          "[CALLS]",
                                          "[{\"name\": \"any",
                                          "Hello",
                                          ""};
  const TokenTable table(texts);
  const auto automaton =
      std::make_shared<TokenAutomaton>(*ToolCallsGrammar(ToSource(Format(kSpecial))), table);
  TokenMatcher matcher(automaton);
  const auto allowed = [&] {
    std::vector<int32_t> tokens;
    const auto set = FindAllowed(matcher, kEnd);
    EXPECT_TRUE(set.ok()) << set.status();
    for (int32_t t = 0; set.ok() && t <= kEnd; ++t) {
      if (Contains(*set, t)) tokens.push_back(t);
    }
    return tokens;
  };
  EXPECT_THAT(allowed(), ElementsAre(kCalls, kOther, kBytes, kText, kEnd));
  ASSERT_TRUE(matcher.Accept(kOther).ok());
  EXPECT_THAT(allowed(), ElementsAre(kCalls, kOther, kBytes, kText, kEnd));
}

TEST(ToolCalls, ThatHaveBegunGoOn) {
  const std::vector<std::string> texts = {SpecialTokenText("[CALLS]"), "[CALLS]",
                                          "[{\"name\": \"any", "Hello", ""};
  const TokenTable table(texts);
  TokenMatcher matcher(
      std::make_shared<TokenAutomaton>(*ToolCallsGrammar(ToSource(Format(kSpecial))), table));
  ASSERT_TRUE(matcher.Accept(3).ok());
  ASSERT_TRUE(matcher.Accept(0).ok());
  const auto set = FindAllowed(matcher, 4);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->at(0), uint64_t{1} << 2) << "nor may it end";
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
  format.text_schema =
      ParsedJson(R"({"type":"object","properties":{"t":{"type":"string"}},"required":["t"]})");
  const std::string one = Tagged("add", R"({"a": 1})");
  const std::string text = R"({"t": "<call>"})";
  Check(format, {text, one, one + "\n" + one}, {"", "text", text + one, one + text});
  format.is_required = true;
  Check(format, {one}, {text});
}

TEST(ToolCalls, AreLoosenedWhereTheyAreTooManyOrTooLarge) {
  const Json large = ParsedJson(
      R"({"properties":{"a":{"type":"string","maxLength":2500},"b":{"maxLength":2500}}})");
  ToolCallFormat format = Format(kTagged);
  format.tools[0].is_strict = true;
  for (int i = 0; i < 60; ++i) {
    format.tools.push_back({.name = StrCat("t", i), .parameters = large});
  }
  ASSERT_FALSE(ToolCallsGrammar(ToSource(format)).ok());
  ASSERT_TRUE(Loosen(&format).ok());
  EXPECT_TRUE(ToolCallsGrammar(ToSource(format)).ok());
  EXPECT_EQ(format.tools[0].parameters.Dump(), Format(kTagged).tools[0].parameters.Dump());
  EXPECT_EQ(format.tools[60].parameters.Dump(), R"({"type":"object"})");

  ToolCallFormat long_one = Format(kTagged);
  long_one.tools[2].parameters =
      Json::Object{{"x-note", std::string(wire::kMaxOutputFormatBytes, 'x')}};
  ASSERT_TRUE(Loosen(&long_one).ok());
  EXPECT_TRUE(ToolCallsGrammar(ToSource(long_one)).ok());
}

TEST(ToolCalls, HaveSchemasWithoutAnnotations) {
  EXPECT_EQ(WithoutAnnotations(ParsedJson(R"({"title":"t","type":"object","description":"d",
      "properties":{"title":{"type":"string","examples":["x"],"enum":["description"]},
                    "description":{"items":{"default":1,"$ref":"#/$defs/a"}}},
      "required":["title"],"$defs":{"a":{"anyOf":[{"$comment":"c"},{"const":{"title":1}}]}},
      "additionalProperties":{"readOnly":true}})"))
                .Dump(),
            R"({"type":"object","properties":{"title":{"type":"string","enum":["description"]},)"
            R"("description":{"items":{"$ref":"#/$defs/a"}}},"required":["title"],)"
            R"("$defs":{"a":{"anyOf":[{},{"const":{"title":1}}]}},"additionalProperties":{}})");
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
  EXPECT_THAT(error("\"next\":\"", "\"next\":\"}\",\"nexts\":\""), HasSubstr("`next`"));
  EXPECT_THAT(error("\"middle\":\"", "\"middle\":\"" + kMark), HasSubstr("half a special token"));
  EXPECT_THAT(error("\"required\":false", "\"required\":0"), HasSubstr("`required`"));
  EXPECT_THAT(error("\"tools\":\\[", "\"tools\":[0,"), HasSubstr("`tools`"));
  EXPECT_THAT(error("\"name\":\"any\"", "\"name\":\"add\""), HasSubstr("different"));
  EXPECT_THAT(error("\"name\":\"any\"", "\"name\":\"a\\\"b\""), HasSubstr("names"));
  const auto error_of = [&](const std::string& parameters) {
    ToolCallFormat format = Format(kTagged);
    format.tools[2].parameters = ParsedJson(parameters);
    std::string message = Message(ToolCallsGrammar(ToSource(format)).status());
    format.tools[2].is_strict = true;
    EXPECT_EQ(message, Message(Loosen(&format)));
    format.tools[2].is_strict = false;
    EXPECT_TRUE(Loosen(&format).ok());
    EXPECT_EQ(format.tools[2].parameters.Dump(), R"({"type":"object"})");
    EXPECT_NE(format.tools[0].parameters.Dump(), R"({"type":"object"})");
    return message;
  };
  EXPECT_THAT(error_of(R"({"type":"string"})"), HasSubstr("#: `type` must be \"object\""));
  EXPECT_THAT(error_of("true"), HasSubstr("#: it must be an object, not a boolean"));
  EXPECT_THAT(error_of(R"({"not":{"type":"object"}})"), HasSubstr("#: `not` is not supported"));
  EXPECT_THAT(error("\"middle\"", "\"text_schema\":3,\"middle\""), HasSubstr("schema"));
  EXPECT_FALSE(ToolCallsGrammar("{}").ok());
  EXPECT_FALSE(ToolCallsGrammar("[").ok());

  ToolCallFormat bare = Format(kBare);
  bare.text_schema = Json(true);
  EXPECT_THAT(Message(ToolCallsGrammar(ToSource(bare)).status()), HasSubstr("text_schema"));
  ToolCallFormat many = Format(kBare);
  many.tools.resize(kMaxTools + 1, many.tools[0]);
  EXPECT_THAT(Message(ToolCallsGrammar(ToSource(many)).status()), HasSubstr("`tools`"));
}

}  // namespace
}  // namespace aril::grammar
