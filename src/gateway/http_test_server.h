// For tests: an HttpServer on a thread of its own, on a free port of the loopback interface.

#ifndef ARIL_GATEWAY_HTTP_TEST_SERVER_H_
#define ARIL_GATEWAY_HTTP_TEST_SERVER_H_

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "gateway/http_server.h"

namespace aril::gateway {

class RunningServer {
 public:
  RunningServer(HttpServerOptions options, HttpHandler handler, BodyPlanner planner = nullptr) {
    options.port = 0;
    auto server = HttpServer::Listen(options);
    CHECK(server.ok());
    server_ = *std::move(server);
    thread_ = std::thread([this, handler = std::move(handler), planner = std::move(planner)] {
      server_->Run(handler, planner);
    });
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;
  ~RunningServer() {
    server_->Stop();
    if (thread_.joinable()) thread_.join();
  }

  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  // Returns when Run does.
  void Join() { thread_.join(); }

 private:
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
};

// Answers with "METHOD body", and the path in X-Path.
inline void Echo(HttpRequest request, std::shared_ptr<HttpResponder> responder) {
  responder->Respond({.content_type = "text/plain",
                      .headers = {{"X-Path", request.path}},
                      .body = request.method + " " + request.body});
}

inline constexpr char kGet[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HTTP_TEST_SERVER_H_
