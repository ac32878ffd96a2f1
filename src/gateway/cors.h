// Cross-origin resource sharing (WHATWG Fetch, section 3.2): which web pages may use the API from a
// browser. Off unless the operator names origins.

#ifndef ARIL_GATEWAY_CORS_H_
#define ARIL_GATEWAY_CORS_H_

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "gateway/http_message.h"

namespace aril::gateway {

class CorsPolicy {
 public:
  CorsPolicy() = default;  // no page of another origin may
  // `origins` as browsers send them (`https://app.example:8443`), or `*` alone for all.
  static StatusOr<CorsPolicy> Create(std::vector<std::string> origins);

  // What every answer to a request with this header carries, be it a stream or an error.
  HttpHeaders FieldsFor(const HttpHeaders& request) const;

  // The answer to a preflight request, which browsers send without a key; nullopt if it is none.
  std::optional<HttpResponse> AnswerPreflight(const HttpRequest& request) const;

 private:
  std::vector<std::string> origins_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CORS_H_
