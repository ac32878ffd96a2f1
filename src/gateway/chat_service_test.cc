// Chat completions over HTTP: answers, streams, logprobs.

#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using ChatServiceTest = GatewayTest;

constexpr char kChat[] =
    R"({"model":"base","messages":[{"role":"user","content":"Hi"}],"max_tokens":2)";

TEST_F(ChatServiceTest, AnswersChats) {
  Start();
  port_.AnswerWith("ok");
  const Json json = Ask("POST", "/v1/chat/completions", std::string(kChat) + R"(,"n":2})");
  EXPECT_THAT(Text(json, {"id"}), StartsWith("\"chatcmpl-"));
  EXPECT_EQ(Text(json, {"object"}), R"("chat.completion")");
  EXPECT_EQ(Text(json, {"choices", "1"}),
            R"({"index":1,"message":{"role":"assistant","content":"ok","refusal":null},)"
            R"("logprobs":null,"finish_reason":"length"})");
  EXPECT_EQ(Text(json, {"usage"}), R"({"prompt_tokens":7,"completion_tokens":4,"total_tokens":11,)"
                                   R"("prompt_tokens_details":{"cached_tokens":0}})");
}

TEST_F(ChatServiceTest, StreamsChats) {
  Start();
  port_.AnswerWith("ok");
  const HttpResponse response =
      Send("POST", "/v1/chat/completions",
           std::string(kChat) + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  SseReader reader;
  reader.Append(response.body);
  const auto delta = [&] {
    const auto json = Json::Parse(reader.Next().value_or("{}"));
    EXPECT_EQ(Text(*json, {"object"}), R"("chat.completion.chunk")");
    return Text(*json, {"choices", "0", "delta"}) + Text(*json, {"choices", "0", "finish_reason"});
  };
  EXPECT_EQ(delta(), R"({"role":"assistant","content":""}null)");
  EXPECT_EQ(delta(), R"({"content":"o"}null)");
  EXPECT_EQ(delta(), R"({"content":"k"}"length")");
  EXPECT_THAT(reader.Next().value_or(""), HasSubstr(R"("choices":[],"usage":{"prompt_tokens":7,)"));
  EXPECT_EQ(reader.Next(), "[DONE]");
}

TEST_F(ChatServiceTest, GivesLogprobsOfChatsWithTheirBytes) {
  Start();
  auto answer = std::async(std::launch::async, [this] {
    return Ask("POST", "/v1/chat/completions",
               std::string(kChat) + R"(,"logprobs":true,"top_logprobs":1})");
  });
  const auto requests = port_.WaitForRequests(1);
  wire::TokenEvent event = {.sequence = requests[0].sequence};
  event.token = 0xE2;  // a part of a character
  event.logprobs = {{.logprob = -0.5f, .rank = 2, .top = {{'b', -0.25f}}}};
  event.finish = wire::FinishReason::kLength;
  port_.EmitEvents({event});
  EXPECT_EQ(Text(answer.get(), {"choices", "0", "logprobs"}),
            "{\"content\":[{\"token\":\"\uFFFD\",\"logprob\":-0.5,\"bytes\":[226],"
            "\"top_logprobs\":[{\"token\":\"b\",\"logprob\":-0.25,\"bytes\":[98]}]}],"
            "\"refusal\":null}");
}

TEST_F(ChatServiceTest, TokenizesConversations) {
  Start();
  const Json json = Ask("POST", "/tokenize", std::string(kChat) + "}");
  EXPECT_EQ(Text(json, {"count"}), "7");
  EXPECT_EQ(Text(json, {"max_model_len"}), "64");
}

// A count that leaves something out would be believed.
TEST_F(ChatServiceTest, TokenizesNoConversationThatItWouldNotAnswer) {
  Start();
  const auto refused = [this](const std::string& fields) {
    const HttpResponse response = Send("POST", "/tokenize", kChat + fields + "}");
    EXPECT_EQ(response.status, 400) << fields;
    const auto json = Json::Parse(response.body);
    return json.ok() ? Text(*json, {"error", "param"}) : response.body;
  };
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(refused(tools), R"("tools")");
  EXPECT_EQ(refused(R"(,"chat_template":"x")"), R"("chat_template")");
  EXPECT_EQ(refused(R"(,"return_token_strs":true)"), R"("return_token_strs")");
  const std::string left_out = R"(,"return_token_strs":false,"tool_choice":"none")" + tools;
  EXPECT_EQ(Text(Ask("POST", "/tokenize", kChat + left_out + "}"), {"count"}), "7");
}

}  // namespace
}  // namespace aril::gateway
