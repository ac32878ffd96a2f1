// A request on its way to a handler: what was asked, by whom, and where the answer goes.

#ifndef ARIL_GATEWAY_API_CALL_H_
#define ARIL_GATEWAY_API_CALL_H_

#include <memory>
#include <string>

#include "gateway/api_error.h"
#include "gateway/http_message.h"

namespace aril::gateway {

struct ApiCall {
  HttpRequest request;
  std::shared_ptr<HttpResponder> responder;
  std::string tenant;  // whose key the request carried

  ErrorStyle error_style() const { return ErrorStyleOf(request.path); }
  void Fail(const ApiError& error) const {
    responder->Respond(ErrorResponse(error, error_style()));
  }
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_API_CALL_H_
