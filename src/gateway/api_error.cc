#include "gateway/api_error.h"

#include <algorithm>

#include "base/json.h"
#include "base/retry_after.h"
#include "base/strings.h"

namespace aril::gateway {
namespace {

constexpr std::chrono::seconds kRetryAfter{1};  // at least, and if nobody knows better

constexpr std::string_view kMessagesPath = "/v1/messages";

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

// What Anthropic's API calls errors of such a status, by its documentation.
const char* AnthropicType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 408:
      return "timeout_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

ErrorStyle ErrorStyleOf(std::string_view path) {
  const bool is_beneath = path.starts_with(kMessagesPath) && (path.size() == kMessagesPath.size() ||
                                                              path[kMessagesPath.size()] == '/');
  return is_beneath ? ErrorStyle::kAnthropic : ErrorStyle::kOpenAi;
}

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

std::string ErrorJson(const ApiError& error, ErrorStyle style) {
  const bool is_openai = style == ErrorStyle::kOpenAi;
  Json::Object json;
  if (!is_openai) json.emplace_back("type", "error");
  json.emplace_back("error",
                    Json::Object{{"message", ShownMessage(error)},
                                 {"type", is_openai ? error.type : AnthropicType(error.status)},
                                 {"param", StringOrNull(error.param)},
                                 {"code", StringOrNull(error.code)}});
  return Json(std::move(json)).Dump();
}

HttpResponse ErrorResponse(const ApiError& error, ErrorStyle style) {
  HttpResponse response{.status = error.status, .headers = {}, .body = ErrorJson(error, style)};
  if (error.status == 503 || error.status == 429) {
    const auto wait =
        std::chrono::ceil<std::chrono::seconds>(error.retry_after.value_or(kRetryAfter));
    response.headers.emplace_back("Retry-After", StrCat(std::max(wait, kRetryAfter).count()));
  }
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace aril::gateway
