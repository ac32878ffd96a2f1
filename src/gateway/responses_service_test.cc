// Responses over HTTP: answers, and the events of streams.

#include "base/strings.h"
#include "gateway/gateway_test_fixture.h"
#include "gateway/generation_fields.h"
#include "gateway/json_fields.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ResponsesServiceTest : public AnswerTest {
 protected:
  ResponsesServiceTest() : AnswerTest("/v1/responses", R"({"model":"base","input":"Hi")") {}

  static constexpr char kCall[] = R"(<call>{"name": "add", "arguments": {"a": 1}}</call>)";
  static constexpr char kTools[] = R"(,"tools":[{"type":"function","name":"add"}])";
  static constexpr char kWithLogprobs[] =
      R"(,"reasoning_format":"none","top_logprobs":1,"include":["message.output_text.logprobs"])";

  // The events of a stream, whose numbers are right.
  static std::vector<Json> Events(const HttpResponse& response) {
    std::vector<Json> events = TypedEvents(response);
    for (size_t i = 0; i < events.size(); ++i) {
      EXPECT_EQ(Text(events[i], {"sequence_number"}), StrCat(i));
    }
    return events;
  }
  // Of the only event of this type.
  static Json Only(const std::vector<Json>& events, const std::string& type) {
    Json found;
    for (const Json& event : events) {
      if (!IsText(event.Find("type"), type)) continue;
      EXPECT_TRUE(found.is_null()) << type;
      found = event;
    }
    EXPECT_FALSE(found.is_null()) << type;
    return found;
  }
  // All deltas of this type, joined.
  static std::string Joined(const std::vector<Json>& events, const std::string& type) {
    std::string text;
    for (const Json& event : events) {
      if (IsText(event.Find("type"), type)) text += *event.Find("delta")->AsString();
    }
    return text;
  }
};

TEST_F(ResponsesServiceTest, Answers) {
  Start();
  const Json json = Parsed(AskModel(R"(,"max_output_tokens":9)", "ok"));
  EXPECT_THAT(*At(json, {"id"}).AsString(), MatchesRegex("resp_[0-9a-f]{32}"));
  const std::string digits = At(json, {"id"}).AsString()->substr(5);
  EXPECT_EQ(Text(json, {"object"}), R"("response")");
  EXPECT_EQ(Text(json, {"created_at"}), StrCat(clock_.UnixSeconds()));
  EXPECT_EQ(Text(json, {"status"}), R"("completed")");
  EXPECT_EQ(Text(json, {"model"}), R"("base")");
  EXPECT_EQ(Text(json, {"error"}) + Text(json, {"incomplete_details"}), "nullnull");
  EXPECT_EQ(Text(json, {"max_output_tokens"}), "9");
  EXPECT_EQ(Text(json, {"output"}),
            R"([{"type":"message","id":"msg_)" + digits +
                R"(_0","status":"completed","role":"assistant","content":)"
                R"([{"type":"output_text","text":"ok","annotations":[],"logprobs":[]}]}])");
  EXPECT_EQ(Text(json, {"usage"}),
            R"({"input_tokens":7,"input_tokens_details":{"cached_tokens":0},"output_tokens":2,)"
            R"("output_tokens_details":{"reasoning_tokens":0},"total_tokens":9})");
}

TEST_F(ResponsesServiceTest, SayThatTheyWereCut) {
  Start();
  const Json json = Parsed(AskModel("", "ok", wire::FinishReason::kLength));
  EXPECT_EQ(Text(json, {"status"}), R"("incomplete")");
  EXPECT_EQ(Text(json, {"incomplete_details"}), R"({"reason":"max_output_tokens"})");
  EXPECT_EQ(Text(json, {"output", "0", "status"}), R"("incomplete")");
}

TEST_F(ResponsesServiceTest, HaveAMessageThoughItBeEmpty) {
  Start();
  auto answer = SendLater("");
  port_.EmitStopToken(WaitForRequest(), kEosToken);
  EXPECT_EQ(Text(Parsed(answer.get()), {"output", "0", "content", "0", "text"}), R"("")");
  answer = SendLater(R"(,"stream":true)");
  port_.EmitStopToken(WaitForRequest(), kEosToken);
  EXPECT_EQ(Text(Only(Events(answer.get()), "response.completed"),
                 {"response", "output", "0", "content", "0", "text"}),
            R"("")");
}

TEST_F(ResponsesServiceTest, HaveReasoningTextAndCallsAsItems) {
  Start();
  const Json json = Parsed(AskModel(kTools, StrCat("<think>Hm</think>So\n", kCall, kCall)));
  const Json::Array& output = *At(json, {"output"}).AsArray();
  ASSERT_EQ(output.size(), 4u);
  EXPECT_EQ(Text(output[0], {"type"}), R"("reasoning")");
  EXPECT_EQ(Text(output[0], {"content"}), R"([{"type":"reasoning_text","text":"Hm"}])");
  EXPECT_EQ(Text(output[0], {"summary"}), "[]");
  EXPECT_EQ(Text(output[1], {"content", "0", "text"}), R"("So")");
  for (size_t i = 2; i < 4; ++i) {
    EXPECT_EQ(Text(output[i], {"type"}), R"("function_call")");
    EXPECT_EQ(Text(output[i], {"name"}), R"("add")");
    EXPECT_EQ(Text(output[i], {"arguments"}), R"("{\"a\": 1}")");
    EXPECT_THAT(*At(output[i], {"call_id"}).AsString(), MatchesRegex("[0-9A-Za-z]{9}"));
    EXPECT_THAT(*At(output[i], {"id"}).AsString(), StartsWith("fc_"));
  }
  EXPECT_NE(Text(output[2], {"call_id"}), Text(output[3], {"call_id"}));
  EXPECT_EQ(Text(json, {"usage", "output_tokens_details"}), R"({"reasoning_tokens":17})");
  EXPECT_THAT(*At(Parsed(AskModel(kTools, kCall)), {"output"}).AsArray(), SizeIs(1))
      << "no empty message";
  const Json cut = Parsed(AskModel("", "<think>Hm", wire::FinishReason::kLength));
  ASSERT_THAT(*At(cut, {"output"}).AsArray(), SizeIs(1));
  EXPECT_EQ(Text(cut, {"output", "0", "type"}), R"("reasoning")");
}

TEST_F(ResponsesServiceTest, StreamText) {
  Start();
  const auto events = Events(AskModel(R"(,"stream":true,"instructions":"I")", "ok"));
  EXPECT_THAT(
      Types(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta",
                  "response.output_text.delta", "response.output_text.done",
                  "response.content_part.done", "response.output_item.done", "response.completed"));
  const std::string id = *At(events[0], {"response", "id"}).AsString();
  const std::string where =
      R"("item_id":"msg_)" + id.substr(5) + R"(_0","output_index":0,"content_index":0,)";
  EXPECT_EQ(Text(events[0], {"response", "status"}), R"("in_progress")");
  EXPECT_EQ(Text(events[0], {"response", "output"}) + Text(events[0], {"response", "usage"}),
            "[]null");
  EXPECT_EQ(Text(events[1], {"response", "instructions"}), R"("I")");
  EXPECT_EQ(Text(events[2], {"item"}),
            R"({"type":"message","id":"msg_)" + id.substr(5) +
                R"(_0","status":"in_progress","role":"assistant","content":[]})");
  EXPECT_EQ(events[3].Dump(),
            R"({"type":"response.content_part.added","sequence_number":3,)" + where +
                R"("part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}})");
  EXPECT_EQ(events[5].Dump(), R"({"type":"response.output_text.delta","sequence_number":5,)" +
                                  where + R"("delta":"k","logprobs":[]})");
  EXPECT_EQ(events[6].Dump(), R"({"type":"response.output_text.done","sequence_number":6,)" +
                                  where + R"("text":"ok","logprobs":[]})");
  EXPECT_EQ(Text(events[8], {"item"}), Text(events[9], {"response", "output", "0"}));
  EXPECT_EQ(Text(events[9], {"response", "usage", "total_tokens"}), "13");
  EXPECT_EQ(Text(events[9], {"response", "id"}), JsonQuote(id));
}

// Whatever a client keeps of it.
TEST_F(ResponsesServiceTest, StreamWhatTheyAnswerAtOnce) {
  Start();
  const std::string says = StrCat("<think>Hm</think>So\n", kCall, kCall);
  const Json whole = Parsed(AskModel(kTools, says));
  const auto events = Events(AskModel(StrCat(kTools, R"(,"stream":true)"), says));
  const Json last = Only(events, "response.completed");
  const auto without_ids = [](const Json& response) {
    std::string text;
    for (const Json& item : *At(response, {"output"}).AsArray()) {
      for (const auto& [name, value] : *item.AsObject()) {
        if (name != "id" && name != "call_id") text += name + value.Dump();
      }
    }
    return text;
  };
  EXPECT_EQ(without_ids(*last.Find("response")), without_ids(whole));
  EXPECT_EQ(Text(last, {"response", "usage"}), Text(whole, {"usage"}));
  EXPECT_EQ(Joined(events, "response.reasoning_text.delta"), "Hm");
  EXPECT_EQ(Joined(events, "response.output_text.delta"), "So");
  EXPECT_EQ(Joined(events, "response.function_call_arguments.delta"), R"({"a": 1}{"a": 1})");
  EXPECT_EQ(Text(Only(events, "response.reasoning_text.done"), {"text"}), R"("Hm")");
  // Each item as it was when it had ended.
  size_t num_done = 0;
  for (const Json& event : events) {
    if (!IsText(event.Find("type"), "response.output_item.done")) continue;
    EXPECT_EQ(Text(event, {"item"}), Text(last, {"response", "output", StrCat(num_done++)}));
  }
  EXPECT_EQ(num_done, 4u);
}

TEST_F(ResponsesServiceTest, StreamsSayThatTheyWereCut) {
  Start();
  const auto cut = Events(AskModel(R"(,"stream":true)", "ok", wire::FinishReason::kLength));
  const Json last = Only(cut, "response.incomplete");
  EXPECT_EQ(Text(last, {"response", "incomplete_details", "reason"}), R"("max_output_tokens")");
  EXPECT_EQ(Text(Only(cut, "response.output_item.done"), {"item", "status"}), R"("incomplete")");
  const auto in_reasoning =
      Events(AskModel(R"(,"stream":true)", "<think>Hm", wire::FinishReason::kLength));
  EXPECT_THAT(*At(Only(in_reasoning, "response.incomplete"), {"response", "output"}).AsArray(),
              SizeIs(1));
}

// Nothing is said to be done: clients would read an object that was cut, or make the call.
TEST_F(ResponsesServiceTest, StreamsSayWhyTheyFailed) {
  Start();
  auto answer = SendLater(R"(,"stream":true)");
  SequenceId sequence = WaitForRequest();
  port_.Emit(sequence, "o");
  port_.EmitError(sequence, Internal("broken"));
  const auto events = Events(answer.get());
  EXPECT_THAT(
      Types(events),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta", "response.failed"));
  EXPECT_EQ(Text(events.back(), {"response", "status"}), R"("failed")");
  EXPECT_EQ(Text(events.back(), {"response", "error", "code"}), R"("server_error")");
  EXPECT_THAT(Text(events.back(), {"response", "error", "message"}), HasSubstr("broken"));
  EXPECT_EQ(Text(events.back(), {"response", "output", "0", "status"}), R"("incomplete")");
  EXPECT_EQ(Text(events.back(), {"response", "output", "0", "content", "0", "text"}), R"("o")");

  answer = SendLater(StrCat(kTools, R"(,"stream":true)"));
  sequence = WaitForRequest();
  port_.Emit(sequence, R"(<call>{"name": "add", "arguments": {"a)");
  port_.EmitError(sequence, InvalidArgument(std::string(5000, 'x')));
  const auto of_call = Events(answer.get());
  EXPECT_EQ(Text(of_call.back(), {"response", "output", "0", "arguments"}), R"("{\"a")");
  EXPECT_EQ(Text(of_call.back(), {"response", "error", "code"}), R"("invalid_prompt")");
  EXPECT_LT(of_call.back().Dump().size(), 3000u);
  for (const std::string& type : Types(of_call)) EXPECT_FALSE(type.ends_with(".done")) << type;
}

TEST_F(ResponsesServiceTest, ThatFailBeforeTheyBeginAreErrorsAsAnywhere) {
  Start();
  port_.RefuseAfter(0, ResourceExhausted("full"));
  for (const char* stream : {"", R"(,"stream":true)"}) {
    const HttpResponse response = SendLater(stream).get();
    EXPECT_EQ(response.status, 503);
    EXPECT_THAT(response.body, HasSubstr(R"({"error":{)"));
  }
}

TEST_F(ResponsesServiceTest, GiveLogprobsOfTheirText) {
  Start();
  wire::TokenEvent event = {.token = 'a', .finish = wire::FinishReason::kStop};
  event.logprobs = {{.logprob = -0.5f, .rank = 2, .top = {{'b', -0.25f}}}};
  const std::string expected = R"([{"token":"a","logprob":-0.5,"bytes":[97],)"
                               R"("top_logprobs":[{"token":"b","logprob":-0.25,"bytes":[98]}]}])";
  auto answer = SendLater(kWithLogprobs);
  event.sequence = WaitForRequest();
  port_.EmitEvents({event});
  EXPECT_EQ(Text(Parsed(answer.get()), {"output", "0", "content", "0", "logprobs"}), expected);
  answer = SendLater(StrCat(kWithLogprobs, R"(,"stream":true)"));
  event.sequence = WaitForRequest();
  port_.EmitEvents({event});
  const auto events = Events(answer.get());
  EXPECT_EQ(Text(Only(events, "response.output_text.delta"), {"logprobs"}), expected);
  EXPECT_EQ(Text(Only(events, "response.output_text.done"), {"logprobs"}), expected);
  EXPECT_EQ(Text(Only(events, "response.completed"),
                 {"response", "output", "0", "content", "0", "logprobs"}),
            expected);
}

// All of them would be in the last four events.
TEST_F(ResponsesServiceTest, DoNotRepeatMoreLogprobsThanAFew) {
  Start();
  const auto top = static_cast<size_t>(kMaxLogprobsRepeated) - 1;
  for (const size_t num_top : {top, top + 1}) {
    auto answer = SendLater(StrCat(kWithLogprobs, R"(,"stream":true)"));
    wire::TokenEvent event = {
        .sequence = WaitForRequest(), .token = 'a', .finish = wire::FinishReason::kStop};
    event.logprobs = {
        {.logprob = -0.5f, .top = std::vector<wire::TokenLogprob>(num_top, {'b', -1})}};
    port_.EmitEvents({event});
    const std::string body = answer.get().body;
    size_t num_shown = 0;  // where the token stands itself, and not as an alternative
    for (size_t at = 0; (at = body.find(R"({"token":"a",)", at)) != std::string::npos; ++at) {
      ++num_shown;
    }
    EXPECT_EQ(num_shown, num_top == top ? 5u : 1u) << "in its delta, and in four ends";
  }
}

TEST_F(ResponsesServiceTest, TheirInputIsCounted) {
  Start();
  const auto count = [this](const std::string& members) {
    const Json json = Parsed(Send("POST", "/v1/responses/input_tokens", "{" + members + "}"));
    EXPECT_EQ(Text(json, {"object"}), R"("response.input_tokens")");
    return Text(json, {"input_tokens"});
  };
  const std::string input = R"("input":"Hi")";
  for (const std::string& more :
       {std::string(), R"(,"instructions":"Be brief.")" + std::string(kTools),
        R"(,"tool_choice":"none")" + std::string(kTools)}) {
    const Json answer = Parsed(AskModel(more, "So"));
    EXPECT_EQ(count(R"("model":"base",)" + input + more), Text(answer, {"usage", "input_tokens"}))
        << more;
  }
  EXPECT_EQ(count(input), "7");
  EXPECT_EQ(count(R"("model":"",)" + input), "7");
  EXPECT_GT(std::stoi(count(R"("input":")" + std::string(1000, 'x') + "\"")), 1000)
      << "more than the model takes";
}

TEST_F(ResponsesServiceTest, OnlyInputThatCouldBeAskedIsCounted) {
  Start();
  const auto refused = [this](const std::string& members) {
    const HttpResponse response = Send("POST", "/v1/responses/input_tokens", "{" + members + "}");
    EXPECT_NE(response.status, 200) << members;
    return Text(Json::Parse(response.body).value_or(Json()), {"error", "param"});
  };
  const std::string input = R"("input":"Hi")";
  EXPECT_EQ(refused(R"("model":"base")"), R"("input")");
  EXPECT_EQ(refused(R"("model":"none",)" + input), R"("model")");
  EXPECT_EQ(refused(R"("adapters":[{"name":"none"}],)" + input), R"("model")");
  EXPECT_EQ(refused(input + R"(,"previous_response_id":"resp_1")"), R"("previous_response_id")");
  // 128 bytes for each of 64 tokens.
  EXPECT_EQ(refused(R"("input":")" + std::string(8192, 'x') + "\""), R"("input")");
  EXPECT_EQ(Send("GET", "/v1/responses/input_tokens").status, 405);
}

TEST_F(ResponsesServiceTest, AreNotKept) {
  Start();
  EXPECT_EQ(Send("GET", "/v1/responses").status, 405);
  const HttpResponse one = Send("GET", "/v1/responses/resp_1");
  EXPECT_EQ(one.status, 404);
  EXPECT_THAT(one.body, HasSubstr("keeps no answers"));
  EXPECT_EQ(Send("DELETE", "/v1/responses/resp_1").status, 404);
  EXPECT_EQ(Send("POST", "/v1/responses/resp_1/cancel").status, 404);
}

}  // namespace
}  // namespace aril::gateway
