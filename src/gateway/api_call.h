// A request on its way to a handler: what was asked, by whom, and where the answer goes.

#ifndef ARIL_GATEWAY_API_CALL_H_
#define ARIL_GATEWAY_API_CALL_H_

#include <memory>
#include <string>

#include "gateway/http_message.h"

namespace aril::gateway {

struct ApiCall {
  HttpRequest request;
  std::shared_ptr<HttpResponder> responder;
  std::string tenant;  // whose key the request carried
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_API_CALL_H_
