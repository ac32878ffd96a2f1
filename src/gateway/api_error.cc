#include "gateway/api_error.h"

#include "base/json.h"

namespace aril::gateway {
namespace {

constexpr int kRetryAfterSeconds = 1;

// Messages quote what the client sent, which may be megabytes.
constexpr size_t kMaxMessageBytes = 1000;

std::string Clip(const std::string& message) {
  return message.size() <= kMaxMessageBytes ? message : message.substr(0, kMaxMessageBytes) + " …";
}

Json StringOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

ApiError ServerError(int status, const Status& cause) {
  return {
      .status = status, .message = Message(cause), .type = "server_error", .param = "", .code = ""};
}

}  // namespace

ApiError InvalidField(const std::string& param, const std::string& message) {
  return {.message = message, .param = param, .code = ""};
}

ApiError ModelNotFound(const std::string& model) {
  return {.status = 404,
          .message = "The model `" + model + "` does not exist.",
          .param = "model",
          .code = "model_not_found"};
}

ApiError Overloaded(const std::string& message) {
  return {.status = 503, .message = message, .type = "overloaded_error", .param = "", .code = ""};
}

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
      return Overloaded(Message(status));
    case StatusCode::kUnimplemented:
      return ServerError(501, status);
    default:
      return ServerError(500, status);
  }
}

std::string ErrorJson(const ApiError& error) {
  return Json(Json::Object{{"error", Json::Object{{"message", Clip(error.message)},
                                                  {"type", error.type},
                                                  {"param", StringOrNull(error.param)},
                                                  {"code", StringOrNull(error.code)}}}})
      .Dump();
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response{.status = error.status, .headers = {}, .body = ErrorJson(error)};
  if (error.status == 503 || error.status == 429) {
    response.headers.emplace_back("Retry-After", std::to_string(kRetryAfterSeconds));
  }
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace aril::gateway
