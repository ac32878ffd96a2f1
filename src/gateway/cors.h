// Cross-origin resource sharing (WHATWG Fetch, section 3.2): which web pages may use the API from a
// browser. None unless the operator names origins.

#ifndef ARIL_GATEWAY_CORS_H_
#define ARIL_GATEWAY_CORS_H_

#include <optional>
#include <string>
#include <string_view>
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

  // Whether a page of an origin that may not has a browser send this request. Browsers ask first
  // only where a form could not have sent the same, and a POST of text is one that it could: so its
  // answer alone would be kept from the page, not what it does. By Sec-Fetch-Site (W3C Fetch
  // Metadata), or else by Origin and Host; methods that change nothing are not looked at.
  bool IsForeign(const HttpRequest& request) const;

  // The answer to a preflight request, which browsers send without a key; nullopt if it is none.
  std::optional<HttpResponse> AnswerPreflight(const HttpRequest& request) const;

 private:
  bool Names(std::string_view origin) const;

  std::vector<std::string> origins_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_CORS_H_
