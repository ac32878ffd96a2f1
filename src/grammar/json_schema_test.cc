#include "grammar/json_schema.h"

#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "grammar/automaton.h"
#include "grammar/test_support.h"
#include "gtest/gtest.h"

namespace aril::grammar {
namespace {

struct Case {
  std::string schema;
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

void Check(const std::vector<Case>& cases) {
  for (const Case& test : cases) {
    SCOPED_TRACE(test.schema);
    auto grammar = JsonSchemaGrammar(test.schema);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    Automaton automaton(*std::move(grammar));
    for (const std::string& text : test.accepted) EXPECT_TRUE(Accepts(automaton, text)) << text;
    for (const std::string& text : test.refused) EXPECT_FALSE(Accepts(automaton, text)) << text;
    EXPECT_TRUE(Automaton::IsState(automaton.start()));
  }
}

TEST(JsonSchema, Types) {
  Check({
      {R"({"type":"null"})", {"null"}, {"", " null", "null ", "nul", "0", "\"null\""}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "True", "1"}},
      {R"({"type":"integer"})",
       {"0", "7", "-12", "12345678901234567"},
       {"", "-", "-0", "01", "1.0", "1e3", "+1", "123456789012345678", "\"1\""}},
      {R"({"type":"number"})",
       {"0", "-0.5", "1.25", "10E+3", "1e-5", "-12e07", "0.0"},
       {"", ".5", "1.", "01", "1e", "1e123", "NaN", "Infinity", "--1", "0x1"}},
      {R"({"type":["integer","null"]})", {"1", "null"}, {"1.5", "true", "[]"}},
      {R"({"type":["number","integer"]})", {"1", "1.5"}, {"null"}},
      {R"({"type":"string"})", {R"("")", R"("a")"}, {"a", "\"", "\"a\"b\"", "null"}},
  });
}

TEST(JsonSchema, AnyValue) {
  const std::vector<std::string> accepted = {"null",
                                             "-1.5e2",
                                             R"("x")",
                                             "[]",
                                             "{}",
                                             "[ ]",
                                             R"([1, "a", [], {}, null, true])",
                                             R"({"a": {"b": [1,2]}, "\"\\\n": false})",
                                             "[\n  1,\n  2\n]",
                                             "{\r\n\t\"a\": 1\r\n}"};
  const std::vector<std::string> refused = {
      "",       " 1",       "1 ",        "[1,]",        "[,1]",       "[1 2]",
      "{a: 1}", R"({"a"})", R"({"a":})", R"({"a":1,})", "{]",         "[1",
      "[  1]",  "[1 ,2]",   "[\n\n1]",   "[1,\t2]",     R"({"a" :1})"};
  for (const char* schema : {"{}", "true", R"({"description":"x","default":1})",
                             R"({"$ref":"#/$defs/a","$defs":{"a":true}})"}) {
    Check({{schema, accepted, refused}});
  }
  Check({{R"({"type":"object"})",
          {"{}", "{ }", R"({"a":1})", R"({"a":{"a":[]},"b":null})"},
          {"[]", "1", R"({"a":1)"}}});
  Check({{R"({"type":"array"})", {"[]", "[[1],2]"}, {"{}", "1", "[1"}}});
}

TEST(JsonSchema, CharactersOfStrings) {
  Check({{R"({"type":"string"})",
          {"\"\x7F\u00e9\u20ac\U0001F600\"", R"("\"\\\/\b\f\n\r\t")",
           R"("\u0041\uD83D\ude00\uFFff")", R"("\u0000\ud7FF\ue000\uabcd\uDBFF\uDFFF")"},
          {"\"\n\"", "\"\x1F\"", R"("\a")", R"("\u12")", R"("\u12G4")", R"("\ud83d")",
           R"("\ude00")", R"("\ud83dx")", R"("\ud83d\u0041")", R"("\ud83d\ud83d")", "\"\x80\"",
           "\"\xC0\xAF\"", "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xE2\x82\"", R"("\")"}}});
}

TEST(JsonSchema, LengthsCountCharacters) {
  Check({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("abc")", "\"\U0001F600\u00e9\"", R"("\ud83d\ude00\n")"},
       {R"("")", R"("a")", R"("abcd")", R"("\ud83d\ude00")", "\"\u00e9\""}},
      {R"({"type":"string","maxLength":0})", {R"("")"}, {R"("a")"}},
      {R"({"type":"string","minLength":1})", {R"("a")", R"("abcdefgh")"}, {R"("")"}},
      {R"({"type":"string","maxLength":2.0})", {R"("ab")"}, {R"("abc")"}},
      {R"({"minLength":1})", {R"("a")"}, {R"("")", "1"}},
      {StrCat(R"({"type":"string","minLength":5000,"maxLength":5000})"),
       {StrCat('"', std::string(5000, 'x'), '"')},
       {StrCat('"', std::string(4999, 'x'), '"'), StrCat('"', std::string(5001, 'x'), '"')}},
  });
}

TEST(JsonSchema, Patterns) {
  Check({
      {R"({"type":"string","pattern":"^[a-z]+$"})", {R"("abc")"}, {R"("")", R"("aBc")", "\"a"}},
      {R"({"type":"string","pattern":"b"})", {R"("b")", R"("abc")", R"("\nb\"")"}, {R"("ac")"}},
      {R"({"type":"string","pattern":"^\"\\\\/\\n\\x01$"})",
       {R"("\"\\/\n\u0001")"},
       {R"(""\/n")", R"("\"\\/n\u0001")"}},
      {R"({"pattern":"^.{2}$"})", {"\"\u00e9\U0001F600\"", R"("\"\\")"}, {R"("\n\n")", R"("a")"}},
      // A format beside a pattern, or a length, is an annotation.
      {R"({"type":"string","pattern":"^x$","format":"date"})", {R"("x")"}, {R"("2020-01-01")"}},
      {R"({"type":"string","format":"uri","minLength":1,"maxLength":3})", {R"("x")"}, {R"("")"}},
  });
}

TEST(JsonSchema, Formats) {
  const auto schema = [](const char* format) {
    return StrCat(R"({"type":"string","format":")", format, "\"}");
  };
  Check({
      {schema("date"),
       {R"("2024-02-29")", R"("2000-02-29")", R"("1999-12-31")", R"("2023-04-30")"},
       {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("2023-13-01")",
        R"("2023-00-01")", R"("2023-01-00")", R"("23-01-01")", R"("2023-1-1")"}},
      {schema("time"),
       {R"("23:59:59Z")", R"("00:00:00.123456+05:30")"},
       {R"("24:00:00Z")", R"("12:60:00Z")", R"("12:00:00")", R"("12:00Z")"}},
      {schema("date-time"),
       {R"("2024-02-29T12:00:00Z")", R"("2024-01-01T00:00:00.5-11:00")"},
       {R"("2024-01-01")", R"("2024-01-01 00:00:00Z")", R"("2023-02-29T12:00:00Z")"}},
      {schema("duration"),
       {R"("P1D")", R"("PT5M")", R"("P1Y2M3DT4H5M6S")", R"("P2W")", R"("P3DT12H")"},
       {R"("P")", R"("PT")", R"("P1DT")", R"("P1H")", R"("P1Y3D")", R"("P1W2D")"}},
      {schema("uuid"),
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567e89b12d3a456426614174000")", R"("123e4567-e89b-12d3-a456-42661417400g")"}},
      {schema("email"),
       {R"("a@b.de")", R"("john.doe+x@mail.example.com")"},
       {R"("a")", R"("a@")", R"("@b.de")", R"("a..b@c.de")", R"("a@-b.de")", R"("a b@c.de")"}},
      {schema("ipv4"),
       {R"("0.0.0.0")", R"("255.249.199.9")"},
       {R"("256.0.0.1")", R"("01.0.0.1")", R"("1.2.3")", R"("1.2.3.4.5")"}},
      {schema("ipv6"),
       {R"("::")", R"("::1")", R"("fe80::1:2")", R"("1:2:3:4:5:6:7:8")", R"("1::")"},
       {R"(":1")", R"("1:2")", R"("1::2::3")", R"("1:2:3:4:5:6:7:8:9")", R"("12345::")"}},
      {schema("hostname"), {R"("a")", R"("www.example.com")"}, {R"("")", R"("-a")", R"("a..b")"}},
      {schema("uri"),
       {R"("https://example.com")", R"("http://a.b:8080/c/d?e=f&g#h")"},
       {R"("example.com")", R"("https://")", R"("https://a b")", R"("https://a/%zz")"}},
      {schema("no-such-format"), {R"("anything")"}, {"1"}},
      {R"({"format":"ipv4"})", {R"("1.2.3.4")"}, {R"("x")"}},
      {R"({"format":"int32"})", {"1", "{}"}, {}},
  });
}

TEST(JsonSchema, Constants) {
  Check({
      {R"({"const":"a\"\n/é"})", {"\"a\\\"\\n/é\""}, {R"("a")", "\"a\\\"\\n/é"}},
      {R"({"enum":["a","ab","b",1,1.5,null,true]})",
       {R"("a")", R"("ab")", R"("b")", "1", "1.5", "null", "true"},
       {R"("c")", "2", "false", "1.", "\"a"}},
      {R"({"enum":["a",1,null],"type":"string"})", {R"("a")"}, {"1", "null"}},
      {R"({"enum":[1.0,1.5,"a"],"type":"integer"})", {"1.0"}, {"1.5", "1"}},
      {R"({"const":"a","enum":["a"],"type":"string"})", {R"("a")"}, {}},
      {R"({"const":1,"enum":[2,1.0]})", {"1.0"}, {"2"}},
      {R"({"const":{"a":[1,{}],"b":[]}})",
       {R"({"a":[1,{}],"b":[]})", R"({"a": [1, {}], "b": []})",
        "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}"},
       {R"({"b":[],"a":[1,{}]})", R"({"a":[1,{}]})"}},
      {R"({"enum":[[],[1],{"a":1}]})", {"[]", "[1]", R"({"a":1})"}, {"[2]", "{}"}},
      {R"({"const":null})", {"null"}, {""}},
  });
}

TEST(JsonSchema, Properties) {
  const std::string abc = R"("properties":{"a":{"type":"integer"},"b":{"type":"null"},
                             "c":{"type":"boolean"}})";
  Check({
      {StrCat(R"({"type":"object",)", abc, R"(,"required":["a","b","c"]})"),
       {R"({"a":1,"b":null,"c":true})", R"({ "a": 1, "b": null, "c": true })",
        "{\n  \"a\": 1,\n  \"b\": null,\n  \"c\": false\n}"},
       {"{}", R"({"a":1,"b":null})", R"({"b":null,"a":1,"c":true})",
        R"({"a":1,"b":null,"c":true,"d":1})", R"({"a":1,"b":null,"c":true,})",
        R"({"a":1 "b":null,"c":true})", R"({"a":1,"a":1,"b":null,"c":true})"}},
      {StrCat("{", abc, "}"),
       {"{}", "{ }", R"({"a":1})", R"({"b":null})", R"({"c":true})", R"({"a":1,"b":null})",
        R"({"a":1,"c":true})", R"({"b":null,"c":true})", R"({"a":1,"b":null,"c":true})"},
       {R"({,"a":1})", R"({"a":1,})", R"({"b":null,"a":1})", R"({"d":1})", "[]"}},
      {StrCat("{", abc, R"(,"required":["b"]})"),
       {R"({"b":null})", R"({"a":1,"b":null})", R"({"b":null,"c":true})",
        R"({"a":1,"b":null,"c":true})"},
       {"{}", R"({"a":1})", R"({"a":1,"c":true})", R"({"c":true})"}},
      {StrCat("{", abc, R"(,"required":["c"],"additionalProperties":false})"),
       {R"({"c":true})", R"({"a":1,"c":true})"},
       {"{}", R"({"c":true,"d":1})", R"({"a":1})"}},
      {R"({"type":"object","properties":{}})", {"{}"}, {R"({"a":1})"}},
      {R"({"type":"object","additionalProperties":false})", {"{}"}, {R"({"a":1})"}},
      {R"({"properties":{"a":false,"b":true}})", {"{}", R"({"b":[]})"}, {R"({"a":1})"}},
      {R"({"properties":{"a\"/~\n":{"const":1}}})", {R"({"a\"/~\n":1})"}, {R"({"a":1})"}},
      // Only objects have properties, so that a list of types needs no more than one of them.
      {R"({"type":["object","null"],"properties":{"a":{"const":1}},"required":["a"]})",
       {"null", R"({"a":1})"},
       {"{}"}},
  });
}

TEST(JsonSchema, AdditionalProperties) {
  Check({
      {R"({"type":"object","additionalProperties":{"type":"integer"}})",
       {"{}", R"({"a":1})", R"({"":0})", "{\"\u00e9\\n\\\"\": 1, \"b\": -2}"},
       {R"({"a":"x"})", R"({"a":1,})", R"({"\u0061":1})", R"({"\/":1})"}},
      {R"({"properties":{"a":{"type":"integer"},"ab":{"type":"null"},"\n":{"const":0}},
           "required":["ab"],"additionalProperties":{"type":"boolean"}})",
       {R"({"ab":null})", R"({"a":1,"ab":null,"\n":0})", R"({"ab":null,"abc":true})",
        R"({"ab":null,"":true,"b":false,"ac":true,"aab":true,"A":true,"\t":true})"},
       {R"({"ab":null,"a":true})", R"({"ab":null,"ab":true})", R"({"ab":null,"\n":true})",
        R"({"ab":null,"\u0061":true})", R"({"ab":null,"a\u0062":true})", R"({"x":true,"ab":null})",
        R"({"a":true,"ab":null})", R"({"ab":null,"\u000a":true})"}},
      {R"({"properties":{"/":{"const":1},"\u0001":{"const":1}},"additionalProperties":true})",
       {R"({"/":1,"\u0001":1})", R"({"x":{}})", R"({"\u0002":1})"},
       {R"({"/":2})", R"({"\/":2})", R"({"\u0001":2})"}},
      {R"({"properties":{"":{"const":1}},"additionalProperties":true})",
       {R"({"":1})", R"({"a":2})"},
       {R"({"":2})"}},
      {"{\"properties\":{\"\u00e9\":{\"const\":1}},\"additionalProperties\":true}",
       {"{\"\u00e9\":1,\"\u00e8\":2,\"\u00e9\u00e9\":2}"},
       {"{\"\u00e9\":2}", R"({"\u00e9":2})"}},
  });
}

TEST(JsonSchema, Arrays) {
  Check({
      {R"({"type":"array","items":{"type":"integer"}})",
       {"[]", "[1]", "[1,2]", "[1, 2, 3]", "[\n  1,\n  2\n]", "[ ]", "[ 1 ]"},
       {"[1,]", "[,]", R"(["a"])", "[1 2]"}},
      {R"({"items":{"const":1},"minItems":2,"maxItems":3})",
       {"[1,1]", "[1,1,1]"},
       {"[]", "[1]", "[1,1,1,1]"}},
      {R"({"items":{"const":1},"minItems":2})", {"[1,1]", "[1,1,1,1,1]"}, {"[]", "[1]"}},
      {R"({"items":{"const":1},"maxItems":1})", {"[]", "[1]"}, {"[1,1]"}},
      {R"({"items":{"const":1},"maxItems":0})", {"[]", "[ ]"}, {"[1]"}},
      {R"({"items":false})", {"[]"}, {"[1]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}]})",
       {"[]", "[1]", "[1,2]", "[1,2,{}]", "[1,2,3,4]"},
       {"[2]", "[1,1]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"items":false})",
       {"[]", "[1]", "[1,2]"},
       {"[1,2,3]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":3})",
       {"[1,2,3]", "[1,2,3,3,3]"},
       {"[1,2]", "[1,2,1]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"minItems":2,"maxItems":2})",
       {"[1,2]", "[1, 2]"},
       {"[1]", "[1,2,3]"}},
      {R"({"prefixItems":[{"const":1},{"const":2}],"maxItems":1})", {"[]", "[1]"}, {"[1,2]"}},
      {R"({"prefixItems":[{"const":1},false,{"const":1}]})", {"[]", "[1]"}, {"[1,1]"}},
      {R"({"items":{"type":"array","items":{"type":"null"}},"uniqueItems":false})",
       {"[[],[null]]"},
       {"[null]"}},
  });
}

TEST(JsonSchema, AlternativesAndReferences) {
  Check({
      {R"({"anyOf":[{"type":"integer"},{"type":"null"}],"default":null,"title":"A"})",
       {"1", "null"},
       {"true"}},
      {R"({"type":["integer","null"],"anyOf":[{"type":"integer"},{"type":"null"}]})", {"1"}, {}},
      {R"({"anyOf":[{"type":"integer"},false]})", {"1"}, {"null"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string"},{"const":null}]})",
       {"1", R"("a")", "null"},
       {"true"}},
      {R"({"oneOf":[{"const":"a","title":"A"},{"enum":["b",1]}]})", {R"("a")", R"("b")"}, {}},
      {R"({"allOf":[{"$ref":"#/definitions/a"}],"default":1,"definitions":{"a":{"const":1}}})",
       {"1"},
       {"2"}},
      {R"({"$ref":"#/$defs/a~1b~0%25/anyOf/1","$defs":{"a/b~%":{"anyOf":[1,{"const":2}]}}})",
       {"2"},
       {"1"}},
      {R"({"properties":{"a":{"$ref":"#/properties/b"},"b":{"const":1}}})",
       {R"({"a":1,"b":1})"},
       {R"({"a":2})"}},
      // A property by which alternatives differ is always written.
      {R"({"oneOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"},{"type":"null"}],
           "$defs":{"A":{"type":"object","properties":{"k":{"const":"a"},"x":{"const":1}}},
                    "B":{"type":"object","properties":{"k":{"enum":["b","c"]}},"required":["k"]}}})",
       {R"({"k":"a"})", R"({"k":"a","x":1})", R"({"k":"b"})", R"({"k":"c"})", "null"},
       {"{}", R"({"x":1})", R"({"k":"b","x":1})"}},
  });
}

TEST(JsonSchema, Recursion) {
  Check({
      {R"({"type":"object","properties":{"v":{"type":"integer"},
           "next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","next"]})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
       {R"({"v":1})", R"({"v":1,"next":{"v":2}})"}},
      {R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"array","items":{"$ref":"#/$defs/t"}}}})",
       {"[]", "[[],[[]]]"},
       {"[1]", "[[]"}},
      // The alternative that never ends is left out.
      {R"({"anyOf":[{"$ref":"#/$defs/e"},{"const":1}],
           "$defs":{"e":{"properties":{"e":{"$ref":"#/$defs/e"}},"required":["e"]}}})",
       {"1"},
       {R"({"e":1})"}},
  });
}

TEST(JsonSchema, Refusals) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "JSON"},
      {"{", "JSON"},
      {"1", "#: a schema is an object or a boolean, not an integer"},
      {"false", "#: no text"},
      {R"({"properties":{"age":{"multipleOf":5}}})",
       "#/properties/age: `multipleOf` is not supported; leave it out"},
      {R"({"properties":{"a/b~c":{"not":{}}}})", "#/properties/a~1b~0c: `not`"},
      {R"({"items":{"uniqueItems":true}})", "#/items: `uniqueItems`"},
      {R"({"patternProperties":{"a":{}}})", "`patternProperties`"},
      {R"({"propertyNames":{"maxLength":1}})", "`propertyNames`"},
      {R"({"if":{},"then":{}})", "`if`"},
      {R"({"minProperties":1})", "`minProperties`"},
      {R"({"unevaluatedProperties":false})", "`unevaluatedProperties`"},
      {R"({"dependentRequired":{"a":["b"]}})", "`dependentRequired`"},
      {R"({"contains":{}})", "`contains`"},
      {R"({"$dynamicRef":"#a"})", "`$dynamicRef`"},
      {R"({"items":{"$id":"x"}})", "#/items: `$id`"},
      {R"({"type":"strin"})", "#: `type` must be null, boolean"},
      {R"({"type":5})", "`type` must be a name or a list of names, not an integer"},
      {R"({"type":[]})", "`type` names no type"},
      {R"({"properties":[]})", "`properties` must be an object"},
      {R"({"properties":{"a":1}})", "#/properties/a: a schema is"},
      {R"({"properties":{"a":{}},"required":["b"]})",
       "`required` has \"b\", which `properties` does not have"},
      {R"({"required":["b"]})", "`required` has \"b\""},
      {R"({"required":"b"})", "`required` must be a list"},
      {R"({"properties":{"a":false},"required":["a"]})", "no text of finite length"},
      {R"({"items":false,"minItems":1})", "no text of finite length"},
      {R"({"properties":{"a":{"$ref":"#"}},"required":["a"]})", "no text of finite length"},
      {R"({"items":[{}]})", "`items` must be a schema"},
      {R"({"prefixItems":{}})", "`prefixItems` must be a list"},
      {R"({"minItems":2,"maxItems":1})", "`maxItems` is less than `minItems`"},
      {R"({"minItems":-1})", "`minItems` must be a whole number"},
      {R"({"minLength":1.5})", "`minLength` must be a whole number"},
      {R"({"minLength":2,"maxLength":1})", "`maxLength` is less than `minLength`"},
      {R"({"pattern":"a","maxLength":1})", "`pattern` beside `minLength` or `maxLength`"},
      {R"({"pattern":1})", "`pattern` must be a string"},
      {R"({"pattern":"("})", "`pattern`: "},
      {R"x({"pattern":"(?=a)"})x", "`pattern`: "},
      {R"({"minimum":"1"})", "`minimum` must be a number"},
      {R"({"exclusiveMinimum":true})", "`exclusiveMinimum` must be a number"},
      {R"({"type":"integer","minimum":2,"maximum":1})", "#: no whole number"},
      {R"({"type":"number","exclusiveMinimum":1,"maximum":1})", "#: no number"},
      {R"({"enum":[]})", "none of its values"},
      {R"({"enum":{}})", "`enum` must be a list"},
      {R"({"const":1,"type":"string"})", "none of its values"},
      {R"({"enum":["a"],"minLength":1})", "`minLength` beside `enum`"},
      {R"({"anyOf":[]})", "`anyOf` must be a list"},
      {R"({"anyOf":[{}],"properties":{}})", "`properties` beside `anyOf`"},
      {R"({"anyOf":[{"type":"null"}],"type":"string"})", "`type` beside `anyOf`"},
      {R"({"allOf":[{},{}]})", "`allOf` of several"},
      {R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "use `anyOf`"},
      // What stands beside a reference counts.
      {R"({"oneOf":[{"$ref":"#/$defs/A","required":["x"]},{"$ref":"#/$defs/B"}],"$defs":{
           "A":{"type":"object","properties":{"k":{"const":"a"},"x":{"type":"integer"}}},
           "B":{"type":"object","properties":{"k":{"const":"b"}}}}})",
       "use `anyOf`"},
      {R"({"type":"integer","maximum":9223372036854775810})", "2^63"},
      {R"({"enum":[1,[12345678901234567890123]]})", "2^63"},
      {R"({"oneOf":[{"type":"integer"},{"const":1.0}]})", "use `anyOf`"},
      {R"({"oneOf":[{"const":1},{"const":1.0}]})", "use `anyOf`"},
      {R"({"oneOf":[{"properties":{"k":{"const":1}}},{"properties":{"k":{"const":2}}}]})",
       "use `anyOf`"},  // null is valid under both
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":1}}},
                    {"type":"object","properties":{"k":{"enum":[2,1]}}}]})",
       "use `anyOf`"},
      {R"({"$ref":"#/$defs/a"})", "`$ref` to \"#/$defs/a\" finds nothing"},
      {R"({"$ref":"other.json"})", "`$ref` to \"other.json\" is not supported"},
      {R"({"$ref":1})", "`$ref` must be a string"},
      {R"({"$ref":"#/$defs/a","minLength":1,"$defs":{"a":{}}})", "`minLength` beside `$ref`"},
      {R"({"$ref":"#"})", "#: it refers to itself"},
      {R"({"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"},{"const":1}]},
           "b":{"allOf":[{"$ref":"#/$defs/a"}]}}})",
       "it refers to itself"},
      {R"({"oneOf":[{"type":"null"},{"$ref":"#"}]})", "use `anyOf`"},
  };
  for (const auto& [schema, message] : cases) {
    const auto grammar = JsonSchemaGrammar(schema);
    ASSERT_FALSE(grammar.ok()) << schema;
    EXPECT_EQ(grammar.status().code(), StatusCode::kInvalidArgument) << grammar.status();
    EXPECT_NE(Message(grammar.status()).find(message), std::string::npos) << schema << "\n"
                                                                          << grammar.status();
  }
}

// To compare all properties of all alternatives would take a minute.
TEST(JsonSchema, LooksForTheDifferenceOfAlternativesWithinBounds) {
  std::string properties;
  for (int i = 0; i < 3000; ++i) properties += StrCat("\"p", i, "\":{},");
  const auto alternative = [&](const std::string& name) {
    return StrCat("\"", name, "\":{\"type\":\"object\",\"properties\":{", properties,
                  "\"k\":{\"const\":\"", name, "\"}}}");
  };
  std::string schema = StrCat("{", alternative("A"), ",", alternative("B"), ",\"properties\":{");
  for (int i = 0; i < 500; ++i) {
    schema += StrCat(i == 0 ? "" : ",", "\"q", i, R"(":{"oneOf":[{"$ref":"#/A"},{"$ref":"#/B"}]})");
  }
  const auto grammar = JsonSchemaGrammar(schema + "}}");
  EXPECT_THAT(Message(grammar.status()), testing::HasSubstr("use `anyOf`"));
}

}  // namespace
}  // namespace aril::grammar
