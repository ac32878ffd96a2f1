#include "gateway/api_error.h"

#include <algorithm>

#include "base/json.h"
#include "base/retry_after.h"
#include "base/strings.h"

namespace aril::gateway {
namespace {

constexpr std::chrono::seconds kRetryAfter{1};  // at least, and if nobody knows better

// Messages quote what the client sent, which may be megabytes.
constexpr size_t kMaxMessageBytes = 1000;

Json StringOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

ApiError ServerError(int status, const Status& cause) {
  return {
      .status = status, .message = Message(cause), .type = "server_error", .param = "", .code = ""};
}

ApiError OverloadedUntil(const std::string& message, std::optional<Duration> retry_after) {
  return {.status = 503,
          .message = message,
          .type = "overloaded_error",
          .param = "",
          .code = "",
          .retry_after = retry_after};
}

}  // namespace

std::string ShownMessage(const ApiError& error) {
  const std::string& message = error.message;
  return message.size() <= kMaxMessageBytes ? message : message.substr(0, kMaxMessageBytes) + " …";
}

ApiError InvalidField(const std::string& param, const std::string& message) {
  return {.message = message, .param = param, .code = ""};
}

ApiError ModelNotFound(const std::string& model) {
  return {.status = 404,
          .message = "The model `" + model + "` does not exist.",
          .param = "model",
          .code = "model_not_found"};
}

ApiError TooManyOfTenant(const std::string& message) {
  return {.status = 429,
          .message = message,
          .type = "rate_limit_error",
          .param = "",
          .code = "rate_limit_exceeded"};
}

ApiError Overloaded(const std::string& message) { return OverloadedUntil(message, std::nullopt); }

ApiError FromStatus(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kOutOfRange:
      return {.message = Message(status), .param = "", .code = ""};
    case StatusCode::kNotFound:
      return {.status = 404, .message = Message(status), .param = "", .code = ""};
    case StatusCode::kAlreadyExists:
      return {.status = 409, .message = Message(status), .param = "", .code = ""};
    case StatusCode::kResourceExhausted:
    case StatusCode::kUnavailable:
      return OverloadedUntil(Message(status), RetryAfter(status));
    case StatusCode::kUnimplemented:
      return ServerError(501, status);
    default:
      return ServerError(500, status);
  }
}

std::string ErrorJson(const ApiError& error) {
  return Json(Json::Object{{"error", Json::Object{{"message", ShownMessage(error)},
                                                  {"type", error.type},
                                                  {"param", StringOrNull(error.param)},
                                                  {"code", StringOrNull(error.code)}}}})
      .Dump();
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response{.status = error.status, .headers = {}, .body = ErrorJson(error)};
  if (error.status == 503 || error.status == 429) {
    const auto wait =
        std::chrono::ceil<std::chrono::seconds>(error.retry_after.value_or(kRetryAfter));
    response.headers.emplace_back("Retry-After", StrCat(std::max(wait, kRetryAfter).count()));
  }
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace aril::gateway
