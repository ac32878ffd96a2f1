#include "gateway/to_response.h"

namespace aril::gateway {

HttpResponse JsonResponse(const Json& json) { return {.headers = {}, .body = json.Dump()}; }

HttpResponse ToResponse(const ApiResult<Json>& result, ErrorStyle style) {
  return result.ok() ? JsonResponse(result.value()) : ErrorResponse(result.error(), style);
}

HttpResponse ToResponse(const ApiResult<std::string>& result) {
  if (!result.ok()) return ErrorResponse(result.error());
  return {.content_type = "text/plain; charset=utf-8", .headers = {}, .body = result.value()};
}

HttpResponse ToResponse(const ApiResult<PutAnswer>& result) {
  if (!result.ok()) return ErrorResponse(result.error());
  HttpResponse response = JsonResponse(result.value().adapter);
  if (result.value().is_new) response.status = 201;
  if (result.value().is_loading) response.status = 202;
  return response;
}

}  // namespace aril::gateway
