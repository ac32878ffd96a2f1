// One request and its answer, between the handler and the connection. Internal to the server:
// includes Asio.

#ifndef ARIL_GATEWAY_EXCHANGE_H_
#define ARIL_GATEWAY_EXCHANGE_H_

#include <functional>
#include <string>

#include "base/clock.h"
#include "boost/asio/any_io_executor.hpp"
#include "boost/asio/awaitable.hpp"
#include "boost/asio/steady_timer.hpp"
#include "gateway/http_message.h"

namespace aril::gateway {

struct ExchangeOptions {
  // What may wait of a stream while something else is being sent, and one event more.
  size_t max_buffer_bytes = 0;
  bool http_1_1 = true;    // chunks are understood
  bool head_only = false;  // the request was a HEAD
  bool keep_alive = true;
  HttpHeaders extra_headers;  // for the head of the answer, whatever it is
};

// A queue of bytes with a handler on one end and the connection's writer on the other, both on the
// server's thread. May outlive its connection.
class Exchange final : public HttpResponder {
 public:
  Exchange(const boost::asio::any_io_executor& executor, ExchangeOptions options);

  // The handler's side.
  void Respond(HttpResponse response) override;
  void StartStream(HttpResponse head, std::string heartbeat) override;
  void Write(std::string_view bytes) override;
  void Finish() override;
  void OnDisconnect(std::function<void()> callback) override;

  // The connection's side.
  // Waits until there are bytes to send, and returns them; empty at the end, or once disconnected.
  // After `heartbeat_interval` without any, a stream gives its heartbeat.
  boost::asio::awaitable<std::string> NextBytes(Duration heartbeat_interval);
  // The client is gone: tells the handler, unless the answer is complete.
  void Disconnect();
  bool complete() const { return complete_; }
  bool disconnected() const { return disconnected_; }
  bool keep_alive() const { return options_.keep_alive; }
  // For an answer whose head is not yet written.
  void ForbidKeepAlive() { options_.keep_alive = false; }

 private:
  void Queue(std::string_view bytes);
  void Complete();

  ExchangeOptions options_;
  boost::asio::steady_timer wake_;  // cancelled when there is something to look at
  std::string queue_;
  std::string heartbeat_;
  bool chunked_ = false;
  bool streaming_ = false;
  bool sending_ = false;  // the connection has not come back for more
  bool complete_ = false;
  bool disconnected_ = false;
  std::function<void()> on_disconnect_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_EXCHANGE_H_
