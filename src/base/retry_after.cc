#include "base/retry_after.h"

#include <charconv>
#include <string>

namespace aril {
namespace {

constexpr const char* kPayload = "aril/retry-after-ns";

}  // namespace

Status WithRetryAfter(Status error, Duration wait) {
  error.SetPayload(kPayload, absl::Cord(std::to_string(wait.count())));
  return error;
}

std::optional<Duration> RetryAfter(const Status& error) {
  const auto payload = error.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  Duration::rep count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return Duration(count);
}

}  // namespace aril
