#include "gateway/tool_fields.h"

#include <string>
#include <vector>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Result {
  ToolFields tools;
  std::string error;
  std::string param;
};

Result Read(const std::string& text, ToolStyle style = ToolStyle::kNested) {
  const auto json = Json::Parse(text);
  EXPECT_TRUE(json.ok()) << json.status() << text;
  JsonFields fields(*json);
  Result result;
  result.tools = ReadTools(fields, style);
  if (fields.ok()) return result;
  result.error = fields.error()->message;
  result.param = fields.error()->param;
  return result;
}

std::string Function(const std::string& members) {
  return R"({"type":"function","function":{)" + members + "}}";
}
const std::string kTools =
    R"("tools":[)" + Function(R"("name":"a","description":"A")") + "," +
    Function(R"("name":"b","parameters":{"properties":{"x":{}}},"strict":null)") + "]";

std::vector<std::string> Names(const Result& result) {
  EXPECT_EQ(result.error, "");
  std::vector<std::string> names;
  for (const auto& tool : result.tools.callable) names.push_back(tool.name);
  return names;
}

TEST(ToolFields, AreRead) {
  const Result result = Read("{" + kTools + "}");
  EXPECT_THAT(Names(result), ElementsAre("a", "b"));
  EXPECT_EQ(StrCat("{\"tools\":", result.tools.shown.Dump(), "}"), "{" + kTools + "}");
  EXPECT_EQ(result.tools.callable[0].parameters.Dump(),
            R"({"type":"object","additionalProperties":false})");
  EXPECT_EQ(result.tools.callable[1].parameters.Dump(), R"({"properties":{"x":{}}})");
  EXPECT_FALSE(result.tools.is_required || result.tools.is_named);
  EXPECT_TRUE(result.tools.is_parallel);
  EXPECT_FALSE(Read("{" + kTools + R"(,"parallel_tool_calls":false})").tools.is_parallel);
}

TEST(ToolFields, MayAskForNothing) {
  for (const std::string& text :
       {std::string("{}"), std::string(R"({"tools":[]})"), std::string(R"({"tools":null})"),
        std::string(R"({"tool_choice":"auto","parallel_tool_calls":true})"),
        R"({"tool_choice":"none",)" + kTools + "}",
        std::string(R"({"tool_choice":"none","tools":3})")}) {
    const Result result = Read(text);
    EXPECT_THAT(Names(result), IsEmpty()) << text;
    EXPECT_TRUE(result.tools.shown.is_null()) << text;
  }
}

TEST(ToolFields, SayWhoIsToBeCalled) {
  const auto choose = [](const std::string& choice) {
    return Read("{" + kTools + R"(,"tool_choice":)" + choice + "}");
  };
  EXPECT_THAT(Names(choose(R"("auto")")), ElementsAre("a", "b"));
  const Result required = choose(R"("required")");
  EXPECT_THAT(Names(required), ElementsAre("a", "b"));
  EXPECT_TRUE(required.tools.is_required && !required.tools.is_named);
  const Result named = choose(Function(R"("name":"b")"));
  EXPECT_THAT(Names(named), ElementsAre("b"));
  EXPECT_TRUE(named.tools.is_required && named.tools.is_named && !named.tools.is_parallel);
  EXPECT_EQ(named.tools.shown.AsArray()->size(), 2u) << "the model sees all";
  const auto allowed = [&](const std::string& mode, const std::string& tools) {
    return choose(R"({"type":"allowed_tools","allowed_tools":{"mode":)" + mode + R"(,"tools":[)" +
                  tools + "]}}");
  };
  const Result automatic = allowed(R"("auto")", Function(R"("name":"a")"));
  EXPECT_THAT(Names(automatic), ElementsAre("a"));
  EXPECT_FALSE(automatic.tools.is_required);
  EXPECT_TRUE(allowed(R"("required")", Function(R"("name":"a")")).tools.is_required);

  const std::string no_tool = "names a function that is not among `tools`";
  EXPECT_THAT(choose(Function(R"("name":"c")")).error, HasSubstr(no_tool));
  EXPECT_THAT(allowed(R"("auto")", Function(R"("name":"c")")).error, HasSubstr(no_tool));
  EXPECT_THAT(allowed(R"("auto")", "3").error, HasSubstr("names no function"));
  EXPECT_THAT(allowed(R"("auto")", "").error, HasSubstr("must have a mode"));
  EXPECT_THAT(
      Names(allowed(R"("auto")", Function(R"("name":"b")") + "," + Function(R"("name":"b")"))),
      ElementsAre("b"));
  EXPECT_THAT(allowed("3", Function(R"("name":"a")")).error, HasSubstr("must have a mode"));
  for (const char* choice : {"3", R"("any")", "{}", R"({"type":"function"})",
                             R"({"type":"allowed_tools"})", "[]", "true"}) {
    EXPECT_EQ(choose(choice).param, "tool_choice") << choice;
  }
  EXPECT_THAT(Read(R"({"tool_choice":"required"})").error, HasSubstr("needs `tools`"));
}

TEST(ToolFields, HaveSchemasOfObjects) {
  const std::string odd = R"("name":"a","parameters":{"type":"object","minProperties":1})";
  const auto read = [](const std::string& members) {
    return Read(R"({"tools":[)" + Function(members) + "]}");
  };
  const Result loose = read(odd);
  ASSERT_THAT(Names(loose), ElementsAre("a"));
  EXPECT_FALSE(loose.tools.callable[0].is_strict);
  const Result strict = read(odd + R"(,"strict":true)");
  ASSERT_THAT(Names(strict), ElementsAre("a"));
  EXPECT_TRUE(strict.tools.callable[0].is_strict);
  const std::string several = R"("name":"a","parameters":{"type":["object","null"]})";
  EXPECT_EQ(read(several).error, "");
  EXPECT_THAT(read(R"("name":"a","parameters":{"type":"array"})").error,
              HasSubstr("of the type \"object\""));
}

TEST(ToolFields, AreRefusedByName) {
  const auto error = [](const std::string& tools) { return Read(R"({"tools":)" + tools + "}"); };
  EXPECT_EQ(error("3").param, "tools");
  EXPECT_EQ(error("{}").param, "tools");
  EXPECT_EQ(error("[3]").param, "tools[0]");
  EXPECT_EQ(error(R"([{"type":"custom","custom":{"name":"x"}}])").param, "tools[0]");
  EXPECT_EQ(error(R"([{"type":"function"}])").param, "tools[0]");
  EXPECT_EQ(error("[" + Function("") + "]").param, "tools[0].function.name");
  EXPECT_EQ(error("[" + Function(R"("name":"a b")") + "]").param, "tools[0].function.name");
  EXPECT_EQ(error("[" + Function(R"("name":"a")") + "," + Function(R"("name":"a")") + "]").param,
            "tools[1].function.name");
  EXPECT_EQ(error("[" + Function(R"("name":"a","strict":1)") + "]").param,
            "tools[0].function.strict");
  EXPECT_EQ(error("[" + Function(R"("name":"a","description":1)") + "]").param,
            "tools[0].function.description");
  EXPECT_EQ(error("[" + Function(R"("name":"a","parameters":1)") + "]").param,
            "tools[0].function.parameters");
  std::string many = Function(R"("name":"a0")");
  for (int i = 1; i <= 128; ++i) many += "," + Function(StrCat(R"("name":"a)", i, "\""));
  EXPECT_THAT(error("[" + many + "]").error, HasSubstr("at most 128 tools"));
}

// As /v1/responses has them.
TEST(ToolFields, MayBeFlat) {
  const std::string tools =
      R"("tools":[{"type":"function","name":"a","description":"A","strict":true},)"
      R"({"type":"function","name":"b","description":null,"parameters":{"properties":{"x":{}}}}])";
  const auto read = [&](const std::string& members) {
    return Read("{" + tools + members + "}", ToolStyle::kFlat);
  };
  const Result result = read("");
  EXPECT_THAT(Names(result), ElementsAre("a", "b"));
  EXPECT_TRUE(result.tools.callable[0].is_strict);
  EXPECT_EQ(result.tools.callable[1].parameters.Dump(), R"({"properties":{"x":{}}})");
  EXPECT_EQ(result.tools.shown.Dump(),
            "[" + Function(R"("name":"a","description":"A","strict":true)") + "," +
                Function(R"("name":"b","parameters":{"properties":{"x":{}}})") + "]");
  EXPECT_THAT(Names(read(R"(,"tool_choice":{"type":"function","name":"b"})")), ElementsAre("b"));
  const Result allowed = read(R"(,"tool_choice":{"type":"allowed_tools","mode":"required","tools":[
                {"type":"function","name":"a"}]})");
  EXPECT_THAT(Names(allowed), ElementsAre("a"));
  EXPECT_TRUE(allowed.tools.is_required);
  EXPECT_EQ(Read(R"({"tools":[)" + Function(R"("name":"a")") + "]}", ToolStyle::kFlat).param,
            "tools[0].name");
}

const std::string kAnthropicTools =
    R"("tools":[{"name":"a","description":"A","input_schema":{"type":"object","properties":{}},
                 "cache_control":{"type":"ephemeral"},"input_examples":[{}],"strict":true},
                {"type":"custom","name":"b","input_schema":{"type":"object"},"description":null,
                 "allowed_callers":["direct"],"defer_loading":false}])";

// What else they have is for Anthropic's servers.
TEST(ToolFields, ThatAreAnthropicsAreShownAsTheOthers) {
  const Result result = Read("{" + kAnthropicTools + "}", ToolStyle::kAnthropic);
  EXPECT_THAT(Names(result), ElementsAre("a", "b"));
  EXPECT_EQ(result.tools.shown.Dump(),
            R"([{"type":"function","function":{"name":"a","description":"A",)"
            R"("parameters":{"type":"object","properties":{}},"strict":true}},)"
            R"({"type":"function","function":{"name":"b","parameters":{"type":"object"}}}])");
  EXPECT_TRUE(result.tools.callable[0].is_strict);
  EXPECT_FALSE(result.tools.callable[1].is_strict);
}

TEST(ToolFields, ThatAreAnthropicsAreChosenInItsWords) {
  const auto choose = [](const std::string& choice) {
    const ToolFields tools =
        Read("{\"tool_choice\":" + choice + "," + kAnthropicTools + "}", ToolStyle::kAnthropic)
            .tools;
    EXPECT_FALSE(tools.is_named) << "an answer ends for every call";
    return StrCat(tools.callable.size(), tools.is_required ? " required" : "",
                  tools.is_parallel ? " parallel" : "");
  };
  EXPECT_EQ(choose("null"), "2 parallel");
  EXPECT_EQ(choose(R"({"type":"none"})"), "0 parallel");
  EXPECT_EQ(choose(R"({"type":"auto"})"), "2 parallel");
  EXPECT_EQ(choose(R"({"type":"auto","disable_parallel_tool_use":true})"), "2");
  EXPECT_EQ(choose(R"({"type":"any"})"), "2 required parallel");
  EXPECT_EQ(choose(R"({"type":"any","disable_parallel_tool_use":true})"), "2 required");
  EXPECT_EQ(choose(R"({"type":"tool","name":"b"})"), "1 required");
}

}  // namespace
}  // namespace aril::gateway
