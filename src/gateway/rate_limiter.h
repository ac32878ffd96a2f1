// Counts what tenants use against their limits per minute.

#ifndef ARIL_GATEWAY_RATE_LIMITER_H_
#define ARIL_GATEWAY_RATE_LIMITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "gateway/tenant_limits.h"

namespace aril::gateway {

// Of one limit per minute, at some moment.
struct RateState {
  int64_t limit = 0;
  int64_t remaining = 0;              // that may be used at once
  Duration until_full = Duration(0);  // until all of the limit may be
};

// Why something cannot be let in yet.
struct RateExcess {
  enum class Kind { kRequests, kTokens };
  Kind kind = Kind::kRequests;
  int64_t limit = 0;  // per minute
  int64_t remaining = 0;
  Duration retry_after = Duration(0);  // when it can be, if nothing else is let in
};

// A bucket for each limit, which holds a minute's worth and fills steadily. Requests are taken as
// they come, and tokens of prompts before they are computed. Tokens of output, of which nobody
// knows how many there will be, are taken as they come, too, even if that leaves less than nothing:
// then what comes next waits for longer. So nothing that runs is cut, and over time no tenant gets
// more than its rate. A prompt of more than a minute's worth is let in when the bucket is full.
//
// `now` never goes back. Used by one thread at a time.
class RateLimiter {
 public:
  explicit RateLimiter(TenantLimitTable limits = {}) : limits_(std::move(limits)) {}

  // What has been used counts against the new limits; what is owed is as many tokens as before.
  void SetLimits(TenantLimitTable limits, TimePoint now);
  const TenantLimits& LimitsOf(const std::string& tenant) const { return limits_.Of(tenant); }

  // Lets a request in, of whose tokens nothing is known yet: there must be one at least.
  std::optional<RateExcess> TakeRequest(const std::string& tenant, TimePoint now);
  // Lets the prompts of a request in; otherwise the request is given back.
  std::optional<RateExcess> TakePrompts(const std::string& tenant, int64_t num_tokens,
                                        TimePoint now);
  void TakeOutput(const std::string& tenant, int64_t num_tokens, TimePoint now);
  // What had been let in was turned away by somebody else; `num_tokens` of its prompts were taken.
  void GiveBack(const std::string& tenant, int64_t num_tokens);

  // nullopt where there is no limit.
  std::optional<RateState> Requests(const std::string& tenant, TimePoint now) const;
  std::optional<RateState> Tokens(const std::string& tenant, TimePoint now) const;

 private:
  // By when each will be full again: one moment says how much there is.
  struct Buckets {
    TimePoint requests_full;
    TimePoint tokens_full;
  };

  const Buckets& BucketsOf(const std::string& tenant) const;

  TenantLimitTable limits_;
  std::unordered_map<std::string, Buckets> buckets_;  // of tenants that have limits and have come
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_RATE_LIMITER_H_
