#include "gateway/rate_limiter.h"

#include <algorithm>
#include <utility>

namespace aril::gateway {
namespace {

constexpr Duration kMinute = std::chrono::minutes(1);
// Nobody owes more, so that no moment is beyond what TimePoint can hold.
constexpr Duration kMaxMissing = std::chrono::hours(24 * 365);

// In which a bucket of that limit gets so many back.
Duration TimeFor(int64_t count, int64_t limit) {
  const double minutes = static_cast<double>(count) / static_cast<double>(limit);
  const double nanoseconds = minutes * static_cast<double>(kMinute.count());
  return Duration(
      static_cast<int64_t>(std::min(nanoseconds, static_cast<double>(kMaxMissing.count()))));
}

// How long a bucket that will be full at `full` still takes.
Duration Missing(TimePoint full, TimePoint now) { return std::max(full - now, Duration(0)); }

RateState StateOf(TimePoint full, int64_t limit, TimePoint now) {
  const Duration missing = Missing(full, now);
  const double share =
      static_cast<double>((kMinute - missing).count()) / static_cast<double>(kMinute.count());
  // Whole ones that rounding has left just short are there.
  const double remaining = static_cast<double>(limit) * share + 1e-6;
  return {.limit = limit,
          .remaining = static_cast<int64_t>(std::max(remaining, 0.0)),
          .until_full = missing};
}

// Why `count` cannot be taken; nullopt: they can.
std::optional<RateExcess> Check(RateExcess::Kind kind, TimePoint full, int64_t limit, int64_t count,
                                TimePoint now) {
  const Duration wanted = std::min(TimeFor(count, limit), kMinute);
  const Duration over = Missing(full, now) + wanted - kMinute;
  if (over <= Duration(0)) return std::nullopt;
  return RateExcess{.kind = kind,
                    .limit = limit,
                    .remaining = StateOf(full, limit, now).remaining,
                    .retry_after = over};
}

void Take(TimePoint* full, int64_t limit, int64_t count, TimePoint now) {
  *full = now + std::min(Missing(*full, now) + TimeFor(count, limit), kMaxMissing);
}

// The same number of tokens or requests is missing under another limit.
void Rescale(TimePoint* full, const std::optional<int64_t>& from, const std::optional<int64_t>& to,
             TimePoint now) {
  if (!from || !to) {
    *full = now;
    return;
  }
  const double ratio = static_cast<double>(*from) / static_cast<double>(*to);
  const auto missing = static_cast<double>(Missing(*full, now).count());
  *full = now + Duration(static_cast<int64_t>(
                    std::min(missing * ratio, static_cast<double>(kMaxMissing.count()))));
}

}  // namespace

void RateLimiter::SetLimits(TenantLimitTable limits, TimePoint now) {
  for (auto& [tenant, buckets] : buckets_) {
    const TenantLimits& from = limits_.Of(tenant);
    const TenantLimits& to = limits.Of(tenant);
    Rescale(&buckets.requests_full, from.requests_per_minute, to.requests_per_minute, now);
    Rescale(&buckets.tokens_full, from.tokens_per_minute, to.tokens_per_minute, now);
  }
  limits_ = std::move(limits);
}

std::optional<RateExcess> RateLimiter::TakeRequest(const std::string& tenant, TimePoint now) {
  const TenantLimits& limits = limits_.Of(tenant);
  if (!limits.requests_per_minute && !limits.tokens_per_minute) return std::nullopt;
  Buckets& buckets = buckets_[tenant];
  if (const auto limit = limits.tokens_per_minute) {
    const auto excess = Check(RateExcess::Kind::kTokens, buckets.tokens_full, *limit, 1, now);
    if (excess) return excess;
  }
  if (const auto limit = limits.requests_per_minute) {
    const auto excess = Check(RateExcess::Kind::kRequests, buckets.requests_full, *limit, 1, now);
    if (excess) return excess;
    Take(&buckets.requests_full, *limit, 1, now);
  }
  return std::nullopt;
}

std::optional<RateExcess> RateLimiter::TakePrompts(const std::string& tenant, int64_t num_tokens,
                                                   TimePoint now) {
  const auto limit = limits_.Of(tenant).tokens_per_minute;
  if (!limit) return std::nullopt;
  Buckets& buckets = buckets_[tenant];
  const auto excess =
      Check(RateExcess::Kind::kTokens, buckets.tokens_full, *limit, num_tokens, now);
  if (excess) {
    GiveBack(tenant, 0);
  } else {
    Take(&buckets.tokens_full, *limit, num_tokens, now);
  }
  return excess;
}

void RateLimiter::TakeOutput(const std::string& tenant, int64_t num_tokens, TimePoint now) {
  const auto limit = limits_.Of(tenant).tokens_per_minute;
  if (limit) Take(&buckets_[tenant].tokens_full, *limit, num_tokens, now);
}

void RateLimiter::GiveBack(const std::string& tenant, int64_t num_tokens) {
  const auto found = buckets_.find(tenant);
  if (found == buckets_.end()) return;
  const TenantLimits& limits = limits_.Of(tenant);
  if (limits.requests_per_minute) {
    found->second.requests_full -= TimeFor(1, *limits.requests_per_minute);
  }
  if (limits.tokens_per_minute) {
    found->second.tokens_full -= TimeFor(num_tokens, *limits.tokens_per_minute);
  }
}

const RateLimiter::Buckets& RateLimiter::BucketsOf(const std::string& tenant) const {
  static constexpr Buckets kFull;
  const auto found = buckets_.find(tenant);
  return found != buckets_.end() ? found->second : kFull;
}

std::optional<RateState> RateLimiter::Requests(const std::string& tenant, TimePoint now) const {
  const auto limit = limits_.Of(tenant).requests_per_minute;
  if (!limit) return std::nullopt;
  return StateOf(BucketsOf(tenant).requests_full, *limit, now);
}

std::optional<RateState> RateLimiter::Tokens(const std::string& tenant, TimePoint now) const {
  const auto limit = limits_.Of(tenant).tokens_per_minute;
  if (!limit) return std::nullopt;
  return StateOf(BucketsOf(tenant).tokens_full, *limit, now);
}

}  // namespace aril::gateway
