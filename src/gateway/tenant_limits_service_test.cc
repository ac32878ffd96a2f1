// Tenants at their limits, over HTTP.

#include <functional>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "gateway/gateway_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TenantLimitsServiceTest : public GatewayTest {
 protected:
  void StartWith(TenantLimitTable limits) {
    Start({.tenant_limits = std::move(limits),
           .api_keys = ApiKeys({{.key = "a", .tenant = "acme"}, {.key = "z", .tenant = "zeta"}})});
  }
  HttpResponse CompleteAs(const std::string& key, const std::string& fields = R"("max_tokens":5)") {
    return Send("POST", "/v1/completions", Body(fields), {{"Authorization", "Bearer " + key}});
  }
  // On the server's thread, which everything of the gateway's is on.
  void OnServer(std::function<void()> function) {
    std::promise<void> done;
    server_->Post([&] {
      function();
      done.set_value();
    });
    done.get_future().wait();
  }
};

TEST_F(TenantLimitsServiceTest, RequestsPerMinute) {
  StartWith({.of_tenant = {{"acme", {.requests_per_minute = 2}}}});
  port_.AnswerWith("hello");
  const HttpResponse first = CompleteAs("a");
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(FindHeader(first.headers, "x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(FindHeader(first.headers, "x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(FindHeader(first.headers, "x-ratelimit-reset-requests"), "30s");
  EXPECT_EQ(FindHeader(first.headers, "x-ratelimit-limit-tokens"), "");
  // A bad request is one, too: it has been read.
  EXPECT_EQ(CompleteAs("a", R"("max_tokens":-1)").status, 400);
  const HttpResponse third = CompleteAs("a");
  EXPECT_EQ(third.status, 429);
  EXPECT_EQ(FindHeader(third.headers, "Retry-After"), "30");
  EXPECT_EQ(FindHeader(third.headers, "x-ratelimit-remaining-requests"), "0");
  const auto error = Json::Parse(third.body);
  ASSERT_TRUE(error.ok());
  EXPECT_EQ(Text(*error, {"error", "code"}), R"("rate_limit_exceeded")");
  EXPECT_THAT(Text(*error, {"error", "message"}), HasSubstr("2 requests per minute"));
  // Others have nothing to do with it, and need not know of limits that they do not have.
  const HttpResponse other = CompleteAs("z");
  EXPECT_EQ(other.status, 200);
  EXPECT_EQ(FindHeader(other.headers, "x-ratelimit-limit-requests"), "");
  clock_.Advance(seconds(30));
  EXPECT_EQ(CompleteAs("a").status, 200);
  EXPECT_THAT(metrics_.Scrape(0),
              AllOf(HasSubstr("aril_tenant_limits_reached_total{limit=\"requests-per-minute\","
                              "tenant=\"acme\"} 1\n"),
                    Not(HasSubstr("tenant=\"zeta\",limit"))));
}

// Three of the prompt ("hi" and what it begins with) and five of output.
TEST_F(TenantLimitsServiceTest, TokensPerMinuteAreThoseOfPromptsAndOfOutput) {
  StartWith({.of_others = {.requests_per_minute = 100, .tokens_per_minute = 10}});
  port_.AnswerWith("hello");
  EXPECT_EQ(FindHeader(CompleteAs("a").headers, "x-ratelimit-remaining-tokens"), "7");
  const HttpResponse refused = CompleteAs("a");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(FindHeader(refused.headers, "x-ratelimit-remaining-tokens"), "2");
  EXPECT_EQ(FindHeader(refused.headers, "x-ratelimit-remaining-requests"), "99") << "given back";
  EXPECT_EQ(FindHeader(refused.headers, "x-ratelimit-reset-tokens"), "48s");
  EXPECT_EQ(FindHeader(refused.headers, "Retry-After"), "6");
  clock_.Advance(seconds(6));
  EXPECT_EQ(CompleteAs("a").status, 200);
  // Five more than there are: it is not read any more, until one is there.
  const HttpResponse owing = CompleteAs("a", R"("max_tokens":-1)");
  EXPECT_EQ(owing.status, 429);
  EXPECT_EQ(FindHeader(owing.headers, "Retry-After"), "36");
  EXPECT_EQ(CompleteAs("z").status, 200);
  EXPECT_EQ(port_.WaitForRequests(3).size(), 3u);
}

TEST_F(TenantLimitsServiceTest, AStreamSaysWhatIsLeft) {
  StartWith({.of_others = {.tokens_per_minute = 10}});
  port_.AnswerWith("x");
  const HttpResponse stream = CompleteAs("a", R"("max_tokens":1,"stream":true)");
  EXPECT_EQ(stream.content_type, "text/event-stream");
  EXPECT_EQ(FindHeader(stream.headers, "x-ratelimit-remaining-tokens"), "7");
}

TEST_F(TenantLimitsServiceTest, ConcurrentRequests) {
  StartWith({.of_tenant = {{"acme", {.concurrent_requests = 1}}}});
  auto first = std::async(std::launch::async, [&] { return CompleteAs("a"); });
  const auto requests = port_.WaitForRequests(1);
  const HttpResponse second = CompleteAs("a");
  EXPECT_EQ(second.status, 429);
  EXPECT_THAT(second.body, HasSubstr("You have 1 requests in work"));
  EXPECT_THAT(metrics_.Scrape(0), HasSubstr("limit=\"concurrent-requests\",tenant=\"acme\"} 1\n"));
  port_.Emit(requests[0].sequence, "hello", wire::FinishReason::kLength);
  EXPECT_EQ(first.get().status, 200);
}

// At once, or later, as a cluster does.
TEST_F(TenantLimitsServiceTest, WhatTheServerTurnsAwayIsGivenBack) {
  // Enough for one request, whose prompt is all there is.
  StartWith({.of_others = {.requests_per_minute = 1, .tokens_per_minute = 3}});
  port_.RefuseAfter(1, Unavailable("full"));
  auto later = std::async(std::launch::async, [&] { return CompleteAs("a"); });
  port_.EmitError(port_.WaitForRequests(1)[0].sequence, Unavailable("full"));
  EXPECT_EQ(later.get().status, 503);
  EXPECT_EQ(CompleteAs("a").status, 503);
  EXPECT_EQ(CompleteAs("a").status, 503) << "429 if anything were missing";
}

TEST_F(TenantLimitsServiceTest, LimitsChangeWhileItServes) {
  StartWith({.of_others = {.requests_per_minute = 1}});
  port_.AnswerWith("x");
  EXPECT_EQ(CompleteAs("a").status, 200);
  EXPECT_EQ(CompleteAs("a").status, 429);
  OnServer([this] { gateway_->SetTenantLimits({.of_others = {.requests_per_minute = 3}}); });
  EXPECT_EQ(FindHeader(CompleteAs("a").headers, "x-ratelimit-remaining-requests"), "1");
  OnServer([this] { gateway_->SetTenantLimits({}); });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(CompleteAs("a").status, 200);
}

TEST_F(TenantLimitsServiceTest, KeysChangeWhileItServes) {
  StartWith({});
  auto begun = std::async(std::launch::async, [&] { return CompleteAs("a"); });
  const auto requests = port_.WaitForRequests(1);
  const std::vector<ApiKey> keys = {{.key = "b", .tenant = "acme"}};
  OnServer([&] { gateway_->SetApiKeys(ApiKeys(keys)); });
  EXPECT_EQ(CompleteAs("a").status, 401);
  port_.Emit(requests[0].sequence, "hello", wire::FinishReason::kLength);
  EXPECT_EQ(begun.get().status, 200) << "what has begun goes on";
  port_.AnswerWith("x");
  EXPECT_EQ(CompleteAs("b").status, 200);
}

}  // namespace
}  // namespace aril::gateway
