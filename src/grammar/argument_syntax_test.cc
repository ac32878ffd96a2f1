#include "grammar/argument_syntax.h"

#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"
#include "grammar/test_support.h"
#include "grammar/tool_calls.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As Qwen 3.5 and Qwen 3 Coder.
const ToolCallSyntax kElements = {
    .begin = "<call>\n<function=",
    .middle = ">\n",
    .next = "</function>\n</call>\n<call>\n<function=",
    .end = "</function>\n</call>",
    .marker = "<call>",
    .argument = ArgumentSyntax{.begin = "<parameter=", .middle = ">\n", .end = "\n</parameter>\n"}};

Json ParsedJson(const std::string& text) {
  auto json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << text << json.status();
  return json.value_or(Json());
}

// Of one tool, `f`.
ToolCallFormat Format(const std::string& parameters, bool is_strict = false) {
  return {.syntax = kElements,
          .tools = {{.name = "f", .parameters = ParsedJson(parameters), .is_strict = is_strict}}};
}
std::string WithProperties(const std::string& properties, const std::string& required = "") {
  return StrCat(R"({"type":"object","properties":{)", properties, R"(},"required":[)", required,
                R"(],"additionalProperties":false})");
}

std::string Call(const std::string& arguments) {
  return StrCat("<call>\n<function=f>\n", arguments, "</function>\n</call>");
}
std::string Argument(const std::string& name, const std::string& value) {
  return StrCat("<parameter=", name, ">\n", value, "\n</parameter>\n");
}

// As the server asks for it: what cannot be kept to is loosened.
void Check(ToolCallFormat format, const std::vector<std::string>& accepted,
           const std::vector<std::string>& refused) {
  const Status loosened = Loosen(&format);
  EXPECT_TRUE(loosened.ok()) << loosened;
  auto grammar =
      Compile({.kind = wire::OutputFormat::Kind::kToolCalls, .source = ToSource(format)});
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  Automaton automaton(*std::move(grammar));
  for (const std::string& arguments : accepted) {
    EXPECT_TRUE(Accepts(automaton, Call(arguments))) << arguments;
  }
  for (const std::string& arguments : refused) {
    EXPECT_FALSE(Accepts(automaton, Call(arguments))) << arguments;
  }
}

TEST(ArgumentSyntax, HasStringsAsTheyAreAndTheRestAsJson) {
  const std::string city = Argument("city", "Paris");
  Check(Format(WithProperties(R"("city":{"type":"string"},"days":{"type":"integer"},
                                 "deep":{"type":"object","properties":{"x":{"type":"string"}}})",
                              R"("city")")),
        {city, city + Argument("days", "-3"), city + Argument("deep", R"({"x": "<y>\n"})"),
         city + Argument("days", "1") + Argument("deep", "{}"), Argument("city", ""),
         Argument("city", "\n\n"), Argument("city", "say \"<b>\", </parameter> \\n\tand\n{1: 2}"),
         Argument("city", "7"), Argument("city", "<parameter=days>\n1")},
        {"", Argument("days", "1"), Argument("days", "1") + city, city + city,
         city + Argument("days", "many"), city + Argument("days", "\"1\""),
         city + Argument("days", "true"), city + Argument("deep", R"({"x": 1})"),
         city + Argument("other", "1"), "<parameter=city>\nParis</parameter>\n",
         "<parameter=city>Paris\n</parameter>\n", "\n" + city, R"({"city": "Paris"})"});
}

TEST(ArgumentSyntax, KnowsTheStringsThatMayBe) {
  // As Pydantic writes an optional enumeration.
  Check(Format(R"({"type":"object","$defs":{"Unit":{"enum":["C","F"],"type":"string"}},
                   "properties":{"unit":{"anyOf":[{"$ref":"#/$defs/Unit"},{"type":"null"}]},
                                 "mode":{"const":"fast"},"any":{"type":["string","null"]},
                                 "mixed":{"enum":["a",1,null],"type":["string","integer"]}},
                   "required":["unit"]})"),
        {Argument("unit", "C"), Argument("unit", "null"),
         Argument("unit", "F") + Argument("mode", "fast") + Argument("any", "what\never"),
         Argument("unit", "F") + Argument("mixed", "a"),
         Argument("unit", "F") + Argument("mixed", "1")},
        {Argument("unit", "K"), Argument("unit", "\"C\""), Argument("unit", ""),
         Argument("unit", "C") + Argument("mode", "slow"),
         Argument("unit", "F") + Argument("mixed", "null")});
}

// What a schema of arguments refers to as its root is an object like any other.
TEST(ArgumentSyntax, HasJsonInJson) {
  Check(Format(WithProperties(R"("name":{"type":"string"},"inner":{"$ref":"#"})", R"("name")")),
        {Argument("name", "a"), Argument("name", "a") + Argument("inner", R"({"name": "b"})"),
         Argument("name", "a") + Argument("inner", R"({"name": "b", "inner": {"name": ""}})")},
        {Argument("inner", R"({"name": "b"})"), Argument("name", "a") + Argument("inner", "{}"),
         Argument("name", "a") + Argument("inner", Argument("name", "b"))});
}

TEST(ArgumentSyntax, MayTakeAnything) {
  const std::vector<std::string> anything = {"", Argument("a", "1"),
                                             Argument("a", "x y") + Argument("<b c>", "{\n}"),
                                             Argument("a", "1") + Argument("a", "2")};
  for (const char* schema :
       {"{}", R"({"type":"object"})",
        // What cannot be kept to.
        R"({"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}})",
        R"({"anyOf":[{"type":"object"}]})", R"({"properties":{"a>\nb":{}},"required":["a>\nb"]})",
        R"({"properties":{"a":{"enum":["\n</parameter>\n"]}}})",
        R"({"properties":{"a":{"$ref":"#/$defs/none","type":"string"}},"required":["a"]})"}) {
    SCOPED_TRACE(schema);
    Check(Format(schema), anything, {"x", Argument("a", "1") + "\n", "<parameter=a>\n</function>"});
  }
  Check(Format(R"({"type":"object","properties":{"a":{"type":"integer"}},
                   "additionalProperties":{"type":"boolean"}})"),
        {"", Argument("a", "1") + Argument("b", "true"), Argument("b", "false")},
        {Argument("b", "1"), Argument("a", "true") + Argument("a", "1")});
  Check(Format(WithProperties("")), {""}, {Argument("a", "1")});
  Check(Format(WithProperties(R"("a":false,"b":true)")), {"", Argument("b", "x")},
        {Argument("a", "x")});
}

TEST(ArgumentSyntax, PassesOverWhatIsSaidOfTexts) {
  const std::string schema =
      WithProperties(R"("id":{"type":"string","pattern":"^[0-9]+$","minLength":3})", R"("id")");
  Check(Format(schema), {Argument("id", "007"), Argument("id", "x")}, {""});
}

TEST(ArgumentSyntax, RefusesWhatIsStrictAndCannotBeKeptTo) {
  const auto error = [](const std::string& schema) {
    ToolCallFormat format = Format(schema, /*is_strict=*/true);
    return Message(Loosen(&format));
  };
  EXPECT_EQ(error(WithProperties(R"("id":{"type":"string"},"n":{"type":["string","null"]},
                                    "u":{"anyOf":[{"enum":["a"]},{"type":"null"}]},
                                    "k":{"type":"integer","minimum":1})",
                                 R"("id","n","u","k")")),
            "");
  EXPECT_EQ(error(WithProperties(R"("id":{"type":"string","pattern":"^[0-9]+$"})")),
            "f: #/properties/id: `pattern` cannot be kept to where this model writes strings as "
            "they are, without quotes around them; leave it out");
  EXPECT_THAT(error(WithProperties(R"("a":{"anyOf":[{"type":"string","maxLength":3},
                                           {"type":"null"}]})")),
              HasSubstr("#/properties/a/anyOf/0: `maxLength` cannot be kept to"));
  EXPECT_THAT(error(WithProperties(R"("a/b":{"type":["string","integer"]})")),
              HasSubstr("#/properties/a~1b: what is a string or something else"));
  EXPECT_THAT(error(WithProperties(R"("a":{})")), HasSubstr("give it one `type`"));
  EXPECT_THAT(error(R"({"type":"object","properties":{},"additionalProperties":true})"),
              HasSubstr("#: `additionalProperties` must be false"));
  EXPECT_THAT(error(R"({"type":"object"})"), HasSubstr("`additionalProperties` must be false"));
  for (const char* schema : {R"("a":{"oneOf":[{"enum":["a","b"]},{"enum":["b","c"]}]})",
                             R"("a":{"type":"string","enum":["a","b"],"allOf":[{"enum":["a"]}]})",
                             R"("a":{"type":"string","enum":["a","b"],"const":"c"})",
                             R"("a":{"type":"string","enum":{"a":1}})"}) {
    EXPECT_NE(error(WithProperties(schema)), "") << schema;
  }
  EXPECT_THAT(error(R"({"type":"object","oneOf":[{}]})"), HasSubstr("#: `oneOf` is not supported"));
  EXPECT_THAT(error(WithProperties(R"("a":{"enum":["x\n</parameter>\n"]})")),
              HasSubstr("cannot be the value of an argument"));
  EXPECT_THAT(error(WithProperties(R"("a>\n":{"type":"integer"})")),
              HasSubstr("cannot be the name of an argument"));
}

TEST(ArgumentSyntax, KnowsWhatNeedsNoArguments) {
  for (const char* schema : {R"({"type":"object","additionalProperties":false})",
                             R"({"type":"object","properties":{}})"}) {
    ToolCallFormat format = Format(schema, /*is_strict=*/true);
    EXPECT_EQ(Message(Loosen(&format)), "");
    Check(format, {""}, {Argument("a", "1")});
  }
}

TEST(ArgumentSyntax, TakesPythonsWordsForWhatHasNoQuotes) {
  Check(Format(WithProperties(R"("a":{"type":"boolean"},"b":{"type":["integer","null"]},
                                 "c":{"const":true})")),
        {Argument("a", "true"), Argument("a", "True") + Argument("b", "None"),
         Argument("b", "null") + Argument("c", "true")},
        {Argument("a", "None"), Argument("b", "True"), Argument("c", "True")});
}

// However deep, and in a circle.
TEST(ArgumentSyntax, TakesNoAlternativesWithoutEnd) {
  // Of 30 to the power of 8 ways to a string.
  Json::Object schemas = {{"A8", Json::Object{{"type", "string"}}}};
  for (int i = 7; i >= 0; --i) {
    const Json next = Json::Object{{"$ref", StrCat("#/$defs/A", i + 1)}};
    schemas.emplace_back(StrCat("A", i), Json::Object{{"anyOf", Json::Array(30, next)}});
  }
  ToolCallFormat wide = Format("{}");
  wide.tools[0].parameters =
      Json::Object{{"type", "object"},
                   {"$defs", std::move(schemas)},
                   {"properties", Json::Object{{"a", Json::Object{{"$ref", "#/$defs/A0"}}}}}};
  Check(wide, {"", Argument("a", "x")}, {});
  const std::string circle =
      R"({"type":"object","$defs":{"A":{"anyOf":[{"$ref":"#/$defs/A"},{"type":"string"}]}},
          "properties":{"a":{"$ref":"#/$defs/A"}},"required":["a"],"additionalProperties":false})";
  ToolCallFormat format = Format(circle, /*is_strict=*/true);
  EXPECT_FALSE(Loosen(&format).ok());
  Check(Format(circle), {Argument("a", "x")}, {""});
}

TEST(ArgumentSyntax, TakesSpecialTokens) {
  const std::string mark(kSpecialTokenMark);
  const auto special = [&](const std::string& token) { return StrCat(mark, token, mark); };
  ToolCallFormat format =
      Format(WithProperties(R"("a":{"type":"string"},"b":{"type":"boolean"})", R"("a")"));
  format.syntax = {
      .begin = special("<call>"),
      .middle = "\n",
      .next = std::nullopt,
      .end = special("</call>"),
      .marker = special("<call>"),
      .argument = ArgumentSyntax{.begin = special("<key>"),
                                 .middle = special("</key>") + "\n" + special("<value>"),
                                 .end = special("</value>") + "\n"}};
  auto grammar =
      Compile({.kind = wire::OutputFormat::Kind::kToolCalls, .source = ToSource(format)});
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  Automaton automaton(*std::move(grammar));
  const auto call = [&](const std::string& value) {
    return WithSpecialBytes(StrCat(special("<call>"), "f\n", special("<key>"), "a",
                                   special("</key>"), "\n", special("<value>"), value,
                                   special("</value>"), "\n", special("</call>")));
  };
  EXPECT_TRUE(Accepts(automaton, call("x < y")));
  EXPECT_TRUE(Accepts(automaton, call("")));
  EXPECT_FALSE(Accepts(automaton, call(special("<other>")))) << "it would be in nobody's string";
  EXPECT_FALSE(Accepts(automaton, call("</value>\n"))) << "whoever reads it takes it for the end";
}

TEST(ArgumentSyntax, IsRefusedWhereItCannotBeRead) {
  const auto error = [](const ArgumentSyntax& argument) {
    ToolCallSyntax syntax = kElements;
    syntax.argument = argument;
    return Message(CheckSyntax(syntax));
  };
  EXPECT_EQ(error(*kElements.argument), "");
  const std::string mark(kSpecialTokenMark);
  EXPECT_THAT(error({.begin = "<p=", .middle = "", .end = "</p>\n"}), HasSubstr("is empty"));
  EXPECT_THAT(error({.begin = "<p=", .middle = ">", .end = ""}), HasSubstr("is empty"));
  EXPECT_THAT(error({.begin = "<p=", .middle = ">", .end = "\n" + mark + "</p>" + mark}),
              HasSubstr("does not begin with its special token"));
  EXPECT_THAT(error({.begin = "<p=", .middle = ">", .end = "</p>"}), HasSubstr("could be in JSON"));
  EXPECT_THAT(error({.begin = "", .middle = ">", .end = "</p>\n"}), HasSubstr("is nothing"));
  EXPECT_THAT(error({.begin = "</f", .middle = ">", .end = "</p>\n"}), HasSubstr("may end a call"));
  EXPECT_THAT(error({.begin = "<p" + mark, .middle = ">", .end = "</p>\n"}),
              HasSubstr("half a special token"));
}

// An older process that knows of objects only is not to take one for a call's arguments.
TEST(ArgumentSyntax, HasNoMiddleInItsSource) {
  const Json source = ParsedJson(ToSource(Format("{}")));
  EXPECT_EQ(source.Find("middle"), nullptr);
  EXPECT_NE(source.Find("argument"), nullptr);
}

TEST(ArgumentTypes, AreThoseOfTheSchema) {
  const ArgumentTypes types(ParsedJson(
      R"({"$defs":{"D":{"type":"array"},"S":{"type":"string"}},
          "properties":{"s":{"type":"string"},"n":{"type":["number","null"]},"any":{},"e":{"enum":["a",null]},
                        "d":{"$ref":"#/$defs/D"},"o":{"anyOf":[{"type":"string","enum":["None","x"]},{"type":"null"}]},
                        "all":{"allOf":[{"$ref":"#/$defs/S"}]},"implied":{"properties":{"a":{}}},
                        "odd":7},
          "additionalProperties":{"type":"boolean"}})"));
  EXPECT_EQ(types.Of("s").types, kString);
  EXPECT_EQ(types.Of("n").types, kNumber | kNull);
  EXPECT_EQ(types.Of("any").types, kAllTypes);
  EXPECT_EQ(types.Of("e").types, kString | kNull);
  EXPECT_THAT(types.Of("e").words, ElementsAre("a"));
  EXPECT_EQ(types.Of("d").types, kArray);
  EXPECT_EQ(types.Of("o").types, kString | kNull);
  EXPECT_THAT(types.Of("o").words, ElementsAre("None", "x"));
  EXPECT_EQ(types.Of("all").types, kString);
  EXPECT_EQ(types.Of("implied").types, kObject);
  EXPECT_EQ(types.Of("odd").types, kAllTypes);
  EXPECT_EQ(types.Of("other").types, kBoolean);
  EXPECT_EQ(ArgumentTypes().Of("s").types, kAllTypes);
  EXPECT_EQ(ArgumentTypes(Json("no schema")).Of("s").types, kAllTypes);
}

// However many arguments name however many: each would keep them all.
TEST(ArgumentTypes, KeepNoMoreWordsThanSomeThousands) {
  Json::Array names;
  for (int i = 0; i < 5'000; ++i) names.emplace_back(StrCat("word", i));
  Json::Object properties;
  for (int i = 0; i < 5'000; ++i) {
    const Json choice =
        Json::Array{Json::Object{{"$ref", "#/$defs/E"}}, Json::Object{{"type", "null"}}};
    properties.emplace_back(StrCat("p", i), Json::Object{{"anyOf", choice}});
  }
  const ArgumentTypes types(
      Json::Object{{"$defs", Json::Object{{"E", Json::Object{{"enum", std::move(names)}}}}},
                   {"properties", std::move(properties)}});
  size_t num_words = 0;
  for (int i = 0; i < 5'000; ++i) {
    EXPECT_EQ(types.Of(StrCat("p", i)).types, kString | kNull);
    num_words += types.Of(StrCat("p", i)).words.size();
  }
  EXPECT_LE(num_words, 4'000u);
}

}  // namespace
}  // namespace aril::grammar
