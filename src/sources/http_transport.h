// One GET over HTTP/1.1 or TLS, as far as downloads need it. libcurl stays inside
// http_transport.cc.

#ifndef ARIL_SOURCES_HTTP_TRANSPORT_H_
#define ARIL_SOURCES_HTTP_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/transfer_monitor.h"
#include "sources/source_policy.h"
#include "sources/source_url.h"

namespace aril {

struct HttpGet {
  std::string url;
  std::vector<std::string> headers;      // "Name: value"
  const AwsCredentials* sign = nullptr;  // null: unsigned
  Duration timeout = {};                 // for all of it
};

// What of an answer's head matters here. Fields that were not there are empty.
struct HttpReplyHead {
  int status = 0;
  std::optional<int64_t> content_length;
  std::string content_encoding;
  std::string content_range;
  std::string etag;
  std::string location;
  std::string retry_after;
};

// Takes an answer. An error ends the transfer, and is what Get returns.
class HttpReplySink {
 public:
  virtual ~HttpReplySink() = default;
  virtual Status OnHead(const HttpReplyHead& head) = 0;
  virtual Status OnBody(std::string_view bytes) = 0;
};

// For one thread at a time.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  // Follows no redirects. OK when the answer is complete. Unavailable if another attempt may do
  // better; kCancelled if the monitor wants so; InvalidArgument for what stays as it is: an address
  // that may not be contacted, a certificate that is not trusted.
  virtual Status Get(const HttpGet& get, HttpReplySink& sink, const TransferMonitor& monitor) = 0;
};

// Connections go to addresses that the policy allows and to no others, whatever a name resolves to:
// each is looked at when its socket is opened. Proxies of the environment are not used, for they
// would connect on our behalf. Keeps connections for the next Get.
std::unique_ptr<HttpTransport> MakeHttpTransport(const SourcePolicy& policy);

// Where a redirect leads: `location`, which may be relative to `base` (RFC 3986, section 5.2), as
// it will be asked for. InvalidArgument unless that is http or https without a user.
struct ResolvedUrl {
  std::string url;
  Origin origin;
};
StatusOr<ResolvedUrl> ResolveUrl(const std::string& base, const std::string& location);

}  // namespace aril

#endif  // ARIL_SOURCES_HTTP_TRANSPORT_H_
