#include "gateway/anthropic_input.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;

// The messages, behind "begun " if the answer goes on with the last one; or the error.
std::string Messages(const std::string& messages, const std::string& system = "") {
  const auto json = Json::Parse(messages);
  EXPECT_TRUE(json.ok()) << json.status();
  std::optional<Json> system_json;
  if (!system.empty()) system_json = Json::Parse(system).value_or(Json());
  const auto input = ReadAnthropicInput(*json, system_json ? &*system_json : nullptr);
  if (!input.ok()) return input.error().param + " " + input.error().message;
  return (input.value().is_begun ? "begun " : "") + input.value().messages.Dump();
}

// One of them, of this role.
std::string Message(const std::string& role, const std::string& content) {
  return R"({"role":")" + role + R"(","content":)" + content + "}";
}

constexpr char kHi[] = R"({"role":"user","content":"Hi"})";
constexpr char kUse[] = R"({"type":"tool_use","id":"c1","name":"add","input":{"a":1}})";
constexpr char kCallJson[] =
    R"({"id":"c1","type":"function","function":{"name":"add","arguments":{"a":1}}})";

TEST(AnthropicInput, MayBeTextsOrBlocks) {
  EXPECT_EQ(Messages(R"([{"role":"user","content":"Hi"}])"), R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(Messages(R"([{"role":"user","content":[
                           {"type":"text","text":"a","cache_control":{"type":"ephemeral"}},
                           {"type":"text","text":"b"}]},
                         {"role":"assistant","content":[{"type":"text","text":"c"}]},
                         {"role":"user","content":""}])"),
            R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"c"},)"
            R"({"role":"user","content":""}])");
}

TEST(AnthropicInput, PutsTheSystemsTextInFront) {
  const std::string hi = std::string("[") + kHi + "]";
  EXPECT_EQ(Messages(hi, R"("S")"),
            R"([{"role":"system","content":"S"},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(Messages(hi, R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])"),
            R"([{"role":"system","content":"a\n\nb"},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(Messages(hi, R"("")"), R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(Messages(R"([{"role":"system","content":""},{"role":"user","content":"Hi"}])"),
            R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(
      Messages(R"([{"role":"system","content":"b"},{"role":"user","content":"Hi"}])", R"("a")"),
      R"([{"role":"system","content":"a\n\nb"},{"role":"user","content":"Hi"}])");
}

// As Claude Code sends it (gateway/system_turns.h).
TEST(AnthropicInput, KeepsThePlaceOfWhatTheSystemSaysLater) {
  EXPECT_EQ(Messages(R"([{"role":"user","content":"Hi"},{"role":"system","content":"s"},
                         {"role":"system","content":[{"type":"text","text":"t"}]},
                         {"role":"user","content":"And?"}])"),
            R"([{"role":"user","content":"Hi"},{"role":"system","content":"s\n\nt"},)"
            R"({"role":"user","content":"And?"}])");
}

TEST(AnthropicInput, LeavesOutWhoAsks) {
  const std::string hi = std::string("[") + kHi + "]";
  const std::string expected =
      R"([{"role":"system","content":"a"},{"role":"user","content":"Hi"}])";
  const std::string line = "x-anthropic-billing-header: cc_version=2.1; cch=0f3a1;";
  EXPECT_EQ(
      Messages(hi, R"([{"type":"text","text":")" + line + R"("},{"type":"text","text":"a"}])"),
      expected);
  EXPECT_EQ(Messages(hi, "\"" + line + R"(\na")"), expected);
  EXPECT_EQ(Messages(hi, "\"" + line + "\""), R"([{"role":"user","content":"Hi"}])");
}

// Templates that want roles to alternate refuse others.
TEST(AnthropicInput, MakesOneOfTurnsInARow) {
  EXPECT_EQ(Messages(R"([{"role":"user","content":"a"},{"role":"user","content":"b"},
                         {"role":"assistant","content":"c"},{"role":"assistant","content":"d"},
                         {"role":"user","content":"e"}])"),
            R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"c\nd"},)"
            R"({"role":"user","content":"e"}])");
}

TEST(AnthropicInput, TakesThinkingUsesAndTheirResults) {
  const std::string turn = std::string(R"([{"type":"thinking","thinking":"r","signature":"x"},)") +
                           R"({"type":"text","text":"So"},)" + kUse + "]";
  const std::string result = R"([{"type":"tool_result","tool_use_id":"c1","is_error":false,
                                  "content":[{"type":"text","text":"2"}]},
                                 {"type":"text","text":"And?"}])";
  EXPECT_EQ(Messages(std::string("[") + kHi + "," + Message("assistant", turn) + "," +
                     Message("user", result) + "]"),
            std::string(R"([{"role":"user","content":"Hi"},)") +
                R"({"role":"assistant","content":"So","reasoning_content":"r","tool_calls":[)" +
                kCallJson + R"(],"thinking":"r"},)" +
                R"({"role":"tool","content":"2","tool_call_id":"c1","name":"add"},)" +
                R"({"role":"user","content":"And?"}])");
  // A result may be a text, or nothing at all.
  for (const char* content : {"", R"(,"content":null)", R"(,"content":"")", R"(,"content":[])"}) {
    EXPECT_THAT(Messages(std::string("[") + Message("assistant", std::string("[") + kUse + "]") +
                         R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1")" +
                         content + "}]}]"),
                HasSubstr(R"({"role":"tool","content":"","tool_call_id":"c1","name":"add"}])"));
  }
}

TEST(AnthropicInput, SaysThatAResultIsAnErrorWhereNothingElseDoes) {
  const auto result = [](const std::string& members) {
    return Messages(std::string("[") + Message("assistant", std::string("[") + kUse + "]") +
                    R"(,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1",)" +
                    R"("is_error":true)" + members + "}]}]");
  };
  EXPECT_THAT(result(""), HasSubstr(R"({"role":"tool","content":"Error",)"));
  EXPECT_THAT(result(R"(,"content":"no such file")"),
              HasSubstr(R"({"role":"tool","content":"no such file",)"));
}

TEST(AnthropicInput, PassesOverWhatNobodyCanRead) {
  const std::string turn = Message(
      "assistant", R"([{"type":"redacted_thinking","data":"x"},{"type":"text","text":"A"}])");
  EXPECT_EQ(Messages(std::string("[") + kHi + "," + turn + "," + kHi + "]"),
            R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"A"},)"
            R"({"role":"user","content":"Hi"}])");
  EXPECT_EQ(Messages(std::string("[") + kHi + R"(,{"role":"assistant","content":[]},)" + kHi + "]"),
            R"([{"role":"user","content":"Hi\nHi"}])")
      << "an answer that had nothing";
}

TEST(AnthropicInput, MayEndWithTheBeginningOfTheAnswer) {
  EXPECT_EQ(Messages(std::string("[") + kHi + R"(,{"role":"assistant","content":"So"}])"),
            R"(begun [{"role":"user","content":"Hi"},{"role":"assistant","content":"So"}])");
  const std::string why = "messages `messages` must end with";
  EXPECT_THAT(Messages(std::string("[") + kHi + R"(,{"role":"assistant","content":""}])"),
              HasSubstr(why));
  EXPECT_THAT(
      Messages(std::string("[") + kHi + "," +
               Message("assistant", R"([{"type":"text","text":"So"},)" + std::string(kUse) + "]") +
               "]"),
      HasSubstr(why));
}

TEST(AnthropicInput, ErrorsNameTheBlock) {
  EXPECT_THAT(Messages("7"), HasSubstr("messages `messages` must be an array"));
  EXPECT_THAT(Messages("[]"), HasSubstr("messages `messages` must be an array"));
  EXPECT_THAT(Messages("[7]"), HasSubstr("messages[0] `messages[0]` must be an object"));
  EXPECT_THAT(Messages(R"([{"role":"user","content":[]}])"), HasSubstr("messages[0].content "));
  EXPECT_THAT(Messages(R"([{"role":"assistant","content":[]}])"),
              HasSubstr("nothing to be answered"));
  EXPECT_THAT(Messages(std::string("[") + kHi + "]", "7"), HasSubstr("system "));
  EXPECT_THAT(Messages(std::string("[") + kHi + "]", R"([{"type":"image"}])"),
              HasSubstr("system[0].type "));
  EXPECT_THAT(Messages(R"([{"role":"tool","content":"x"}])"), HasSubstr("messages[0].role "));
  EXPECT_THAT(Messages(R"([{"content":"x"}])"), HasSubstr("messages[0].role "));
  EXPECT_THAT(Messages(R"([{"role":"user"}])"), HasSubstr("messages[0].content "));
  EXPECT_THAT(Messages(R"([{"role":"user","content":7}])"), HasSubstr("messages[0].content "));
  const auto error = [](const std::string& role, const std::string& block) {
    return Messages("[" + Message(role, R"([{"type":"text","text":"x"},)" + block + "]") + "]");
  };
  EXPECT_THAT(error("user", "7"), HasSubstr("messages[0].content[1] "));
  EXPECT_THAT(error("user", "{}"), HasSubstr("messages[0].content[1].type "));
  EXPECT_THAT(error("user", R"({"type":"text"})"), HasSubstr("messages[0].content[1].text "));
  EXPECT_THAT(
      error("user", R"({"type":"image","source":{}})"),
      HasSubstr("messages[0].content[1].type `messages[0].content[1].type` \"image\" is not "
                "supported"));
  EXPECT_THAT(error("user", kUse), HasSubstr("messages[0].content[1].type "));
  EXPECT_THAT(error("user", R"({"type":"thinking","thinking":"x"})"),
              HasSubstr("content[1].type "));
  EXPECT_THAT(error("system", R"({"type":"tool_result","tool_use_id":"c"})"),
              HasSubstr("content[1].type "));
  EXPECT_THAT(error("user", R"({"type":"tool_result"})"), HasSubstr("content[1].tool_use_id "));
  EXPECT_THAT(error("user", R"({"type":"tool_result","tool_use_id":"c9"})"),
              HasSubstr("of no tool_use before it"));
  EXPECT_THAT(error("user", R"({"type":"tool_result","tool_use_id":"c","content":7})"),
              HasSubstr("content[1].content "));
  EXPECT_THAT(
      error("user", R"({"type":"tool_result","tool_use_id":"c","content":[{"type":"image"}]})"),
      HasSubstr("content[1].content[0] "));
  EXPECT_THAT(error("user", R"({"type":"redacted_thinking","data":"x"})"),
              HasSubstr("content[1].type "));
  EXPECT_THAT(error("assistant", R"({"type":"thinking"})"), HasSubstr("content[1].thinking "));
  EXPECT_THAT(error("assistant", R"({"type":"tool_use","name":"f","input":{}})"),
              HasSubstr("content[1].id "));
  EXPECT_THAT(error("assistant", R"({"type":"tool_use","id":"c","input":{}})"),
              HasSubstr("content[1].name "));
  EXPECT_THAT(error("assistant", R"({"type":"tool_use","id":"c","name":"f","input":"{}"})"),
              HasSubstr("content[1].input "));
}

}  // namespace
}  // namespace aril::gateway
