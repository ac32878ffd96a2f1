#include "gateway/http_connection.h"

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "boost/asio/redirect_error.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/use_awaitable.hpp"
#include "gateway/api_error.h"
#include "gateway/body_sink.h"
#include "gateway/exchange.h"
#include "gateway/http_parser.h"
#include "gateway/http_syntax.h"

namespace aril::gateway {
namespace {

ApiError ForeignPage() {
  return {.status = 403,
          .message =
              "A web page of another origin may not do this; the server's --allowed-origins "
              "names those that may.",
          .param = "",
          .code = "foreign_origin"};
}

namespace asio = boost::asio;
using boost::system::error_code;

// What a TLS record holds at most. Memory that no byte has been read to is not resident.
constexpr size_t kReadBytes = 16 << 10;
// A client that takes this much in the time of a write is alive.
constexpr size_t kWriteBytes = 64 << 10;
// At most this much is read after the last answer of a connection.
constexpr size_t kLingerBytes = 64 << 20;

// Closes a stream when time is up.
class Deadline {
 public:
  explicit Deadline(std::shared_ptr<HttpStream> stream)
      : stream_(std::move(stream)), timer_(stream_->executor()) {}

  void Set(Duration after) {
    timer_.expires_after(after);
    timer_.async_wait([stream = stream_](error_code error) {
      if (!error) stream->Close();
    });
  }
  void Clear() { timer_.cancel(); }

 private:
  const std::shared_ptr<HttpStream> stream_;
  asio::steady_timer timer_;
};

class Connection final : public HttpConnection, public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<HttpStream> stream, const HttpServerOptions& options,
             const HttpHandler& handler, const BodyPlanner& planner)
      : stream_(std::move(stream)),
        deadline_(stream_),
        wake_(stream_->executor()),
        options_(options),
        handler_(handler),
        planner_(planner),
        read_buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)) {}

  asio::awaitable<void> Run() override {
    const auto self = shared_from_this();
    try {
      if (co_await Open()) {
        while (co_await ServeOne()) {
        }
      }
    } catch (const std::exception& exception) {
      LogError(StrCat("a connection ended: ", exception.what()));
    }
    if (exchange_ != nullptr) exchange_->Disconnect();
    stream_->Close();
  }

  asio::awaitable<void> Refuse() override {
    const auto self = shared_from_this();
    if (co_await Open()) {
      co_await Reject(Overloaded("The server has too many connections. Please try again."), {});
    }
    stream_->Close();
  }

  void Drain() override {
    draining_ = true;
    wake_.cancel();
    if (exchange_ != nullptr) exchange_->ForbidKeepAlive();
  }

 private:
  asio::awaitable<bool> Open() {
    deadline_.Set(options_.handshake_timeout);
    const error_code error = co_await stream_->Open();
    deadline_.Clear();
    co_return !error;
  }

  // Reads and answers one request. False: the connection is at its end.
  asio::awaitable<bool> ServeOne() {
    if (!co_await WaitForRequest()) co_return false;
    RequestParser parser(options_.request, planner_);
    if (co_await ReadRequest(parser)) co_return co_await Answer(parser);
    if (auto sink = parser.TakeRequest().sink) {
      BodySink& abandoned = *sink;
      abandoned.Abandon(std::move(sink));
    }
    co_return false;
  }

  // True when the first bytes of a request are there. Between requests a connection may be closed
  // without further ado.
  asio::awaitable<bool> WaitForRequest() {
    const auto end = std::chrono::steady_clock::now() + options_.idle_timeout;
    // GCC 12 waits even where `&& co_await` is not reached, so such a condition must not be joined.
    while (!draining_ && input_.empty()) {
      if (!co_await WaitForInput(end)) break;
    }
    co_return !draining_ && !input_.empty();
  }

  asio::awaitable<bool> ReadRequest(RequestParser& parser) {
    auto end = std::chrono::steady_clock::now() + options_.header_timeout;
    bool in_body = false;
    while (true) {
      if (const auto error = parser.Parse(&input_)) {
        co_await Reject(*error, parser.request());
        co_return false;
      }
      const size_t left_bytes = input_.size();
      if (parser.request().sink != nullptr) {
        if (!co_await Deliver(parser)) co_return true;
      }
      if (parser.done()) co_return true;
      if (parser.head_done() && !std::exchange(in_body, true)) {
        const bool is_sinks = parser.request().sink != nullptr;
        end = std::chrono::steady_clock::now() +
              (is_sinks ? parser.body_timeout() : options_.body_timeout);
        if (parser.expects_continue()) co_await Write("HTTP/1.1 100 Continue\r\n\r\n");
      }
      if (input_.size() > left_bytes) continue;  // arrived meanwhile
      if (co_await WaitForInput(end)) continue;
      if (!input_ended_) {
        co_await Reject(TransportError(408, "The request did not arrive in time."),
                        parser.request());
      }
      co_return false;
    }
  }

  // Hands what there is of a body to its sink. Meanwhile at most one read is in flight. False once
  // the sink has failed: what is still to come is nobody's.
  asio::awaitable<bool> Deliver(RequestParser& parser) {
    std::string bytes = parser.TakeBodyBytes();
    BodySink& sink = *parser.request().sink;
    if (bytes.empty()) co_return !sink.has_failed();
    const auto delivered = std::make_shared<bool>(false);
    sink.Append(std::move(bytes), [self = shared_from_this(), delivered] {
      *delivered = true;
      self->wake_.cancel();
    });
    while (!*delivered) {
      wake_.expires_at(asio::steady_timer::time_point::max());
      error_code woken;
      co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    }
    co_return !sink.has_failed();
  }

  asio::awaitable<bool> Answer(RequestParser& parser) {
    const HttpRequest& request = parser.request();
    exchange_ = std::make_shared<Exchange>(
        stream_->executor(),
        ExchangeOptions{.max_buffer_bytes = options_.max_stream_buffer_bytes,
                        .http_1_1 = parser.is_http_1_1(),
                        .head_only = parser.is_head(),
                        // What follows a request that is not done is the rest of its body.
                        .keep_alive = parser.keep_alive() && parser.done() && !draining_,
                        .extra_headers = options_.cors.FieldsFor(request.headers)});
    if (auto preflight = options_.cors.AnswerPreflight(request)) {
      exchange_->Respond(*std::move(preflight));
    } else if (options_.cors.IsForeign(request)) {
      exchange_->Respond(ErrorResponse(ForeignPage(), ErrorStyleOf(request.path)));
    } else {
      handler_(parser.TakeRequest(), exchange_);
    }
    WatchForDisconnect();
    const bool sent = co_await Send(*exchange_);
    if (!sent) exchange_->Disconnect();
    const bool keep_alive = sent && exchange_->keep_alive();
    exchange_ = nullptr;
    if (sent && !keep_alive) co_await Linger();
    co_return keep_alive;
  }

  asio::awaitable<bool> Send(Exchange& exchange) {
    while (true) {
      const std::string bytes = co_await exchange.NextBytes(options_.heartbeat_interval);
      if (bytes.empty()) co_return exchange.complete();
      if (!co_await Write(bytes)) co_return false;
    }
  }

  asio::awaitable<bool> Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, kWriteBytes);
      deadline_.Set(options_.write_timeout);
      const error_code error = co_await stream_->Write(piece);
      deadline_.Clear();
      if (error) co_return false;
      if (exchange_ != nullptr && exchange_->disconnected()) co_return false;
      bytes.remove_prefix(piece.size());
    }
    co_return true;
  }

  // Answers what was not a request, and ends the connection.
  asio::awaitable<void> Reject(const ApiError& error, const HttpRequest& request) {
    const HttpResponse response = ErrorResponse(error, ErrorStyleOf(request.path));
    const std::string bytes = SerializeHead(response, options_.cors.FieldsFor(request.headers),
                                            HttpFraming::kContentLength, /*keep_alive=*/false) +
                              response.body;
    if (co_await Write(bytes)) co_await Linger();
  }

  // Closing with unread bytes resets the connection, and the client might never see the answer.
  asio::awaitable<void> Linger() {
    stream_->EndWrites();
    const auto end = std::chrono::steady_clock::now() + options_.linger_timeout;
    for (size_t total_bytes = 0; total_bytes < kLingerBytes;) {
      total_bytes += input_.size();
      input_.clear();
      if (!co_await WaitForInput(end)) break;
    }
  }

  // One read is in flight whenever somebody waits for input or for the client to go away; what it
  // brings stays in `input_` until a request takes it. Peeking at the socket instead would tell
  // nothing under TLS, and cancelling a read there would lose bytes.
  void StartRead() {
    if (reading_ || input_ended_ || input_.size() > options_.request.max_header_bytes) return;
    reading_ = true;
    stream_->ReadSome(asio::buffer(read_buffer_.get(), kReadBytes),
                      [self = shared_from_this()](error_code error, size_t num_bytes) {
                        self->OnRead(error, num_bytes);
                      });
  }

  void OnRead(error_code error, size_t num_bytes) {
    reading_ = false;
    input_ended_ = static_cast<bool>(error);
    wake_.cancel();
    input_.append(read_buffer_.get(), num_bytes);
    if (exchange_ != nullptr) WatchForDisconnect();
  }

  // Waits for more input. May return true without any; false when there will be none, or at `end`.
  asio::awaitable<bool> WaitForInput(std::chrono::steady_clock::time_point end) {
    StartRead();
    if (input_ended_) co_return false;
    wake_.expires_at(end);
    error_code woken;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    co_return static_cast<bool>(woken);
  }

  // While a request is in work its client may go away. It may send the next request instead, and as
  // long as there is room for that, reading goes on; then only a failing write tells.
  void WatchForDisconnect() {
    StartRead();
    if (!input_ended_ || exchange_->complete()) return;
    exchange_->Disconnect();
    stream_->Close();  // ends a write that waits for the client
  }

  const std::shared_ptr<HttpStream> stream_;
  Deadline deadline_;        // for the handshake, or for a write
  asio::steady_timer wake_;  // cancelled when there is something to look at
  const HttpServerOptions& options_;
  const HttpHandler& handler_;
  const BodyPlanner& planner_;
  const std::unique_ptr<char[]> read_buffer_;
  std::string input_;
  bool reading_ = false;
  bool input_ended_ = false;
  std::shared_ptr<Exchange> exchange_;  // while a request is in work
  bool draining_ = false;
};

}  // namespace

std::shared_ptr<HttpConnection> HttpConnection::Create(std::shared_ptr<HttpStream> stream,
                                                       const HttpServerOptions& options,
                                                       const HttpHandler& handler,
                                                       const BodyPlanner& planner) {
  return std::make_shared<Connection>(std::move(stream), options, handler, planner);
}

}  // namespace aril::gateway
