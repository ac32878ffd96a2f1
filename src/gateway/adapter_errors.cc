#include "gateway/adapter_errors.h"

namespace aril::gateway {

ApiError WithParam(ApiError error, std::string_view param) {
  error.param = std::string(param);
  return error;
}

ApiError AdapterNotFound(const std::string& name, std::string_view param) {
  return {.status = 404,
          .message = "The adapter `" + name + "` does not exist.",
          .param = std::string(param),
          .code = "adapter_not_found"};
}

ApiError NotInHistory(const std::string& name, std::string_view param) {
  return {.status = 404,
          .message = "The adapter `" + name +
                     "` has not stood for that generation; `history` of GET /v1/adapters/" + name +
                     " lists those that it has.",
          .param = std::string(param),
          .code = ""};
}

ApiError ChangeError(const Status& status, std::string_view name_param) {
  ApiError error = WithParam(FromStatus(status), name_param);
  const bool is_conflict = status.code() == StatusCode::kAborted;
  // Somebody changed the name while it was being loaded.
  const bool is_cancelled = status.code() == StatusCode::kCancelled;
  if (is_conflict || is_cancelled || status.code() == StatusCode::kFailedPrecondition) {
    error.status = 409;
  }
  if (is_conflict || is_cancelled) error.type = "invalid_request_error";
  if (is_conflict) error.code = "generation_conflict";
  return error;
}

}  // namespace aril::gateway
