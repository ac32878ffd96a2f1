// Errors as the protocols show them, and the one place where a Status becomes HTTP.

#ifndef ARIL_GATEWAY_API_ERROR_H_
#define ARIL_GATEWAY_API_ERROR_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "gateway/http_message.h"

namespace aril::gateway {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // the offending field; empty: null
  std::string code;   // empty: null
  // An adapter that is being loaded, and why there is nothing else to say yet: whoever can wait for
  // it may ask again then. Not shown.
  std::string awaited_model = "";
  // An adapter whose files have to be opened first, which takes time: it is to be asked again where
  // it may (RequestContext::may_open). Not shown.
  std::optional<AdapterId> closed_adapter = std::nullopt;
  // Of 503 and 429: when it may be better, in the header Retry-After; nullopt: in a second.
  std::optional<Duration> retry_after = std::nullopt;
};

// 400 about one field of a request.
ApiError InvalidField(const std::string& param, const std::string& message);
// 404 with the wording clients match on; also for models of somebody else.
ApiError ModelNotFound(const std::string& model);
// 429: one tenant's share is used up; its other requests have to end first.
ApiError TooManyOfTenant(const std::string& message);
// 503: try again later.
ApiError Overloaded(const std::string& message);

// With its RetryAfter, if it has one.
ApiError FromStatus(const Status& status);

// In whose words an endpoint says what is wrong.
enum class ErrorStyle { kOpenAi, kAnthropic };
// By the path of a request: Anthropic's for /v1/messages, and what is beneath it.
ErrorStyle ErrorStyleOf(std::string_view path);

// Its message, or the beginning of a long one.
std::string ShownMessage(const ApiError& error);
// `{"error":{"message","type","param","code"}}`; Anthropic's has a type of its own, `"error"`, and
// other names of the error's.
std::string ErrorJson(const ApiError& error, ErrorStyle style = ErrorStyle::kOpenAi);
// With Retry-After where the client may try again, and WWW-Authenticate for 401.
HttpResponse ErrorResponse(const ApiError& error, ErrorStyle style = ErrorStyle::kOpenAi);

// A value or an ApiError.
template <typename T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : content_(std::move(value)) {}
  ApiResult(ApiError error) : content_(std::move(error)) {}

  bool ok() const { return std::holds_alternative<T>(content_); }
  T& value() { return std::get<T>(content_); }
  const T& value() const { return std::get<T>(content_); }
  const ApiError& error() const { return std::get<ApiError>(content_); }

 private:
  std::variant<T, ApiError> content_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_API_ERROR_H_
