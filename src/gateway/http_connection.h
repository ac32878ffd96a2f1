// One connection: reads requests, hands them to the handler, writes the answers. Internal to the
// server: includes Asio.

#ifndef ARIL_GATEWAY_HTTP_CONNECTION_H_
#define ARIL_GATEWAY_HTTP_CONNECTION_H_

#include <memory>

#include "boost/asio/awaitable.hpp"
#include "gateway/http_message.h"
#include "gateway/http_server.h"
#include "gateway/http_stream.h"

namespace aril::gateway {

// On the server's thread.
class HttpConnection {
 public:
  virtual ~HttpConnection() = default;

  // Serves until the connection ends. The connection is kept alive meanwhile.
  virtual boost::asio::awaitable<void> Run() = 0;
  // Answers 503 without reading anything, and closes.
  virtual boost::asio::awaitable<void> Refuse() = 0;
  // No more requests: closes now if none is in work, else after its answer.
  virtual void Drain() = 0;

  // `options`, `handler` and `planner` must outlive it.
  static std::shared_ptr<HttpConnection> Create(std::shared_ptr<HttpStream> stream,
                                                const HttpServerOptions& options,
                                                const HttpHandler& handler,
                                                const BodyPlanner& planner);
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HTTP_CONNECTION_H_
