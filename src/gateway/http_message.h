// HTTP messages as handlers see them, free of any HTTP library.

#ifndef ARIL_GATEWAY_HTTP_MESSAGE_H_
#define ARIL_GATEWAY_HTTP_MESSAGE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace aril::gateway {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// The first value of a field, or "" if it is absent. Names are compared without case.
std::string_view FindHeader(const HttpHeaders& headers, std::string_view name);

class BodySink;

struct HttpRequest {
  std::string method;  // "GET", …; a HEAD arrives as a GET
  std::string path;    // as sent, without the query
  std::string query;   // as sent, without the `?`
  HttpHeaders headers;
  std::string body;
  std::shared_ptr<BodySink> sink = nullptr;  // has taken the body, if not null (body_sink.h)
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;  // besides Content-Type and those of the framing
  std::string body;
};

// Where the answer to one request goes. Everything happens on the server's thread.
//
// Exactly one of: Respond; or StartStream, any number of Writes, Finish. When the client goes away
// first, the callback of OnDisconnect runs once, and calls after that have no effect.
class HttpResponder {
 public:
  virtual ~HttpResponder() = default;

  virtual void Respond(HttpResponse response) = 0;

  // Sends the head of `head` (its body must be empty). While nothing is written for a while the
  // server sends `heartbeat`, unless that is empty.
  virtual void StartStream(HttpResponse head, std::string heartbeat) = 0;
  // Queues bytes of the body. A client that reads too slowly to keep the queue within its bound is
  // disconnected.
  virtual void Write(std::string_view bytes) = 0;
  virtual void Finish() = 0;

  virtual void OnDisconnect(std::function<void()> callback) = 0;
};

// Called on the server's thread; must not block. May keep the responder and answer later.
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<HttpResponder>)>;

// How the body of a response is delimited.
enum class HttpFraming { kContentLength, kChunked, kUntilClose };

// Status line and header fields, those of `extra_headers` included, with the empty line after them.
std::string SerializeHead(const HttpResponse& response, const HttpHeaders& extra_headers,
                          HttpFraming framing, bool keep_alive);

// Appends `data` as one chunk (RFC 9112, section 7.1); nothing for empty data, which would end the
// body.
void AppendChunk(std::string_view data, std::string* out);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HTTP_MESSAGE_H_
