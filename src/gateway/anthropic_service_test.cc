// Messages over HTTP: answers, the events of streams, errors.

#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class AnthropicServiceTest : public AnswerTest {
 protected:
  AnthropicServiceTest()
      : AnswerTest("/v1/messages",
                   R"({"model":"base","messages":[{"role":"user","content":"Hi"}])") {}

  static constexpr char kCall[] = R"(<call>{"name": "add", "arguments": {"a": 1}}</call>)";
  static constexpr char kTools[] = R"(,"tools":[{"name":"add","input_schema":{"type":"object"}}])";

  // Why an answer ended, and with which stop string.
  static std::string EndOf(const Json& message) {
    return Text(message, {"stop_reason"}) + Text(message, {"stop_sequence"});
  }
  // The message that a client puts together from a stream's events, as Anthropic's does it.
  static Json Accumulated(const std::vector<Json>& events) {
    Json message;
    std::string input;
    for (const Json& event : events) {
      const std::string& type = *event.Find("type")->AsString();
      if (type == "message_start") message = *event.Find("message");
      if (type == "content_block_start") {
        Json::Array& content = *message.Find("content")->AsArray();
        EXPECT_EQ(Text(event, {"index"}), StrCat(content.size()));
        content.push_back(*event.Find("content_block"));
        input.clear();
      }
      if (type == "content_block_delta") {
        Json& block = message.Find("content")->AsArray()->back();
        for (const auto& [name, value] : *event.Find("delta")->AsObject()) {
          if (name == "partial_json") input += *value.AsString();
          if (name == "text" || name == "thinking" || name == "signature") {
            *block.Find(name) = *block.Find(name)->AsString() + *value.AsString();
          }
        }
      }
      if (type == "content_block_stop" && !input.empty()) {
        *message.Find("content")->AsArray()->back().Find("input") = *Json::Parse(input);
      }
      if (type == "message_delta") {
        for (const auto& [name, value] : *event.Find("delta")->AsObject()) {
          *message.Find(name) = value;
        }
        *message.Find("usage") = *event.Find("usage");
      }
    }
    return message;
  }
};

TEST_F(AnthropicServiceTest, Answers) {
  Start();
  const Json json = Parsed(AskModel(R"(,"max_tokens":9)", "ok"));
  EXPECT_THAT(*At(json, {"id"}).AsString(), MatchesRegex("msg_[0-9a-f]{32}"));
  EXPECT_EQ(Text(json, {"type"}) + Text(json, {"role"}) + Text(json, {"model"}),
            R"("message""assistant""base")");
  EXPECT_EQ(Text(json, {"content"}), R"([{"type":"text","text":"ok"}])");
  EXPECT_EQ(EndOf(json), R"("end_turn"null)");
  EXPECT_EQ(Text(json, {"usage"}),
            R"({"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,)"
            R"("output_tokens":2,"output_tokens_details":{"thinking_tokens":0}})");
}

TEST_F(AnthropicServiceTest, CountsWhatWasCachedApart) {
  Start();
  auto answer = SendLater("");
  wire::TokenEvent event = {.sequence = WaitForRequest(), .index = 0, .token = 'a'};
  event.num_cached = 5;
  event.finish = wire::FinishReason::kStop;
  port_.EmitEvents({event});
  const Json usage = At(Parsed(answer.get()), {"usage"});
  EXPECT_EQ(Text(usage, {"input_tokens"}), "2");
  EXPECT_EQ(Text(usage, {"cache_read_input_tokens"}), "5");
}

TEST_F(AnthropicServiceTest, SaysWhyAnAnswerEnded) {
  Start();
  const auto end = [this](const std::string& members, std::string_view says,
                          wire::FinishReason finish = wire::FinishReason::kStop) {
    const Json whole = Parsed(AskModel(members, says, finish));
    const auto events = TypedEvents(AskModel(members + R"(,"stream":true)", says, finish));
    EXPECT_EQ(EndOf(At(events[events.size() - 2], {"delta"})), EndOf(whole));
    return EndOf(whole);
  };
  EXPECT_EQ(end("", "ok"), R"("end_turn"null)");
  EXPECT_EQ(end(R"(,"max_tokens":2)", "ok", wire::FinishReason::kLength), R"("max_tokens"null)");
  EXPECT_EQ(end(R"(,"max_tokens":99)", "ok", wire::FinishReason::kLength),
            R"("model_context_window_exceeded"null)");
  EXPECT_EQ(end(R"(,"stop_sequences":["y","xx"])", "okxx"), R"("stop_sequence""xx")");
  EXPECT_EQ(end(kTools, kCall), R"("tool_use"null)");
  EXPECT_EQ(end(std::string(kTools) + R"(,"tool_choice":{"type":"tool","name":"add"})", kCall),
            R"("tool_use"null)");
  EXPECT_EQ(end(kTools, "ok"), R"("end_turn"null)");
}

TEST_F(AnthropicServiceTest, HasThinkingTextAndUsesAsBlocks) {
  Start();
  const Json json = Parsed(AskModel(kTools, StrCat("<think>Hm</think>So\n", kCall, kCall)));
  const Json::Array& content = *At(json, {"content"}).AsArray();
  ASSERT_EQ(content.size(), 4u);
  EXPECT_EQ(content[0].Dump(), R"({"type":"thinking","thinking":"Hm","signature":"unsigned"})");
  EXPECT_EQ(content[1].Dump(), R"({"type":"text","text":"So"})");
  for (size_t i = 2; i < 4; ++i) {
    EXPECT_THAT(content[i].Dump(),
                MatchesRegex(R"(\{"type":"tool_use","id":"[0-9A-Za-z]{9}","name":"add",)"
                             R"("input":\{"a":1\}\})"));
  }
  EXPECT_NE(Text(content[2], {"id"}), Text(content[3], {"id"}));
  EXPECT_EQ(Text(json, {"usage", "output_tokens_details"}), R"({"thinking_tokens":17})");
}

TEST_F(AnthropicServiceTest, LeavesThinkingOutIfAsked) {
  Start();
  const std::string omitted = R"(,"thinking":{"type":"enabled","display":"omitted"})";
  EXPECT_EQ(Text(Parsed(AskModel(omitted, "<think>Hm</think>So")), {"content"}),
            R"([{"type":"text","text":"So"}])");
}

// Whatever a client keeps of it: also where there is nothing, or only a part.
TEST_F(AnthropicServiceTest, StreamsWhatItAnswersAtOnce) {
  Start();
  struct Case {
    std::string members;
    std::string says;
    wire::FinishReason finish = wire::FinishReason::kStop;
  };
  for (const Case& c :
       {Case{"", "ok"}, Case{"", "<think>Hm</think>So"}, Case{"", "<think>Hm"},
        Case{"", "<think>Hm</think>"}, Case{"", "<think>Hm", wire::FinishReason::kLength},
        Case{kTools, StrCat("<think>Hm</think>So\n", kCall, kCall)}, Case{kTools, kCall}}) {
    const Json whole = Parsed(AskModel(c.members, c.says, c.finish));
    const auto events = TypedEvents(AskModel(c.members + R"(,"stream":true)", c.says, c.finish));
    const Json streamed = Accumulated(events);
    const auto without_ids = [](const Json& message) {
      std::string text = EndOf(message) + Text(message, {"usage"});
      for (const Json& block : *At(message, {"content"}).AsArray()) {
        for (const auto& [name, value] : *block.AsObject()) {
          if (name != "id") text += name + value.Dump();
        }
      }
      return text;
    };
    EXPECT_EQ(without_ids(streamed), without_ids(whole)) << c.says;
    EXPECT_EQ(Types(events).back(), "message_stop");
  }
}

TEST_F(AnthropicServiceTest, AnswersWithATextThoughItBeEmpty) {
  Start();
  for (const char* stream : {"", R"(,"stream":true)"}) {
    auto answer = SendLater(stream);
    port_.EmitStopToken(WaitForRequest(), kEosToken);
    const HttpResponse response = answer.get();
    const Json message = *stream == 0 ? Parsed(response) : Accumulated(TypedEvents(response));
    EXPECT_EQ(Text(message, {"content"}), R"([{"type":"text","text":""}])");
  }
}

TEST_F(AnthropicServiceTest, StreamsEvents) {
  Start();
  const auto events = TypedEvents(AskModel(R"(,"stream":true)", "<think>H</think>ok"));
  EXPECT_THAT(Types(events),
              ElementsAre("message_start", "content_block_start", "content_block_delta",
                          "content_block_delta", "content_block_stop", "content_block_start",
                          "content_block_delta", "content_block_delta", "content_block_stop",
                          "message_delta", "message_stop"));
  EXPECT_EQ(Text(events[0], {"message", "content"}) + EndOf(At(events[0], {"message"})),
            "[]nullnull");
  EXPECT_EQ(Text(events[0], {"message", "usage", "input_tokens"}), "7");
  EXPECT_EQ(events[1].Dump(), R"({"type":"content_block_start","index":0,"content_block":)"
                              R"({"type":"thinking","thinking":"","signature":""}})");
  EXPECT_EQ(events[2].Dump(), R"({"type":"content_block_delta","index":0,)"
                              R"("delta":{"type":"thinking_delta","thinking":"H"}})");
  EXPECT_EQ(events[3].Dump(), R"({"type":"content_block_delta","index":0,)"
                              R"("delta":{"type":"signature_delta","signature":"unsigned"}})");
  EXPECT_EQ(events[4].Dump(), R"({"type":"content_block_stop","index":0})");
  EXPECT_EQ(events[5].Dump(), R"({"type":"content_block_start","index":1,"content_block":)"
                              R"({"type":"text","text":""}})");
  EXPECT_EQ(events[6].Dump(), R"({"type":"content_block_delta","index":1,)"
                              R"("delta":{"type":"text_delta","text":"o"}})");
  EXPECT_EQ(Text(events[9], {"delta"}), R"({"stop_reason":"end_turn","stop_sequence":null})");
  EXPECT_EQ(events[10].Dump(), R"({"type":"message_stop"})");
}

TEST_F(AnthropicServiceTest, StreamsUsesAsTheyGrow) {
  Start();
  const auto events = TypedEvents(AskModel(StrCat(kTools, R"(,"stream":true)"), kCall));
  EXPECT_THAT(
      Text(events[1], {"content_block"}),
      MatchesRegex(R"(\{"type":"tool_use","id":"[0-9A-Za-z]{9}","name":"add","input":\{\}\})"));
  std::string input;
  for (size_t i = 2; i + 3 < events.size(); ++i) {
    EXPECT_EQ(Text(events[i], {"delta", "type"}), R"("input_json_delta")");
    input += *At(events[i], {"delta", "partial_json"}).AsString();
  }
  EXPECT_EQ(input, R"({"a": 1})");
}

// Nobody can make it; in a stream its beginning has been shown already.
TEST_F(AnthropicServiceTest, LeavesOutAUseThatWasCut) {
  Start();
  const Json cut =
      Parsed(AskModel(StrCat(kTools, R"(,"max_tokens":45)"),
                      R"(So<call>{"name": "add", "arguments": {"a)", wire::FinishReason::kLength));
  EXPECT_EQ(Text(cut, {"content"}), R"([{"type":"text","text":"So"}])");
  EXPECT_EQ(EndOf(cut), R"("max_tokens"null)");
}

// What the grammar of a schema allows may name a member twice, which is no reason to lose it.
TEST_F(AnthropicServiceTest, KeepsAnyInputThatIsWhole) {
  Start();
  for (const char* input : {R"({"a": 1, "a": 2})", R"({"}": "\"}", "a": [{}]})"}) {
    const HttpResponse response =
        AskModel(kTools, StrCat(R"(<call>{"name": "add", "arguments": )", input, "}</call>"));
    EXPECT_THAT(response.body, HasSubstr(StrCat(R"("name":"add","input":)", input, "}")));
    EXPECT_THAT(response.body, HasSubstr(R"("stop_reason":"tool_use")"));
  }
}

TEST_F(AnthropicServiceTest, StreamsSayWhyTheyFailed) {
  Start();
  auto answer = SendLater(R"(,"stream":true)");
  const SequenceId sequence = WaitForRequest();
  port_.Emit(sequence, "o");
  port_.EmitError(sequence, Internal("broken"));
  const auto events = TypedEvents(answer.get());
  EXPECT_THAT(Types(events),
              ElementsAre("message_start", "content_block_start", "content_block_delta", "error"));
  EXPECT_EQ(Text(events.back(), {"error", "type"}), R"("api_error")");
  EXPECT_THAT(Text(events.back(), {"error", "message"}), HasSubstr("broken"));
}

TEST_F(AnthropicServiceTest, ErrorsAreAnthropics) {
  Start({.api_keys = ApiKeys(std::vector<ApiKey>{{.key = "k", .tenant = "t"}})});
  const auto error = [this](const std::string& method, const std::string& path,
                            const std::string& body, const std::string& key) {
    const HttpResponse response = Send(method, path, body, {{"x-api-key", key}});
    const auto json = Json::Parse(response.body);
    EXPECT_TRUE(json.ok()) << response.body;
    EXPECT_EQ(Text(*json, {"type"}), R"("error")") << response.body;
    return StrCat(response.status, " ", *At(*json, {"error", "type"}).AsString());
  };
  const std::string path = "/v1/messages";
  EXPECT_EQ(error("POST", path, "{}", "k"), "400 invalid_request_error");
  EXPECT_EQ(error("POST", path + "/count_tokens", "{}", "k"), "400 invalid_request_error");
  EXPECT_EQ(error("POST", path, "{}", "wrong"), "401 authentication_error");
  EXPECT_EQ(error("GET", path, "", "wrong"), "401 authentication_error");
  EXPECT_EQ(error("POST", path, R"({"model":"x","messages":[]})", "k"), "404 not_found_error");
  EXPECT_EQ(error("POST", path + "/batches", "{}", "k"), "404 not_found_error");
  EXPECT_EQ(error("GET", path, "", "k"), "405 invalid_request_error");
  port_.RefuseAfter(0, ResourceExhausted("full"));
  const std::string hi = R"({"model":"base","messages":[{"role":"user","content":"Hi"}])";
  EXPECT_EQ(error("POST", path, hi + "}", "k"), "503 overloaded_error");
  EXPECT_EQ(error("POST", path, hi + R"(,"stream":true})", "k"), "503 overloaded_error");
}

TEST_F(AnthropicServiceTest, ErrorsOfAServerThatEndsAreAnthropics) {
  Start();
  auto answer = SendLater("");
  WaitForRequest();
  server_->Post([this] { gateway_->FailAll("The server is shutting down."); });
  const HttpResponse response = answer.get();
  EXPECT_EQ(response.status, 503);
  EXPECT_THAT(response.body, HasSubstr(R"({"type":"error","error":{)"));
}

TEST_F(AnthropicServiceTest, CountsTokens) {
  Start();
  const auto count = [this](const std::string& members) {
    return Ask("POST", "/v1/messages/count_tokens", "{" + members + "}").Dump();
  };
  const std::string hi = R"("messages":[{"role":"user","content":"Hi"}])";
  for (const std::string& more :
       {std::string(), R"(,"system":"Be brief.")" + std::string(kTools)}) {
    const Json answer = Parsed(AskModel(more, "So"));
    EXPECT_EQ(count(R"("model":"base",)" + hi + more),
              R"({"input_tokens":)" + Text(answer, {"usage", "input_tokens"}) + "}");
  }
  EXPECT_EQ(count(hi), R"({"input_tokens":7})") << "of the base model";
  EXPECT_EQ(Send("POST", "/v1/messages/count_tokens", R"({"model":"base"})").status, 400);
  EXPECT_EQ(Send("GET", "/v1/messages/count_tokens").status, 405);
}

}  // namespace
}  // namespace aril::gateway
