// What answers say of limits per minute, as OpenAI's do.

#ifndef ARIL_GATEWAY_RATE_LIMIT_FIELDS_H_
#define ARIL_GATEWAY_RATE_LIMIT_FIELDS_H_

#include <optional>
#include <string_view>

#include "gateway/api_error.h"
#include "gateway/http_message.h"
#include "gateway/rate_limiter.h"

namespace aril::gateway {

// `x-ratelimit-limit-requests`, `-remaining-requests` and `-reset-requests` (how long until all of
// the limit is there again: "1m30s", "250ms"), and the same of tokens. Of a limit that there is
// not, nothing.
HttpHeaders RateLimitFields(const std::optional<RateState>& requests,
                            const std::optional<RateState>& tokens);

// "requests" or "tokens".
std::string_view NameOf(RateExcess::Kind kind);

// 429, with when to try again.
ApiError RateLimitReached(const RateExcess& excess);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_RATE_LIMIT_FIELDS_H_
