// What happens to completions between a request and its answer: text, streams, ends and errors.

#include <functional>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "base/retry_after.h"
#include "base/strings.h"
#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

using CompletionServiceTest = GatewayTest;

TEST_F(CompletionServiceTest, CompletesAPrompt) {
  Start();
  port_.AnswerWith("hello");
  const Json answer = Complete(R"("max_tokens":5)");
  EXPECT_THAT(*At(answer, {"id"}).AsString(), MatchesRegex("cmpl-[0-9a-f]{32}"));
  EXPECT_EQ(Text(answer, {"object"}), R"("text_completion")");
  EXPECT_EQ(Text(answer, {"model"}), R"("base")");
  EXPECT_EQ(Text(answer, {"choices"}),
            R"([{"index":0,"text":"hello","logprobs":null,"finish_reason":"length"}])");
  EXPECT_EQ(Text(answer, {"usage"}), R"({"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,)"
                                     R"("prompt_tokens_details":{"cached_tokens":0}})");
}

TEST_F(CompletionServiceTest, StreamsAPrompt) {
  Start();
  port_.AnswerWith("hey");
  const auto events = Stream(R"("stream_options":{"include_usage":true})");
  ASSERT_EQ(events.size(), 5u);
  EXPECT_THAT(events[0], HasSubstr(R"("choices":[{"index":0,"text":"h","logprobs":null,)"
                                   R"("finish_reason":null}],"usage":null})"));
  EXPECT_THAT(events[2], HasSubstr(R"("text":"y","logprobs":null,"finish_reason":"length"}])"));
  EXPECT_THAT(events[3],
              HasSubstr(R"("choices":[],"usage":{"prompt_tokens":3,"completion_tokens":3,)"));
  EXPECT_EQ(events[4], "[DONE]");
}

TEST_F(CompletionServiceTest, NeverSplitsACodePoint) {
  Start();
  port_.AnswerWith("a€\xE2\x82");
  const auto events = Stream(R"("return_token_ids":true)");
  ASSERT_EQ(events.size(), 7u);
  EXPECT_THAT(events[1], HasSubstr(R"("text":"","logprobs":null,"finish_reason":null,)"
                                   R"("token_ids":[226])"));
  EXPECT_THAT(events[3], HasSubstr(R"("text":"€")"));
  // What never becomes a code point is shown as U+FFFD at the end.
  EXPECT_THAT(events[5], HasSubstr("\"text\":\"\xEF\xBF\xBD\""));
}

TEST_F(CompletionServiceTest, AnswersSeveralPromptsWithSeveralChoices) {
  Start();
  auto answer = std::async(std::launch::async, [&] {
    return Ask("POST", "/v1/completions",
               R"({"model":"poet","prompt":[[1],[2,3]],"n":2,"max_tokens":2})");
  });
  const auto requests = port_.WaitForRequests(4);
  EXPECT_EQ(requests[1].choice, 1);
  EXPECT_NE(requests[0].sampling.seed, requests[1].sampling.seed);
  EXPECT_EQ(requests[0].adapters, MixOf(AdapterId(0)));
  for (const int i : {2, 0, 3, 1}) {
    port_.Emit(requests[static_cast<size_t>(i)].sequence, StrCat("c", i),
               wire::FinishReason::kLength);
  }
  const Json json = answer.get();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Text(json, {"choices", StrCat(i), "index"}), StrCat(i));
    EXPECT_EQ(Text(json, {"choices", StrCat(i), "text"}), StrCat("\"c", i, "\""));
  }
  EXPECT_EQ(Text(json, {"usage", "total_tokens"}), "11");
}

// By which the runner keeps the cached prefixes of tenants apart.
TEST_F(CompletionServiceTest, EverySequenceCarriesTheTenantOfItsKey) {
  Start({.api_keys = ApiKeys({{.key = "a", .tenant = "acme"}, {.key = "z", .tenant = "zeta"}})});
  port_.AnswerWith("x");
  for (const char* key : {"a", "z"}) {
    const HttpResponse response =
        Send("POST", "/v1/completions", R"({"model":"base","prompt":"hi","max_tokens":1})",
             {{"Authorization", StrCat("Bearer ", key)}});
    EXPECT_EQ(response.status, 200) << response.body;
  }
  const auto requests = port_.WaitForRequests(2);
  EXPECT_EQ(requests[0].tenant, "acme");
  EXPECT_EQ(requests[1].tenant, "zeta");
}

TEST_F(CompletionServiceTest, CountsEachPromptOnceWithWhatItsFirstChoiceFoundCached) {
  Start();
  auto answer = std::async(std::launch::async, [&] {
    return Ask("POST", "/v1/completions",
               R"({"model":"poet","prompt":[[1],[2,3]],"n":2,"max_tokens":1})");
  });
  const auto requests = port_.WaitForRequests(4);
  const int32_t num_cached[] = {0, 1, 2, 1};
  for (size_t i = 0; i < 4; ++i) {
    port_.EmitEvents({{.sequence = requests[i].sequence,
                       .token = 'x',
                       .finish = wire::FinishReason::kLength,
                       .num_cached = num_cached[i]}});
  }
  EXPECT_EQ(Text(answer.get(), {"usage"}),
            R"({"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,)"
            R"("prompt_tokens_details":{"cached_tokens":2}})");
}

TEST_F(CompletionServiceTest, GivesLogprobsInTheLegacyFormat) {
  Start();
  auto answer = CompleteLater(R"("logprobs":2,"max_tokens":2)");
  const auto requests = port_.WaitForRequests(1);
  EXPECT_EQ(requests[0].sampling.num_logprobs, 2);
  wire::TokenEvent first = {.sequence = requests[0].sequence, .index = 0};
  first.token = 0xE2;  // no text of its own
  first.logprobs = {{.logprob = -0.1f, .rank = 1, .top = {{0xE2, -0.1f}, {'b', -3.0f}}}};
  wire::TokenEvent second = {.sequence = requests[0].sequence, .index = 1};
  second.token = 'c';
  second.logprobs = {{.logprob = -INFINITY, .rank = 9, .top = {{'a', -0.5f}, {'b', -1.5f}}}};
  second.finish = wire::FinishReason::kLength;
  port_.EmitEvents({first, second});
  EXPECT_EQ(Text(answer.get(), {"choices", "0", "logprobs"}),
            R"({"tokens":["bytes:\\xe2","c"],"token_logprobs":[-0.1,-9999.0],)"
            R"("top_logprobs":[{"bytes:\\xe2":-0.1,"b":-3.0},{"a":-0.5,"b":-1.5,"c":-9999.0}],)"
            R"("text_offset":[0,0]})");
}

TEST_F(CompletionServiceTest, EchoesThePromptWithItsLogprobs) {
  Start();
  auto answer = CompleteLater(R"("echo":true,"logprobs":0,"max_tokens":0)");
  const auto requests = port_.WaitForRequests(1);
  EXPECT_TRUE(requests[0].sampling.prompt_logprobs);
  wire::TokenEvent event = {.sequence = requests[0].sequence};
  event.token = 'x';
  event.logprobs = wire::Logprobs{.logprob = -1, .rank = 1, .top = {}};
  event.prompt_logprobs = {
      {}, {.logprob = -2, .rank = 3, .top = {}}, {.logprob = -3, .rank = 4, .top = {}}};
  event.finish = wire::FinishReason::kLength;
  port_.EmitEvents({event});
  const Json json = answer.get();
  EXPECT_EQ(Text(json, {"choices", "0", "text"}), R"("hi")");
  EXPECT_EQ(Text(json, {"choices", "0", "finish_reason"}), R"("length")");
  EXPECT_EQ(Text(json, {"choices", "0", "logprobs"}),
            R"({"tokens":["<s>","h","i"],"token_logprobs":[null,-2.0,-3.0],)"
            R"("top_logprobs":[null,{"h":-2.0},{"i":-3.0}],"text_offset":[0,0,1]})");
  EXPECT_EQ(Text(json, {"usage", "completion_tokens"}), "0");
}

TEST_F(CompletionServiceTest, EchoesBeforeTheCompletion) {
  Start();
  port_.AnswerWith("é!");
  const Json json = Complete(R"("echo":true)");
  EXPECT_EQ(Text(json, {"choices", "0", "text"}), R"("hié!")");
}

TEST_F(CompletionServiceTest, CancelsWhenTheClientGoesAway) {
  Start();
  for (const bool stream : {false, true}) {
    const size_t already = stream ? 2 : 0;
    RawClient client(server_->port());
    ASSERT_TRUE(
        client.Send(PostText("/v1/completions", Body(StrCat(R"("n":2,"stream":)", stream)))));
    const auto requests = port_.WaitForRequests(already + 2);
    if (stream) client.ReadUntil("\r\n\r\n");
    client.Close();
    const auto cancelled = port_.WaitForCancels(already + 2);
    EXPECT_THAT(std::vector(cancelled.begin() + static_cast<long>(already), cancelled.end()),
                ElementsAre(requests[already].sequence, requests[already + 1].sequence));
    // What the runner still says about them is of no interest.
    port_.Emit(requests[already].sequence, "late", wire::FinishReason::kCancelled);
  }
  port_.AnswerWith("fine");
  EXPECT_EQ(Text(Complete(R"("n":1)"), {"choices", "0", "text"}), R"("fine")");
}

// Else who leaves before the last token would never pay.
TEST_F(CompletionServiceTest, CountsTheTokensOfAnswersThatAreCutShort) {
  Start();
  const auto begin = [&](RawClient& client, size_t number) {
    EXPECT_TRUE(client.Send(PostText("/v1/completions", Body(R"("stream":true)"))));
    return port_.WaitForRequests(number)[number - 1].sequence;
  };
  const auto usage = [&] {
    std::istringstream metrics(metrics_.Scrape(0));
    std::string lines;
    for (std::string line; std::getline(metrics, line);) {
      if (line.starts_with("aril_tokens_total")) lines += line.substr(17) + ";";
    }
    return lines;
  };
  RawClient early(server_->port());
  begin(early, 1);
  early.Close();
  port_.WaitForCancels(1);
  EXPECT_EQ(usage(), "") << "nothing has been computed for it";
  RawClient leaving(server_->port());
  port_.Emit(begin(leaving, 2), "abc");
  leaving.ReadUntil(R"("text":"c")");
  leaving.Close();
  port_.WaitForCancels(2);
  EXPECT_EQ(usage(),
            R"({kind="generated",tenant="default"} 3;{kind="prompt",tenant="default"} 3;)");
  RawClient failing(server_->port());
  const SequenceId failed = begin(failing, 3);
  port_.Emit(failed, "ab");
  port_.EmitError(failed, Internal("the logits are NaN"));
  failing.ReadUntil("[DONE]");
  EXPECT_EQ(usage(),
            R"({kind="generated",tenant="default"} 5;{kind="prompt",tenant="default"} 6;)");
}

// A client that is found to be gone by the first thing that is written for it.
class LeavingResponder final : public HttpResponder {
 public:
  void Respond(HttpResponse) override { Leave(); }
  void StartStream(HttpResponse, std::string) override {}
  void Write(std::string_view) override { Leave(); }
  void Finish() override {}
  void OnDisconnect(std::function<void()> callback) override {
    on_disconnect_ = std::move(callback);
  }

  void WaitUntilItHasLeft() { left_.get_future().wait(); }

 private:
  void Leave() {
    if (on_disconnect_ == nullptr) return;
    std::exchange(on_disconnect_, nullptr)();
    left_.set_value();
  }

  std::function<void()> on_disconnect_;
  std::promise<void> left_;
};

TEST_F(CompletionServiceTest, CountsARequestOnceWhoseLastEventFindsItsClientGone) {
  Start();
  port_.AnswerWith("x");  // the first event is the last
  const auto outcomes = [&](const std::string& fields) {
    const auto responder = std::make_shared<LeavingResponder>();
    server_->Post([&, responder] {
      gateway_->Handle({.method = "POST", .path = "/v1/completions", .body = Body(fields)},
                       responder);
    });
    responder->WaitUntilItHasLeft();
    std::istringstream metrics(Send("GET", "/metrics").body);
    std::string lines;
    for (std::string line; std::getline(metrics, line);) {
      if (line.starts_with("aril_requests_")) lines += line + ";";
    }
    return lines;
  };
  EXPECT_EQ(outcomes(R"("stream":true)"),
            R"(aril_requests_total{outcome="cancelled"} 1;aril_requests_in_flight 0;)");
  // Who leaves with the whole answer under way has been answered.
  EXPECT_THAT(outcomes(R"("n":1)"), AllOf(HasSubstr(R"({outcome="cancelled"} 1;)"),
                                          HasSubstr(R"({outcome="success"} 1;)"),
                                          HasSubstr("aril_requests_in_flight 0;")));
}

TEST_F(CompletionServiceTest, ReportsAnErrorOfTheRunner) {
  Start();
  auto answer = std::async(std::launch::async,
                           [&] { return Send("POST", "/v1/completions", Body(R"("n":2)")); });
  const auto requests = port_.WaitForRequests(2);
  port_.EmitError(requests[1].sequence, Internal("the logits are NaN"));
  EXPECT_THAT(port_.WaitForCancels(1), ElementsAre(requests[0].sequence));
  const HttpResponse response = answer.get();
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body, R"({"error":{"message":"the logits are NaN","type":"server_error",)"
                           R"("param":null,"code":null}})");
}

TEST_F(CompletionServiceTest, ReportsAnErrorWithinAStream) {
  Start();
  auto answer = std::async(std::launch::async, [&] { return Stream(R"("n":1)"); });
  const auto requests = port_.WaitForRequests(1);
  port_.Emit(requests[0].sequence, "a");
  port_.EmitError(requests[0].sequence, Internal("broken"));
  const auto events = answer.get();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_THAT(events[1], StartsWith(R"({"error":{"message":"broken")"));
  EXPECT_EQ(events[2], "[DONE]");
}

TEST_F(CompletionServiceTest, RefusesAStreamOfTokensWithAGap) {
  Start();
  auto answer = std::async(std::launch::async,
                           [&] { return Send("POST", "/v1/completions", Body(R"("n":1)")); });
  wire::TokenEvent event = {.sequence = port_.WaitForRequests(1)[0].sequence, .index = 1};
  event.token = 'x';
  port_.EmitEvents({event});
  EXPECT_EQ(answer.get().status, 500);
  port_.WaitForCancels(1);
}

TEST_F(CompletionServiceTest, RefusesWhatTheRunnerRefuses) {
  Start();
  port_.RefuseAfter(1, ResourceExhausted("the queue is full"));
  const HttpResponse full = Send("POST", "/v1/completions", Body(R"("n":3)"));
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(FindHeader(full.headers, "Retry-After"), "1");
  EXPECT_EQ(port_.WaitForCancels(1), std::vector{SequenceId(0)});
  const auto in_a_while = WithRetryAfter(Unavailable("later"), std::chrono::milliseconds(6100));
  port_.RefuseAfter(0, in_a_while);
  EXPECT_EQ(FindHeader(Send("POST", "/v1/completions", Body(R"("n":1)")).headers, "Retry-After"),
            "7");
  port_.RefuseAfter(0, InvalidArgument("does not fit"));
  EXPECT_EQ(Send("POST", "/v1/completions", Body(R"("n":1)")).status, 400);
}

TEST_F(CompletionServiceTest, RefusesRequestsAboveTheLimit) {
  Start({.max_in_flight = 1});
  auto first = CompleteLater(R"("n":1)");
  const auto requests = port_.WaitForRequests(1);
  const HttpResponse second = Send("POST", "/v1/completions", Body(R"("n":1)"));
  EXPECT_EQ(second.status, 503);
  EXPECT_EQ(FindHeader(second.headers, "Retry-After"), "1");
  port_.Emit(requests[0].sequence, "x", wire::FinishReason::kLength);
  EXPECT_EQ(Text(first.get(), {"choices", "0", "text"}), R"("x")");
  port_.AnswerWith("free again");
  Complete(R"("n":1)");
}

class TenantsLimitTest : public GatewayTest {
 protected:
  HttpResponse Complete(const std::string& key) {
    return Send("POST", "/v1/completions", Body(R"("n":1)"), {{"Authorization", "Bearer " + key}});
  }
  std::future<HttpResponse> CompleteLater(const std::string& key) {
    return std::async(std::launch::async, [this, key] { return Complete(key); });
  }
};

TEST_F(TenantsLimitTest, OneTenantLeavesRoomForOthers) {
  Start({.max_in_flight = 3,
         .max_in_flight_of_tenant = 2,
         .api_keys = ApiKeys({{"noisy-key", "noisy"}, {"quiet-key", "quiet"}})});
  auto first = CompleteLater("noisy-key");
  auto second = CompleteLater("noisy-key");
  port_.WaitForRequests(2);
  const HttpResponse third = Complete("noisy-key");
  EXPECT_EQ(third.status, 429);
  EXPECT_EQ(FindHeader(third.headers, "Retry-After"), "1");
  EXPECT_EQ(Text(*Json::Parse(third.body), {"error", "code"}), R"("rate_limit_exceeded")");
  auto other = CompleteLater("quiet-key");
  const auto requests = port_.WaitForRequests(3);
  EXPECT_EQ(Complete("quiet-key").status, 503) << "the server has no more than three";
  for (const auto& request : requests) {
    port_.Emit(request.sequence, "x", wire::FinishReason::kLength);
  }
  for (auto* answer : {&first, &second, &other}) EXPECT_EQ(answer->get().status, 200);
  // What has ended does not count, a refusal included.
  port_.AnswerWith("free again");
  EXPECT_EQ(Complete("noisy-key").status, 200);
  port_.RefuseAfter(0, InvalidArgument("does not fit"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Complete("noisy-key").status, 400);
  EXPECT_THAT(Send("GET", "/metrics").body,
              AllOf(HasSubstr(R"(aril_requests_total{outcome="refused"} 2)"),
                    HasSubstr(R"(aril_requests_total{outcome="error"} 3)")));
}

TEST_F(CompletionServiceTest, EndsEverythingAtTheEndOfADrain) {
  Start();
  RawClient stream(server_->port());
  ASSERT_TRUE(stream.Send(PostText("/v1/completions", Body(R"("stream":true)"))));
  RawClient whole(server_->port());
  port_.WaitForRequests(1);
  ASSERT_TRUE(whole.Send(PostText("/v1/completions", Body(R"("n":1)"))));
  port_.WaitForRequests(2);
  stream.ReadUntil("\r\n\r\n");
  server_->Drain(std::chrono::milliseconds(1), [&] { gateway_->FailAll("closing"); });
  EXPECT_THAT(stream.ReadAll(), HasSubstr(R"("message":"closing")"));
  EXPECT_THAT(whole.ReadAll(), StartsWith("HTTP/1.1 503"));
  port_.WaitForCancels(2);
}

TEST_F(CompletionServiceTest, PutsLongAnswersTogetherOnTheSide) {
  Start();
  // With their alternatives, more than are put together at once.
  constexpr int kChoices = 4;
  constexpr int kTokens = 60;
  auto answer =
      CompleteLater(StrCat(R"("logprobs":20,"n":)", kChoices, R"(,"max_tokens":)", kTokens));
  const auto requests = port_.WaitForRequests(kChoices);
  std::vector<wire::TokenEvent> events;
  for (const auto& request : requests) {
    for (int i = 0; i < kTokens; ++i) {
      wire::TokenEvent event = {.sequence = request.sequence, .index = i, .token = 'a'};
      event.logprobs = wire::Logprobs{.logprob = -1, .rank = 1};
      for (int32_t k = 0; k < 20; ++k) {
        event.logprobs->top.push_back({.token = 'a' + k, .logprob = -1});
      }
      events.push_back(std::move(event));
    }
    events.back().finish = wire::FinishReason::kLength;
  }
  port_.EmitEvents(std::move(events));
  const Json json = answer.get();
  EXPECT_EQ(At(json, {"choices", "3", "text"}).AsString()->size(), size_t{kTokens});
  EXPECT_EQ(At(json, {"choices", "3", "logprobs", "tokens"}).AsArray()->size(), size_t{kTokens});
  EXPECT_EQ(Text(json, {"usage", "completion_tokens"}), StrCat(kChoices * kTokens));
  EXPECT_THAT(Send("GET", "/metrics").body, HasSubstr("aril_requests_in_flight 0"));
}

TEST_F(CompletionServiceTest, AnswersTheLikeliestCandidates) {
  Start();
  auto answer = CompleteLater(R"("n":2,"best_of":3,"max_tokens":1)");
  const auto requests = port_.WaitForRequests(3);
  std::vector<wire::TokenEvent> events;
  for (const auto& [token, logprob] : {std::pair{'a', -3.0f}, {'b', -1.0f}, {'c', -2.0f}}) {
    wire::TokenEvent event = {.sequence = requests[events.size()].sequence};
    event.token = token;
    event.logprobs = wire::Logprobs{.logprob = logprob, .rank = 1};
    event.finish = wire::FinishReason::kLength;
    events.push_back(std::move(event));
  }
  port_.EmitEvents(std::move(events));
  const Json json = answer.get();
  EXPECT_EQ(json.Find("choices")->AsArray()->size(), 2u);
  EXPECT_EQ(Text(json, {"choices", "0", "text"}), R"("b")");
  EXPECT_EQ(Text(json, {"choices", "1", "text"}), R"("c")");
  EXPECT_EQ(Text(json, {"choices", "0", "logprobs"}), "null");
  EXPECT_EQ(Text(json, {"usage", "completion_tokens"}), "3");
}

}  // namespace
}  // namespace aril::gateway
