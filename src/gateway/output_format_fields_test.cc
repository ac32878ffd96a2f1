#include "gateway/output_format_fields.h"

#include "base/strings.h"
#include "gateway/test_support.h"
#include "gmock/gmock.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"
#include "gtest/gtest.h"
#include "wire/limits.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;
using Kind = wire::OutputFormat::Kind;

struct Read {
  wire::OutputFormat format;
  std::optional<ApiError> error;
};

// Of a request of these members.
Read ReadMembers(const std::string& members, int32_t min_tokens = 0) {
  const auto json = Json::Parse("{" + members + "}");
  EXPECT_TRUE(json.ok()) << json.status();
  if (!json.ok()) return {};
  JsonFields fields(*json);
  wire::SequenceRequest common = {.min_tokens = min_tokens};
  const std::string field = ReadOutputFormat(fields, Endpoint::kChat, &common);
  const ServedModel model = {.text = TextOfBytes()};
  if (fields.ok()) CheckOutputFormat(field, common.format, model, *model.text, fields);
  return {common.format, fields.error()};
}

TEST(OutputFormatFields, LeaveToOthersWhatIsWrongForNow) {
  const auto json = Json::Parse("{}");
  ServedModel model = {.text = TextOfBytes()};
  model.check_format = [](const wire::OutputFormat&) { return Unavailable("later"); };
  JsonFields fields(*json);
  CheckOutputFormat("guided_regex", {.kind = Kind::kRegex, .source = "a"}, model, *model.text,
                    fields);
  EXPECT_TRUE(fields.ok());
}

struct Good {
  const char* members;
  Kind kind;
  const char* source;
};

TEST(OutputFormatFields, TakeTheFormsOfOpenAiVllmAndLlamaServer) {
  const Good kCases[] = {
      {"", Kind::kText, ""},
      {R"("response_format":null,"structured_outputs":null,"guided_json":null)", Kind::kText, ""},
      {R"("response_format":{"type":"text"})", Kind::kText, ""},
      {R"("response_format":{"type":"text"},"guided_regex":"a")", Kind::kRegex, "a"},
      {R"("response_format":{"type":"json_object"})", Kind::kJsonSchema, R"({"type":"object"})"},
      {R"("response_format":{"type":"json_object","schema":null})", Kind::kJsonSchema,
       R"({"type":"object"})"},
      {R"("response_format":{"type":"json_object","schema":{"type": "null"}})", Kind::kJsonSchema,
       R"({"type":"null"})"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"a_B-9","strict":true,
          "description":"d","schema":{"type":"integer"}}})",
       Kind::kJsonSchema, R"({"type":"integer"})"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":null,
          "later":1,"schema":{}}})",
       Kind::kJsonSchema, "{}"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":false,
          "schema":{"type":"boolean"}}})",
       Kind::kJsonSchema, R"({"type":"boolean"})"},
      {R"("structured_outputs":{"json":{"type":"null"}})", Kind::kJsonSchema, R"({"type":"null"})"},
      {R"("structured_outputs":{"json":" {\"type\": \"null\"}"})", Kind::kJsonSchema,
       R"({"type":"null"})"},
      {R"("structured_outputs":{"regex":"[0-9]{3}"})", Kind::kRegex, "[0-9]{3}"},
      {R"("structured_outputs":{"regex":""})", Kind::kRegex, ""},
      {R"("structured_outputs":{"choice":["yes","no"]})", Kind::kRegex, "yes|no"},
      {R"("structured_outputs":{"json_object":true})", Kind::kJsonSchema, R"({"type":"object"})"},
      // As vLLM's own classes are dumped.
      {R"("structured_outputs":{"json":null,"regex":"a","choice":null,"grammar":null,
          "json_object":false,"disable_fallback":true,"disable_any_whitespace":false,
          "whitespace_pattern":null})",
       Kind::kRegex, "a"},
      {R"("guided_json":{"type":"null"})", Kind::kJsonSchema, R"({"type":"null"})"},
      {R"("guided_json":"{\"type\":\"null\"}")", Kind::kJsonSchema, R"({"type":"null"})"},
      {R"("guided_regex":"a|b","guided_decoding_backend":"x")", Kind::kRegex, "a|b"},
      {R"("guided_choice":["a.b"])", Kind::kRegex, R"(a\.b)"},
      {R"("json_schema":{"type":"null"})", Kind::kJsonSchema, R"({"type":"null"})"},
  };
  for (const Good& good : kCases) {
    const Read read = ReadMembers(good.members);
    EXPECT_FALSE(read.error) << good.members << ": " << read.error->message;
    EXPECT_EQ(read.format.kind, good.kind) << good.members;
    EXPECT_EQ(read.format.source, good.source) << good.members;
  }
}

struct Bad {
  const char* members;
  const char* param;
  const char* message;
};

void ExpectRefused(const Bad& bad) {
  const Read read = ReadMembers(bad.members);
  ASSERT_TRUE(read.error.has_value()) << bad.members;
  EXPECT_EQ(read.error->status, 400) << bad.members;
  EXPECT_EQ(read.error->param, bad.param) << bad.members;
  EXPECT_THAT(read.error->message, HasSubstr(bad.message)) << bad.members;
}

TEST(OutputFormatFields, RefuseOtherResponseFormats) {
  const Bad kCases[] = {
      {R"("response_format":"text")", "response_format", "must be an object whose type is"},
      {R"("response_format":{})", "response_format", "\"text\", \"json_object\" or"},
      {R"("response_format":{"type":5})", "response_format", "must be an object whose type is"},
      {R"("response_format":{"type":"grammar","grammar":"x"})", "response_format",
       "others are not supported"},
      {R"("response_format":{"type":"structural_tag"})", "response_format", "not supported"},
      {R"("response_format":{"type":"json_object","schema":"x"})", "response_format.schema",
       "must be an object, a JSON Schema, not a string"},
      {R"("response_format":{"type":"json_schema"})", "response_format.json_schema",
       "must be an object with name and schema"},
      {R"("response_format":{"type":"json_schema","json_schema":[]})",
       "response_format.json_schema", "must be an object"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":{}}})",
       "response_format.json_schema.name", "is required"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":7,"schema":{}}})",
       "response_format.json_schema.name", "must be a string"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}})",
       "response_format.json_schema.name", "characters a-z A-Z 0-9 _ -"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})",
       "response_format.json_schema.schema", "is required"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":null}})",
       "response_format.json_schema.schema", "is required"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":true}})",
       "response_format.json_schema.schema", "must be an object, a JSON Schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":1,
          "schema":{}}})",
       "response_format.json_schema.strict", "must be a boolean"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","description":1,
          "schema":{}}})",
       "response_format.json_schema.description", "must be a string"},
  };
  for (const Bad& bad : kCases) ExpectRefused(bad);
  const std::string long_name =
      StrCat(R"("response_format":{"type":"json_schema","json_schema":{"schema":{},"name":")",
             std::string(65, 'a'), R"("}})");
  ExpectRefused({long_name.c_str(), "response_format.json_schema.name", "1 to 64"});
}

TEST(OutputFormatFields, RefuseWhatVllmTakesBesides) {
  const Bad kCases[] = {
      {R"("structured_outputs":[])", "structured_outputs", "must be an object, not an array"},
      {R"("structured_outputs":{})", "structured_outputs", "must have one of json, regex"},
      {R"("structured_outputs":{"json_object":false})", "structured_outputs", "must have one of"},
      {R"("structured_outputs":{"json_object":1})", "structured_outputs.json_object",
       "must be a boolean"},
      {R"("structured_outputs":{"grammar":"x"})", "structured_outputs.grammar", "not supported"},
      {R"("structured_outputs":{"structural_tag":"x"})", "structured_outputs.structural_tag",
       "this server takes json, regex, choice or json_object"},
      {R"("structured_outputs":{"json":{},"whitespace_pattern":"x"})",
       "structured_outputs.whitespace_pattern", "not supported"},
      {R"("structured_outputs":{"json":{},"disable_any_whitespace":true})",
       "structured_outputs.disable_any_whitespace", "not supported"},
      {R"("structured_outputs":{"regex":5})", "structured_outputs.regex", "must be a string"},
      {R"("structured_outputs":{"json":5})", "structured_outputs.json", "must be an object"},
      {R"("guided_json":"{")", "guided_json", "is a text that is no schema: invalid JSON"},
      {R"("guided_json":"5")", "guided_json", "must be an object, a JSON Schema, not an integer"},
      {R"("guided_json":[])", "guided_json", "must be an object"},
      {R"("guided_regex":["a"])", "guided_regex", "must be a string, not an array"},
      {R"("guided_choice":"a")", "guided_choice", "must be an array of 1 to 1024 strings"},
      {R"("guided_choice":[])", "guided_choice", "must be an array of 1 to 1024"},
      {R"("guided_choice":["a",5])", "guided_choice", "must be an array of 1 to 1024"},
      {R"("guided_choice":["a",""])", "guided_choice", "strings that are not empty"},
      {R"("guided_grammar":"x")", "guided_grammar", "is not supported"},
      {R"("guided_whitespace_pattern":"x")", "guided_whitespace_pattern", "is not supported"},
      {R"("grammar":"")", "grammar", "is not supported"},
      {R"("structural_tag":{})", "structural_tag", "is not supported"},
      {R"("json_schema":"{}")", "json_schema", "must be an object"},
  };
  for (const Bad& bad : kCases) ExpectRefused(bad);
}

TEST(OutputFormatFields, RefuseTwoOfThemByNamingBoth) {
  const Bad kCases[] = {
      {R"("response_format":{"type":"json_object"},"guided_choice":["a"])", "guided_choice",
       "`guided_choice` excludes `response_format`"},
      {R"("guided_regex":"a","structured_outputs":{"regex":"a"})", "guided_regex",
       "excludes `structured_outputs.regex`"},
      {R"("structured_outputs":{"choice":["a"],"json":{}})", "structured_outputs.json",
       "excludes `structured_outputs.choice`"},
      {R"("guided_json":{},"json_schema":{})", "json_schema", "excludes `guided_json`"},
  };
  for (const Bad& bad : kCases) ExpectRefused(bad);
}

TEST(OutputFormatFields, RefuseWhatCannotBeKeptTo) {
  const Bad kCases[] = {
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n",
          "schema":{"type":"strong"}}})",
       "response_format.json_schema.schema",
       "`response_format.json_schema.schema` cannot be kept to: "},
      {R"("structured_outputs":{"json":{"type":5}})", "structured_outputs.json",
       "cannot be kept to"},
      {R"x("structured_outputs":{"regex":"(?=a)"})x", "structured_outputs.regex",
       "cannot be kept to"},
      {R"("guided_regex":"(a")", "guided_regex", "`guided_regex` cannot be kept to: "},
      // More nodes than a grammar may have: ResourceExhausted, but nothing that time would change.
      {R"("guided_regex":"((a{1000}){1000}){1000}")", "guided_regex", "cannot be kept to"},
      {R"("guided_json":"{\"type\":5}")", "guided_json", "cannot be kept to"},
      {R"("json_schema":{"type":5})", "json_schema", "cannot be kept to"},
  };
  for (const Bad& bad : kCases) ExpectRefused(bad);
  const std::string bytes(wire::kMaxOutputFormatBytes, 'a');
  const std::string regex = StrCat(R"("guided_regex":")", bytes, R"(a")");
  ExpectRefused({regex.c_str(), "guided_regex", "at most 131072"});
  const std::string schema = StrCat(R"("guided_json":{"title":")", bytes, R"("})");
  ExpectRefused({schema.c_str(), "guided_json", "at most 131072"});
  const std::string text = StrCat(R"("guided_json":"{}       )", bytes, '"');
  ExpectRefused({text.c_str(), "guided_json", "more than the 131072 allowed"});
}

TEST(OutputFormatFields, AreNotPaddedToAMinimum) {
  const Read read = ReadMembers(R"("guided_regex":"a")", 1);
  ASSERT_TRUE(read.error.has_value());
  EXPECT_EQ(read.error->param, "min_tokens");
  EXPECT_THAT(read.error->message, HasSubstr("excludes `guided_regex`"));
  EXPECT_FALSE(ReadMembers(R"("response_format":{"type":"text"})", 1).error);
}

TEST(OutputFormatFields, TakeAsManyChoicesAsThereMayBe) {
  const auto read = [](int count) {
    std::vector<std::string> choices;
    for (int i = 0; i < count; ++i) choices.push_back(StrCat("\"choice ", i, '"'));
    return ReadMembers(R"("guided_choice":[)" + Join(choices, ",") + "]");
  };
  EXPECT_FALSE(read(1024).error);
  ASSERT_TRUE(read(1025).error.has_value());
  EXPECT_EQ(read(1025).error->param, "guided_choice");
}

TEST(RegexOfChoices, EscapesWhatMeansSomething) {
  EXPECT_EQ(RegexOfChoices({"aZ 09"}), "aZ 09");
  EXPECT_EQ(RegexOfChoices({"a.b", "[c]", "\\"}), R"(a\.b|\[c\]|\\)");
  EXPECT_EQ(RegexOfChoices({"^$-_/\"'`~"}), R"(\^\$\-\_\/\"\'\`\~)");
  EXPECT_EQ(RegexOfChoices({std::string("\0\t\n\x1F", 4)}), R"(\x00\x09\x0A\x1F)");
  EXPECT_EQ(RegexOfChoices({"\x7F", "é", "😀"}), "\x7F|é|😀");
}

bool Matches(const std::string& regex, std::string_view text) {
  auto compiled = grammar::Compile({.kind = Kind::kRegex, .source = regex});
  EXPECT_TRUE(compiled.ok()) << regex << ": " << compiled.status();
  if (!compiled.ok()) return false;
  grammar::Automaton automaton(*std::move(compiled));
  grammar::Automaton::State state = automaton.start();
  for (const char c : text) {
    if (state == grammar::Automaton::kDead) return false;
    state = automaton.Next(state, static_cast<uint8_t>(c));
  }
  return state != grammar::Automaton::kDead && automaton.IsComplete(state);
}

TEST(RegexOfChoices, MatchesTheChoicesOnly) {
  for (int c = 0; c < 0x80; ++c) {
    const std::string text(1, static_cast<char>(c));
    EXPECT_TRUE(Matches(RegexOfChoices({text}), text)) << c;
    EXPECT_FALSE(Matches(RegexOfChoices({text}), c == 'x' ? "y" : "x")) << c;
    EXPECT_FALSE(Matches(RegexOfChoices({text}), "")) << c;
  }
  const std::string regex = RegexOfChoices({"a|b", "(é)*", "a"});
  for (const char* text : {"a|b", "(é)*", "a"}) EXPECT_TRUE(Matches(regex, text)) << text;
  for (const char* text : {"", "b", "a|", "é", "(é)", "aa"})
    EXPECT_FALSE(Matches(regex, text)) << text;
}

}  // namespace
}  // namespace aril::gateway
