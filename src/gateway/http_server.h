// An HTTP/1.1 server, with TLS if wanted: one thread, a coroutine per connection.
//
// A connection's bytes (http_stream, tls_context) are parsed into a request (http_syntax,
// http_parser) and handed to the handler with an exchange for the answer; http_connection joins
// these. Asio stays inside the files that CMakeLists.txt names.

#ifndef ARIL_GATEWAY_HTTP_SERVER_H_
#define ARIL_GATEWAY_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "gateway/body_sink.h"
#include "gateway/cors.h"
#include "gateway/http_message.h"
#include "gateway/http_parser.h"

namespace aril::gateway {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // or a name: all of its addresses that this machine has
  uint16_t port = 8000;            // 0: any free one
  // PEM; without them, plain HTTP. No keyfile: the certificate's file holds the key, too.
  std::string ssl_certfile;
  std::string ssl_keyfile;
  CorsPolicy cors;
  size_t max_connections = 4096;
  RequestLimits request;
  // What may wait for a client that reads more slowly than it is written to; one that has taken
  // all that came before may be given more at once.
  size_t max_stream_buffer_bytes = 1 << 20;
  Duration idle_timeout = std::chrono::seconds(75);  // between requests of a connection
  Duration handshake_timeout = std::chrono::seconds(10);
  Duration header_timeout = std::chrono::seconds(10);  // for a whole head
  Duration body_timeout = std::chrono::seconds(60);    // for a whole body
  Duration write_timeout = std::chrono::seconds(30);   // for the next 64 KiB to be taken
  // How long what a client still sends is read after the last answer of a connection: closing with
  // unread bytes resets the connection, and the client might never see that answer.
  Duration linger_timeout = std::chrono::seconds(2);
  Duration heartbeat_interval = std::chrono::seconds(10);
};

class HttpServer {
 public:
  // Binds and listens, so that an address in use is known at once. InvalidArgument for a host that
  // is neither an address nor a name of any, or files that are no certificate and key; Unavailable
  // if the port is taken, or the host is not this machine.
  static StatusOr<std::unique_ptr<HttpServer>> Listen(const HttpServerOptions& options);
  // One that nobody can reach: it runs what is posted, until Stop.
  static std::unique_ptr<HttpServer> Unreachable();
  ~HttpServer();

  uint16_t port() const;  // 0 of one that nobody can reach

  // Serves on the calling thread until the end of a drain, or Stop. Call once. `planner` (may be
  // empty) is asked, on this thread, about each request with a head that is not malformed.
  void Run(HttpHandler handler, BodyPlanner planner = nullptr);

  // Runs `function` on the server's thread, soon; not at all if Run has returned. It must not
  // throw. Thread-safe.
  void Post(std::function<void()> function);

  // The same, after a while.
  void PostAfter(Duration after, std::function<void()> function);

  // Accepts no more, closes idle connections, and lets the others finish their answers. After
  // `timeout` calls `on_timeout` (which should end the answers that are left), and closes what is
  // open a second later. Thread-safe; later calls have no effect.
  void Drain(Duration timeout, std::function<void()> on_timeout);

  // Reads the certificate and its key again, for connections that come from now on. An error leaves
  // the old ones. Only with a certificate. Thread-safe.
  Status ReloadCertificate();

  // Calls `on_first` at the first of the TerminationSignals and Stop at a second one that
  // EndsAtOnce, both on the server's thread. On the server's thread, or before Run; until then
  // signals do what they do by default.
  void OnTerminationSignal(std::function<void()> on_first);

  // Ends Run at once. Thread-safe.
  void Stop();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HTTP_SERVER_H_
