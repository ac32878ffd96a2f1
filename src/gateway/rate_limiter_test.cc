#include "gateway/rate_limiter.h"

#include <cstdint>
#include <optional>
#include <string>

#include "gateway/rate_limit_fields.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Pair;

TimePoint At(Duration time) { return TimePoint(hours(1) + time); }
const std::string kAcme = "acme";

TenantLimitTable Requests(int64_t limit) { return {.of_others = {.requests_per_minute = limit}}; }
TenantLimitTable Tokens(int64_t limit) { return {.of_others = {.tokens_per_minute = limit}}; }

TEST(RateLimiter, LetsAMinutesRequestsInAtOnceAndThenAsTimePasses) {
  RateLimiter rates(Requests(60));
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(rates.Requests(kAcme, At(seconds(0)))->remaining, 60 - i);
    EXPECT_FALSE(rates.TakeRequest(kAcme, At(seconds(0)))) << i;
  }
  const auto excess = rates.TakeRequest(kAcme, At(milliseconds(400)));
  ASSERT_TRUE(excess);
  EXPECT_EQ(excess->kind, RateExcess::Kind::kRequests);
  EXPECT_EQ(excess->limit, 60);
  EXPECT_EQ(excess->remaining, 0);
  EXPECT_EQ(excess->retry_after, milliseconds(600));
  // What is turned away takes nothing.
  EXPECT_FALSE(rates.TakeRequest(kAcme, At(seconds(1))));
  EXPECT_TRUE(rates.TakeRequest(kAcme, At(seconds(1))));
  EXPECT_EQ(rates.Requests(kAcme, At(seconds(31)))->remaining, 30);
  EXPECT_EQ(rates.Requests(kAcme, At(seconds(31)))->until_full, seconds(30));
  // No more than a minute's worth is saved up.
  EXPECT_EQ(rates.Requests(kAcme, At(hours(5)))->remaining, 60);
  EXPECT_EQ(rates.Requests(kAcme, At(hours(5)))->until_full, seconds(0));
}

// Whatever the limit divides a minute into: a minute's worth is there.
TEST(RateLimiter, RoundingTakesNothingAway) {
  for (const int64_t limit : {1, 7, 59, 61, 997}) {
    RateLimiter rates(Requests(limit));
    for (int64_t i = 0; i < limit; ++i) {
      ASSERT_EQ(rates.Requests(kAcme, At(seconds(0)))->remaining, limit - i);
      ASSERT_FALSE(rates.TakeRequest(kAcme, At(seconds(0)))) << i << " of " << limit;
    }
    EXPECT_TRUE(rates.TakeRequest(kAcme, At(seconds(0))));
  }
}

TEST(RateLimiter, TenantsHaveTheirOwn) {
  TenantLimitTable limits = Requests(1);
  limits.of_tenant["zeta"] = {};
  RateLimiter rates(std::move(limits));
  EXPECT_FALSE(rates.TakeRequest(kAcme, At(seconds(0))));
  EXPECT_TRUE(rates.TakeRequest(kAcme, At(seconds(0))));
  EXPECT_FALSE(rates.TakeRequest("other", At(seconds(0))));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(rates.TakeRequest("zeta", At(seconds(0))));
  EXPECT_FALSE(rates.Requests("zeta", At(seconds(0))));
  EXPECT_FALSE(rates.Tokens(kAcme, At(seconds(0))));
}

TEST(RateLimiter, OutputIsOwed) {
  RateLimiter rates(Tokens(600));  // ten a second
  EXPECT_FALSE(rates.TakeRequest(kAcme, At(seconds(0))));
  EXPECT_FALSE(rates.TakePrompts(kAcme, 200, At(seconds(0))));
  EXPECT_EQ(rates.Tokens(kAcme, At(seconds(0)))->remaining, 400);
  for (int i = 0; i < 1000; ++i) rates.TakeOutput(kAcme, 1, At(seconds(0)));
  EXPECT_EQ(rates.Tokens(kAcme, At(seconds(0)))->remaining, 0);
  EXPECT_EQ(rates.Tokens(kAcme, At(seconds(0)))->until_full, seconds(120));
  // 600 too many, and one to begin with.
  const auto excess = rates.TakeRequest(kAcme, At(seconds(0)));
  ASSERT_TRUE(excess);
  EXPECT_EQ(excess->kind, RateExcess::Kind::kTokens);
  EXPECT_EQ(excess->retry_after, milliseconds(60'100));
  EXPECT_FALSE(rates.TakeRequest(kAcme, At(milliseconds(60'100))));
}

TEST(RateLimiter, APromptWaitsUntilThereIsRoomForAllOfIt) {
  RateLimiter rates({.of_others = {.requests_per_minute = 10, .tokens_per_minute = 600}});
  EXPECT_FALSE(rates.TakeRequest(kAcme, At(seconds(0))));
  EXPECT_FALSE(rates.TakePrompts(kAcme, 500, At(seconds(0))));
  EXPECT_FALSE(rates.TakeRequest(kAcme, At(seconds(0))));
  const auto excess = rates.TakePrompts(kAcme, 200, At(seconds(0)));
  ASSERT_TRUE(excess);
  EXPECT_EQ(excess->remaining, 100);
  EXPECT_EQ(excess->retry_after, seconds(10));
  // Its request has been given back, and it has taken no tokens.
  EXPECT_EQ(rates.Requests(kAcme, At(seconds(0)))->remaining, 9);
  EXPECT_EQ(rates.Tokens(kAcme, At(seconds(0)))->remaining, 100);
  EXPECT_FALSE(rates.TakePrompts(kAcme, 200, At(seconds(10))));
}

TEST(RateLimiter, APromptOfMoreThanAMinutesWorthNeedsAllOfIt) {
  RateLimiter rates(Tokens(600));
  EXPECT_FALSE(rates.TakePrompts(kAcme, 1, At(seconds(0))));
  const auto excess = rates.TakePrompts(kAcme, 6000, At(seconds(0)));
  ASSERT_TRUE(excess);
  EXPECT_EQ(excess->retry_after, milliseconds(100));
  EXPECT_FALSE(rates.TakePrompts(kAcme, 6000, At(milliseconds(100))));
  EXPECT_EQ(rates.Tokens(kAcme, At(milliseconds(100)))->until_full, minutes(10));
}

TEST(RateLimiter, GivesBackWhatOthersTurnAway) {
  RateLimiter rates({.of_others = {.requests_per_minute = 2, .tokens_per_minute = 100}});
  EXPECT_FALSE(rates.TakeRequest(kAcme, At(seconds(0))));
  EXPECT_FALSE(rates.TakePrompts(kAcme, 60, At(seconds(0))));
  rates.GiveBack(kAcme, 60);
  EXPECT_EQ(rates.Requests(kAcme, At(seconds(0)))->remaining, 2);
  EXPECT_EQ(rates.Tokens(kAcme, At(seconds(0)))->remaining, 100);
  // More than a minute's worth does not come of it.
  rates.GiveBack(kAcme, 60);
  EXPECT_EQ(rates.Tokens(kAcme, At(seconds(0)))->remaining, 100);
}

TEST(RateLimiter, NewLimitsCountWhatHasBeenUsed) {
  RateLimiter rates({.of_others = {.requests_per_minute = 10, .tokens_per_minute = 600}});
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(rates.TakeRequest(kAcme, At(seconds(0))));
  rates.TakeOutput(kAcme, 1200, At(seconds(0)));
  rates.SetLimits({.of_others = {.requests_per_minute = 5, .tokens_per_minute = 6000}},
                  At(seconds(0)));
  EXPECT_EQ(rates.Requests(kAcme, At(seconds(0)))->remaining, 1);
  EXPECT_EQ(rates.Tokens(kAcme, At(seconds(0)))->remaining, 4800);
  // A limit that comes begins with all of it.
  rates.SetLimits({}, At(seconds(0)));
  EXPECT_FALSE(rates.Tokens(kAcme, At(seconds(0))));
  rates.SetLimits(Tokens(5), At(seconds(0)));
  EXPECT_EQ(rates.Tokens(kAcme, At(seconds(0)))->remaining, 5);
}

// However much is owed, no moment is beyond what can be counted.
TEST(RateLimiter, OwesAYearAtMost) {
  RateLimiter rates(Tokens(1));
  for (int i = 0; i < 3; ++i) rates.TakeOutput(kAcme, INT64_MAX, At(seconds(0)));
  const auto excess = rates.TakeRequest(kAcme, At(seconds(0)));
  ASSERT_TRUE(excess);
  EXPECT_EQ(excess->retry_after, hours(24 * 365));
}

TEST(RateLimitFields, AreThoseOfOpenAi) {
  const RateState requests = {.limit = 60, .remaining = 59, .until_full = milliseconds(1)};
  const RateState tokens = {.limit = 9000, .remaining = 0, .until_full = milliseconds(360'001)};
  EXPECT_THAT(
      RateLimitFields(requests, tokens),
      ElementsAre(
          Pair("x-ratelimit-limit-requests", "60"), Pair("x-ratelimit-remaining-requests", "59"),
          Pair("x-ratelimit-reset-requests", "1ms"), Pair("x-ratelimit-limit-tokens", "9000"),
          Pair("x-ratelimit-remaining-tokens", "0"), Pair("x-ratelimit-reset-tokens", "6m1s")));
  EXPECT_THAT(RateLimitFields(std::nullopt, std::nullopt), IsEmpty());
  const auto reset = [](Duration until_full) {
    return RateLimitFields(RateState{.until_full = until_full}, std::nullopt)[2].second;
  };
  EXPECT_EQ(reset(Duration(0)), "0s");
  EXPECT_EQ(reset(Duration(1)), "1ms");
  EXPECT_EQ(reset(milliseconds(999)), "999ms");
  EXPECT_EQ(reset(seconds(60)), "1m0s");
  EXPECT_EQ(reset(hours(25) + seconds(1)), "25h0m1s");
}

TEST(RateLimitFields, TheErrorSaysWhenToTryAgain) {
  const ApiError error = RateLimitReached({.kind = RateExcess::Kind::kTokens,
                                           .limit = 600,
                                           .remaining = 3,
                                           .retry_after = milliseconds(1500)});
  EXPECT_EQ(error.status, 429);
  EXPECT_EQ(error.code, "rate_limit_exceeded");
  EXPECT_EQ(error.message,
            "Rate limit reached: you may use 600 tokens per minute, of which 3 are left. Please "
            "try again in 2s.");
  EXPECT_EQ(error.retry_after, milliseconds(1500));
}

}  // namespace
}  // namespace aril::gateway
