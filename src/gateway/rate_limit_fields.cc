#include "gateway/rate_limit_fields.h"

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/strings.h"

namespace aril::gateway {
namespace {

// As OpenAI writes them: "1h0m5s", "6m0s", "1s", "250ms"; to the millisecond, rounded up.
std::string DurationText(Duration duration) {
  const int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  if (ms > 0 && ms < 1000) return StrCat(ms, "ms");
  const int64_t seconds = ms / 1000 + (ms % 1000 > 0 ? 1 : 0);
  std::string text;
  if (seconds >= 3600) text += StrCat(seconds / 3600, "h");
  if (seconds >= 60) text += StrCat(seconds / 60 % 60, "m");
  return text + StrCat(seconds % 60, "s");
}

void AppendFields(std::string_view what, const std::optional<RateState>& state,
                  HttpHeaders* fields) {
  if (!state) return;
  fields->emplace_back(StrCat("x-ratelimit-limit-", what), StrCat(state->limit));
  fields->emplace_back(StrCat("x-ratelimit-remaining-", what), StrCat(state->remaining));
  fields->emplace_back(StrCat("x-ratelimit-reset-", what), DurationText(state->until_full));
}

}  // namespace

HttpHeaders RateLimitFields(const std::optional<RateState>& requests,
                            const std::optional<RateState>& tokens) {
  HttpHeaders fields;
  AppendFields("requests", requests, &fields);
  AppendFields("tokens", tokens, &fields);
  return fields;
}

std::string_view NameOf(RateExcess::Kind kind) {
  return kind == RateExcess::Kind::kRequests ? "requests" : "tokens";
}

ApiError RateLimitReached(const RateExcess& excess) {
  ApiError error = TooManyOfTenant(StrCat("Rate limit reached: you may use ", excess.limit, " ",
                                          NameOf(excess.kind), " per minute, of which ",
                                          excess.remaining, " are left. Please try again in ",
                                          DurationText(excess.retry_after), "."));
  error.retry_after = excess.retry_after;
  return error;
}

}  // namespace aril::gateway
