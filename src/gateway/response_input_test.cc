#include "gateway/response_input.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;

// The messages, or the error.
std::string Messages(const std::string& input, const std::string& instructions = "") {
  const auto json = Json::Parse(input);
  EXPECT_TRUE(json.ok()) << json.status();
  const auto messages = MessagesOfInput(*json, instructions);
  return messages.ok() ? messages.value().Dump()
                       : messages.error().param + " " + messages.error().message;
}

TEST(ResponseInput, MayBeAText) {
  EXPECT_EQ(Messages(R"("Hi")"), R"([{"role":"user","content":"Hi"}])");
  EXPECT_EQ(Messages(R"("Hi")", "Be brief."),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
}

TEST(ResponseInput, MayBeMessages) {
  EXPECT_EQ(Messages(R"([{"role":"developer","content":"d"},
                         {"type":"message","role":"user","content":[
                           {"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
                         {"type":"message","id":"msg_1","role":"assistant","status":"completed",
                          "content":[{"type":"output_text","text":"c","annotations":[]}]},
                         {"role":"user","content":""},
                         {"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}])"),
            R"([{"role":"developer","content":"d"},{"role":"user","content":"a\nb"},)"
            R"({"role":"assistant","content":"c"},{"role":"user","content":""},)"
            R"({"role":"assistant","content":"no"}])");
}

// Codex sends all three. Most templates show one such message, and only at the beginning.
TEST(ResponseInput, PutsWhatTheSystemSaysTogether) {
  const std::string items =
      R"([{"role":"developer","content":"d"},{"role":"system","content":"s"},
          {"role":"user","content":"u"},{"role":"developer","content":"later"}])";
  EXPECT_EQ(Messages(items, "I"),
            R"([{"role":"system","content":"I\n\nd\n\ns"},{"role":"user","content":"u"},)"
            R"({"role":"developer","content":"later"}])");
  EXPECT_EQ(Messages(R"([{"role":"developer","content":"a"},{"role":"developer","content":"b"}])"),
            R"([{"role":"developer","content":"a\n\nb"}])");
}

constexpr char kCall[] =
    R"({"type":"function_call","id":"fc_1","call_id":"c1","name":"add","arguments":"{\"a\": 1}"})";
constexpr char kCallJson[] =
    R"({"id":"c1","type":"function","function":{"name":"add","arguments":{"a":1}}})";

std::string Items(std::initializer_list<std::string> items) {
  std::string array = "[";
  for (const std::string& item : items) array += (array.size() > 1 ? "," : "") + item;
  return array + "]";
}

TEST(ResponseInput, PutsWhatAnAssistantDidTogether) {
  const std::string reasoning =
      R"({"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"content":[
          {"type":"reasoning_text","text":"r1"},{"type":"reasoning_text","text":"r2"}]})";
  const std::string said = R"({"role":"assistant","content":"So"})";
  const std::string output = R"({"type":"function_call_output","call_id":"c1","output":"2"})";
  const std::string user = R"({"role":"user","content":"u"})";
  const std::string call = kCall;
  EXPECT_EQ(
      Messages(Items({user, reasoning, said, call, call, output, said})),
      std::string(R"([{"role":"user","content":"u"},)") +
          R"({"role":"assistant","content":"So","reasoning_content":"r1\nr2","tool_calls":[)" +
          kCallJson + "," + kCallJson + R"(],"thinking":"r1\nr2"},)" +
          R"({"role":"tool","content":"2","tool_call_id":"c1","name":"add"},)" +
          R"({"role":"assistant","content":"So"}])");
  EXPECT_EQ(Messages(Items({call, output})),
            std::string(R"([{"role":"assistant","content":"","tool_calls":[)") + kCallJson +
                R"(]},{"role":"tool","content":"2","tool_call_id":"c1","name":"add"}])");
  // In whatever order.
  EXPECT_EQ(
      Messages(Items({call, said, reasoning, said, output})),
      std::string(R"([{"role":"assistant","content":"So\nSo","reasoning_content":"r1\nr2",)") +
          R"("tool_calls":[)" + kCallJson + R"(],"thinking":"r1\nr2"},)" +
          R"({"role":"tool","content":"2","tool_call_id":"c1","name":"add"}])");
  // An answer that was cut before it had begun.
  EXPECT_EQ(Messages(Items({reasoning, user})),
            R"([{"role":"assistant","content":"","reasoning_content":"r1\nr2",)"
            R"("thinking":"r1\nr2"},{"role":"user","content":"u"}])");
}

// As it is in the output of an answer that max_output_tokens has cut.
TEST(ResponseInput, PassesOverACallThatWasCut) {
  EXPECT_EQ(Messages(Items({R"({"role":"assistant","content":"So"})",
                            R"({"type":"function_call","call_id":"c","name":"f","arguments":"{\"a",
                                "status":"incomplete"})"})),
            R"([{"role":"assistant","content":"So"}])");
}

TEST(ResponseInput, TakesOutputsOfSeveralParts) {
  EXPECT_THAT(Messages(Items({kCall, R"({"type":"function_call_output","call_id":"c1","output":[
                                         {"type":"input_text","text":"a"}]})"})),
              HasSubstr(R"({"role":"tool","content":"a",)"));
}

TEST(ResponseInput, PassesOverReasoningThatNobodyCanRead) {
  EXPECT_EQ(Messages(Items({R"({"type":"reasoning","summary":[],"encrypted_content":null})",
                            R"({"role":"user","content":"u"})"})),
            R"([{"role":"user","content":"u"}])");
  EXPECT_THAT(Messages(R"([{"type":"reasoning","summary":[]}])"),
              HasSubstr("input `input` has nothing"));
}

TEST(ResponseInput, ErrorsNameTheItem) {
  const auto error = [](const std::string& item) {
    return Messages(Items({R"({"role":"user","content":"u"})", item}));
  };
  EXPECT_THAT(Messages("[]"), HasSubstr("input `input` must be a text, or an array of items"));
  EXPECT_THAT(Messages("7"), HasSubstr("input `input` must be a text, or an array of items"));
  EXPECT_THAT(error("7"), HasSubstr("input[1] `input[1]` must be an object"));
  EXPECT_THAT(error(R"({"type":7})"), HasSubstr("input[1].type "));
  EXPECT_THAT(error(R"({"type":"web_search_call"})"),
              HasSubstr("input[1].type `input[1].type` \"web_search_call\" is not supported"));
  EXPECT_THAT(error(R"({"type":"item_reference","id":"x"})"), HasSubstr("this server keeps none"));
  EXPECT_THAT(error(R"({"role":"tool","content":"x"})"), HasSubstr("input[1].role "));
  EXPECT_THAT(error(R"({"content":"x"})"), HasSubstr("input[1].role "));
  EXPECT_THAT(error(R"({"role":"user"})"), HasSubstr("input[1].content "));
  EXPECT_THAT(error(R"({"role":"user","content":[{"type":"input_image"}]})"),
              HasSubstr("input[1].content[0] `input[1].content[0]` must be"));
  EXPECT_THAT(error(R"({"type":"reasoning","encrypted_content":"x"})"),
              HasSubstr("input[1].encrypted_content "));
  EXPECT_THAT(error(R"({"type":"reasoning","content":"x"})"), HasSubstr("input[1].content "));
  EXPECT_THAT(error(R"({"type":"reasoning","content":[{"type":"text","text":"x"}]})"),
              HasSubstr("input[1].content[0] "));
  EXPECT_THAT(error(R"({"type":"function_call","name":"f","arguments":"{}"})"),
              HasSubstr("input[1].call_id "));
  EXPECT_THAT(error(R"({"type":"function_call","call_id":"c","arguments":"{}"})"),
              HasSubstr("input[1].name "));
  EXPECT_THAT(error(R"({"type":"function_call","call_id":"c","name":"f","arguments":"["})"),
              HasSubstr("input[1].arguments "));
  EXPECT_THAT(error(R"({"type":"function_call_output","output":"x"})"),
              HasSubstr("input[1].call_id "));
  EXPECT_THAT(error(R"({"type":"function_call_output","call_id":"c9","output":"x"})"),
              HasSubstr("of no function_call before it"));
  EXPECT_THAT(error(R"({"type":"function_call_output","call_id":"c9"})"),
              HasSubstr("input[1].output "));
}

}  // namespace
}  // namespace aril::gateway
