// When an error is worth another try.

#ifndef ARIL_BASE_RETRY_AFTER_H_
#define ARIL_BASE_RETRY_AFTER_H_

#include <optional>

#include "base/clock.h"
#include "base/status.h"

namespace aril {

// The same error, which says so. Annotate does not keep it.
Status WithRetryAfter(Status error, Duration wait);
std::optional<Duration> RetryAfter(const Status& error);

}  // namespace aril

#endif  // ARIL_BASE_RETRY_AFTER_H_
