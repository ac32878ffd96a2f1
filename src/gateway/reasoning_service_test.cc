// Chats with models that think first, over HTTP.

#include "base/strings.h"
#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"
#include "grammar/automaton.h"
#include "grammar/compile.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;

class ReasoningServiceTest : public GatewayTest {
 protected:
  // What a request of these members is answered if the model says this.
  HttpResponse AskModel(const std::string& members, std::string_view says,
                        wire::FinishReason finish = wire::FinishReason::kStop) {
    auto answer = std::async(std::launch::async, [this, members] {
      return Send("POST", "/v1/chat/completions",
                  R"({"model":"base","messages":[{"role":"user","content":"Hi"}])" + members + "}");
    });
    requests_ = port_.WaitForRequests(requests_.size() + 1);
    port_.Emit(requests_.back().sequence, says, finish);
    return answer.get();
  }
  // Its answer.
  static Json Parsed(const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::Parse(response.body).value_or(Json());
  }
  static std::string Message(const HttpResponse& response) {
    return Text(Parsed(response), {"choices", "0", "message"});
  }
  const wire::OutputFormat& LastFormat() const { return requests_.back().format; }

  std::vector<wire::SequenceRequest> requests_;
};

constexpr char kThought[] = "<think>\nHm.\n</think>\n\nHello";
constexpr char kBegun[] = R"(,"chat_template_kwargs":{"mood":"<think>"})";

TEST_F(ReasoningServiceTest, IsApartFromTheAnswer) {
  Start();
  const Json json = Parsed(AskModel("", kThought));
  const std::string expected =
      R"({"role":"assistant","content":"Hello","refusal":null,"reasoning_content":"Hm."})";
  EXPECT_EQ(Text(json, {"choices", "0", "message"}), expected);
  EXPECT_EQ(Text(json, {"usage", "completion_tokens_details"}), R"({"reasoning_tokens":20})");
  EXPECT_EQ(Text(json, {"usage", "completion_tokens"}), "27");
  EXPECT_EQ(Message(AskModel(kBegun, "\nHm.\n</think>\n\nHello")), expected);
  EXPECT_EQ(Message(AskModel("", "Hello")),
            R"({"role":"assistant","content":"Hello","refusal":null})");
}

TEST_F(ReasoningServiceTest, MayBeCut) {
  Start();
  const Json json = Parsed(AskModel("", "<think>Hm", wire::FinishReason::kLength));
  EXPECT_EQ(Text(json, {"choices", "0", "message"}),
            R"({"role":"assistant","content":"","refusal":null,"reasoning_content":"Hm"})");
  EXPECT_EQ(Text(json, {"choices", "0", "finish_reason"}), R"("length")");
  EXPECT_EQ(Text(json, {"usage", "completion_tokens_details"}), R"({"reasoning_tokens":9})");
}

TEST_F(ReasoningServiceTest, IsLeftAsItIsOrOutOnRequest) {
  Start();
  EXPECT_EQ(Message(AskModel(R"(,"reasoning_format":"none")", kThought)),
            R"({"role":"assistant","content":"<think>\nHm.\n</think>\n\nHello","refusal":null})");
  EXPECT_EQ(Message(AskModel(R"(,"include_reasoning":false)", kThought)),
            R"({"role":"assistant","content":"Hello","refusal":null})");
  EXPECT_EQ(Message(AskModel(R"(,"chat_template_kwargs":{"mood":"<think>\n\n</think>\n\n"})",
                             "<think>a</think>b")),
            R"({"role":"assistant","content":"<think>a</think>b","refusal":null})")
      << "it was over";
  const HttpResponse refused =
      Send("POST", "/v1/chat/completions",
           R"({"model":"base","messages":[{"role":"user","content":"Hi"}],)"
           R"("reasoning_format":"deepseek-legacy"})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_THAT(refused.body, ::testing::HasSubstr(R"("param":"reasoning_format")"));
}

TEST_F(ReasoningServiceTest, ComesInStreamsAsItIsThought) {
  Start();
  const HttpResponse response = AskModel(R"(,"stream":true)", "<think>ab</think>\nc");
  SseReader reader;
  reader.Append(response.body);
  std::vector<std::string> deltas;
  for (auto event = reader.Next(); event && *event != "[DONE]"; event = reader.Next()) {
    deltas.push_back(Text(Json::Parse(*event).value_or(Json()), {"choices", "0", "delta"}));
  }
  EXPECT_THAT(deltas,
              ElementsAre(R"({"role":"assistant","content":""})", R"({"reasoning_content":"a"})",
                          R"({"reasoning_content":"b"})", R"({"content":"c"})"));
}

TEST_F(ReasoningServiceTest, ComesBeforeFormats) {
  Start();
  constexpr char kFormat[] = R"(,"structured_outputs":{"choice":["yes"]})";
  EXPECT_EQ(Message(AskModel(kFormat, "<think>yes?</think>\nyes")),
            R"({"role":"assistant","content":"yes","refusal":null,"reasoning_content":"yes?"})");
  EXPECT_EQ(LastFormat().reasoning, (wire::Reasoning{.begin = "<think>", .end = "</think>"}));
  AskModel(StrCat(kFormat, kBegun), "</think>yes");
  EXPECT_EQ(LastFormat().reasoning, (wire::Reasoning{.begin = "", .end = "</think>"}));
  AskModel(StrCat(kFormat, R"(,"reasoning_format":"none")"), "yes");
  EXPECT_EQ(LastFormat().reasoning, std::nullopt);
  AskModel("", "yes");
  EXPECT_EQ(LastFormat(), wire::OutputFormat());
}

TEST_F(ReasoningServiceTest, ComesBeforeToolCalls) {
  Start();
  constexpr char kTools[] = R"(,"tools":[{"type":"function","function":{"name":"add"}}])";
  constexpr char kCall[] = R"(<call>{"name": "add", "arguments": {}}</call>)";
  for (const char* choice : {"auto", "required"}) {
    const std::string members = StrCat(kTools, R"(,"tool_choice":")", choice, "\"");
    const Json json = Parsed(AskModel(members, StrCat("<think>\nI <call>.\n</think>\n\n", kCall)));
    EXPECT_EQ(Text(json, {"choices", "0", "message", "reasoning_content"}), R"("I <call>.")");
    EXPECT_EQ(Text(json, {"choices", "0", "message", "content"}), "null");
    EXPECT_EQ(Text(json, {"choices", "0", "message", "tool_calls", "0", "function", "name"}),
              R"("add")");
    EXPECT_EQ(Text(json, {"choices", "0", "finish_reason"}), R"("tool_calls")");
    ASSERT_TRUE(LastFormat().reasoning.has_value());
    EXPECT_TRUE(grammar::Compile(LastFormat()).ok());
  }
}

// A call has four spaces before it at most, behind reasoning as elsewhere.
TEST_F(ReasoningServiceTest, IsNotWhatMakesTextACall) {
  Start();
  constexpr char kTools[] = R"(,"tools":[{"type":"function","function":{"name":"add"}}])";
  const Json json = Parsed(AskModel(kTools, "<think>a</think>\n\n\n\n\nNo <calls>"));
  EXPECT_EQ(Text(json, {"choices", "0", "message"}),
            R"({"role":"assistant","content":"No <calls>","refusal":null,)"
            R"("reasoning_content":"a"})");
}

TEST_F(ReasoningServiceTest, IsNotWhatTheUserSays) {
  Start();
  auto answer = std::async(std::launch::async, [this] {
    return Send("POST", "/v1/chat/completions",
                R"({"model":"base","messages":[{"role":"user","content":"a <think>?"},)"
                R"({"role":"assistant","content":"It"}],"continue_final_message":true})");
  });
  const auto request = port_.WaitForRequests(1).front();
  port_.Emit(request.sequence, " is", wire::FinishReason::kStop);
  EXPECT_EQ(Message(answer.get()), R"({"role":"assistant","content":" is","refusal":null})");
}

TEST_F(ReasoningServiceTest, GoesBackToTheTemplate) {
  Start();
  auto answer = std::async(std::launch::async, [this] {
    return Send("POST", "/v1/chat/completions",
                R"({"model":"base","messages":[{"role":"user","content":"Hi"},)"
                R"({"role":"assistant","content":"b","reasoning_content":"a"},)"
                R"({"role":"user","content":"c"}]})");
  });
  const auto request = port_.WaitForRequests(1).front();
  std::string prompt;
  for (const int32_t token : request.prompt) prompt.push_back(static_cast<char>(token));
  EXPECT_EQ(prompt, "u:Hi;a:<think>a</think>b;u:c;a:");
  port_.Emit(request.sequence, "d", wire::FinishReason::kStop);
  answer.wait();
}

}  // namespace
}  // namespace aril::gateway
