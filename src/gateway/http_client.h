// A blocking HTTP/1.1 client for the commands that ask a server, and for tests.

#ifndef ARIL_GATEWAY_HTTP_CLIENT_H_
#define ARIL_GATEWAY_HTTP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/http_message.h"

namespace aril::gateway {

struct HttpUrl {
  std::string host;
  uint16_t port = 80;
  std::string path;  // without a trailing '/': a prefix for the paths of requests
  bool is_https = false;
};

// "http://host[:port][/path]", or https.
StatusOr<HttpUrl> ParseHttpUrl(const std::string& url);

// One connection, opened when first needed and kept while the server allows. The certificate of an
// https server must be signed by an authority that the system trusts, or one in $SSL_CERT_FILE. Not
// thread-safe.
class HttpClient {
 public:
  // Of the body of an answer, streams included: more than any of ours has.
  static constexpr uint64_t kMaxBodyBytes = uint64_t{256} << 20;
  // `timeout` is for each wait: to connect, to send, and for the next bytes of an answer.
  HttpClient(HttpUrl url, Duration timeout, uint64_t max_body_bytes = kMaxBodyBytes);
  ~HttpClient();

  // The request's path is appended to the URL's. Unavailable if the server cannot be reached,
  // breaks off, or answers with more than `max_body_bytes`, or a head of more than 64 KiB.
  StatusOr<HttpResponse> Send(const HttpRequest& request);

  // Calls `on_data` with each piece of the body as it arrives; the response returned has none. If
  // it returns false, the connection is closed and the answer so far is the result.
  StatusOr<HttpResponse> SendStreaming(const HttpRequest& request,
                                       const std::function<bool(std::string_view)>& on_data);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HTTP_CLIENT_H_
