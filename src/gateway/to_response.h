// What the functions of the API return, as HTTP.

#ifndef ARIL_GATEWAY_TO_RESPONSE_H_
#define ARIL_GATEWAY_TO_RESPONSE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "gateway/adapters_api.h"
#include "gateway/api_error.h"
#include "gateway/event_inbox.h"
#include "gateway/http_message.h"

namespace aril::gateway {

HttpResponse JsonResponse(const Json& json);
HttpResponse ToResponse(const ApiResult<Json>& result, ErrorStyle style = ErrorStyle::kOpenAi);
HttpResponse ToResponse(const ApiResult<std::string>& result);  // plain text
HttpResponse ToResponse(const ApiResult<PutAnswer>& result);

// What there is to answer now; nullopt if the outcome is there later.
template <typename T>
std::optional<HttpResponse> ToResponse(const ApiResult<std::optional<T>>& result) {
  if (!result.ok()) return ErrorResponse(result.error());
  if (!result.value().has_value()) return std::nullopt;
  return ToResponse(ApiResult<T>(*result.value()));
}

// Answers with an outcome that is there later, and on any thread.
template <typename T>
std::function<void(const ApiResult<T>&)> AnswerLater(PostFunction post,
                                                     std::shared_ptr<HttpResponder> responder) {
  return [post = std::move(post), responder = std::move(responder)](const ApiResult<T>& outcome) {
    post([responder, response = ToResponse(outcome)] { responder->Respond(response); });
  };
}

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TO_RESPONSE_H_
