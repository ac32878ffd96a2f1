// GET /openapi.json: a description of the HTTP API for tools (OpenAPI 3.1).

#ifndef ARIL_GATEWAY_OPENAPI_H_
#define ARIL_GATEWAY_OPENAPI_H_

#include <string>

namespace aril::gateway {

// JSON text. `version` is the server's.
std::string OpenApiDescription(const std::string& version);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_OPENAPI_H_
