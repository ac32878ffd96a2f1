// Chat completions over HTTP: answers, streams, logprobs.

#include "base/strings.h"
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
                                   R"("prompt_tokens_details":{"cached_tokens":0},)"
                                   R"("completion_tokens_details":{"reasoning_tokens":0}})");
}

TEST_F(ChatServiceTest, SaysHowGoodAPredictionWas) {
  Start();
  auto answer = std::async(std::launch::async, [this] {
    return Ask("POST", "/v1/chat/completions",
               std::string(kChat) + R"(,"n":2,"prediction":{"type":"content","content":"abc"}})");
  });
  for (const wire::SequenceRequest& request : port_.WaitForRequests(2)) {
    EXPECT_EQ(request.prediction.size(), 2u) << "as the answer";
    wire::TokenEvent first = {.sequence = request.sequence, .index = 0, .token = 'a'};
    first.prediction_use = {.num_accepted = 1, .num_rejected = 0};
    wire::TokenEvent last = {.sequence = request.sequence, .index = 1, .token = 'x'};
    last.prediction_use = {.num_accepted = 0, .num_rejected = 2};
    last.finish = wire::FinishReason::kLength;
    port_.EmitEvents({first, last});
  }
  EXPECT_EQ(Text(answer.get(), {"usage", "completion_tokens_details"}),
            R"({"reasoning_tokens":0,"accepted_prediction_tokens":2,)"
            R"("rejected_prediction_tokens":4})");
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

class ToolCallsTest : public ChatServiceTest {
 protected:
  static constexpr char kAdd[] = R"(<call>{"name": "add", "arguments": {"a": 1}}</call>)";

  // What a request with tools is answered if the model says this.
  HttpResponse AskModel(const std::string& fields, std::string_view says,
                        wire::FinishReason finish = wire::FinishReason::kStop) {
    auto answer = std::async(std::launch::async, [this, fields] {
      return Send("POST", "/v1/chat/completions",
                  R"({"model":"base","messages":[{"role":"user","content":"Hi"}],)"
                  R"("tools":[{"type":"function","function":{"name":"add"}}])" +
                      fields + "}");
    });
    const auto requests = port_.WaitForRequests(++num_requests_);
    port_.Emit(requests.back().sequence, says, finish);
    return answer.get();
  }
  static Json Choice(const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    const auto json = Json::Parse(response.body);
    const Json* choices = json.ok() ? json->Find("choices") : nullptr;
    return choices == nullptr ? Json() : choices->AsArray()->front();
  }

 private:
  size_t num_requests_ = 0;
};

TEST_F(ToolCallsTest, AreInTheMessage) {
  Start();
  const Json choice = Choice(AskModel("", StrCat("Well.\n", kAdd, kAdd)));
  EXPECT_EQ(Text(choice, {"finish_reason"}), R"("tool_calls")");
  EXPECT_EQ(Text(choice, {"message", "content"}), R"("Well.")");
  const Json::Array& calls = *choice.Find("message")->Find("tool_calls")->AsArray();
  ASSERT_EQ(calls.size(), 2u);
  for (const Json& call : calls) {
    EXPECT_EQ(Text(call, {"type"}), R"("function")");
    EXPECT_EQ(Text(call, {"function"}), R"({"name":"add","arguments":"{\"a\": 1}"})");
    EXPECT_THAT(*call.Find("id")->AsString(), ::testing::MatchesRegex("[0-9A-Za-z]{9}"));
    EXPECT_EQ(call.Find("index"), nullptr);
  }
  EXPECT_NE(Text(calls[0], {"id"}), Text(calls[1], {"id"}));
  EXPECT_EQ(Text(Choice(AskModel("", kAdd)), {"message", "content"}), "null");
}

TEST_F(ToolCallsTest, AreNotThereWhereNoneIsMade) {
  Start();
  const Json choice = Choice(AskModel("", "Hello <you>"));
  EXPECT_EQ(Text(choice, {"finish_reason"}), R"("stop")");
  EXPECT_EQ(Text(choice, {"message"}),
            R"({"role":"assistant","content":"Hello <you>","refusal":null})");
}

TEST_F(ToolCallsTest, SayHowTheyEnded) {
  Start();
  const std::string named = R"(,"tool_choice":{"type":"function","function":{"name":"add"}})";
  EXPECT_EQ(Text(Choice(AskModel(named, kAdd)), {"finish_reason"}), R"("stop")")
      << "as with OpenAI: who asked for the call knows of it";
  EXPECT_EQ(Text(Choice(AskModel(R"(,"tool_choice":"required")", kAdd)), {"finish_reason"}),
            R"("tool_calls")");
  const Json cut = Choice(
      AskModel("", R"(<call>{"name": "add", "arguments": {"a)", wire::FinishReason::kLength));
  EXPECT_EQ(Text(cut, {"finish_reason"}), R"("length")");
  EXPECT_EQ(Text(cut, {"message", "tool_calls", "0", "function", "arguments"}), R"("{\"a")");
  const Json stopped = Choice(AskModel(R"(,"stop":"\"a\"")", kAdd));
  EXPECT_EQ(Text(stopped, {"finish_reason"}), R"("stop")");
  EXPECT_EQ(Text(stopped, {"message", "tool_calls", "0", "function", "arguments"}), R"("{")");
}

TEST_F(ToolCallsTest, ComeInStreamsAsTheyAreMade) {
  Start();
  const HttpResponse response = AskModel(R"(,"stream":true)", StrCat("So\n", kAdd));
  SseReader reader;
  reader.Append(response.body);
  std::vector<std::string> deltas;
  std::string id;
  for (auto event = reader.Next(); event && *event != "[DONE]"; event = reader.Next()) {
    const auto json = Json::Parse(*event);
    ASSERT_TRUE(json.ok()) << *event;
    const std::string call_id = Text(*json, {"choices", "0", "delta", "tool_calls", "0", "id"});
    if (call_id.size() == 11) id = call_id;
    deltas.push_back(Text(*json, {"choices", "0", "delta"}) +
                     Text(*json, {"choices", "0", "finish_reason"}));
  }
  const auto arguments = [](const std::string& text) {
    return R"({"tool_calls":[{"index":0,"function":{"arguments":)" + JsonQuote(text) + "}}]}null";
  };
  EXPECT_THAT(deltas,
              ::testing::ElementsAre(
                  R"({"role":"assistant","content":""}null)", R"({"content":"S"}null)",
                  R"({"content":"o"}null)",
                  R"({"tool_calls":[{"index":0,"id":)" + id +
                      R"(,"type":"function","function":{"name":"add","arguments":""}}]}null)",
                  arguments("{"), arguments("\""), arguments("a"), arguments("\""), arguments(":"),
                  arguments(" "), arguments("1"), arguments("}"), R"({}"tool_calls")"));
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
  EXPECT_EQ(refused(R"(,"tools":[3])"), R"("tools[0]")");
  EXPECT_EQ(refused(R"(,"chat_template":"x")"), R"("chat_template")");
  EXPECT_EQ(refused(R"(,"return_token_strs":true)"), R"("return_token_strs")");
  const std::string left_out = R"(,"return_token_strs":false,"tool_choice":"none")" + tools;
  EXPECT_EQ(Text(Ask("POST", "/tokenize", kChat + left_out + "}"), {"count"}), "7");
  EXPECT_EQ(Text(Ask("POST", "/tokenize", kChat + tools + "}"), {"count"}), "9") << "with \"f,\"";
}

}  // namespace
}  // namespace aril::gateway
