#include "gateway/http_server.h"

#include <exception>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "base/termination_signals.h"
#include "boost/asio/co_spawn.hpp"
#include "boost/asio/detached.hpp"
#include "boost/asio/executor_work_guard.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/redirect_error.hpp"
#include "boost/asio/signal_set.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/asio/use_awaitable.hpp"
#include "gateway/http_connection.h"
#include "gateway/http_listener.h"
#include "gateway/tls_context.h"

namespace aril::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// After a failed accept (no file descriptors left, as a rule).
constexpr Duration kAcceptBackoff = std::chrono::milliseconds(100);
// How long answers that a drain has cut short may take to go out.
constexpr Duration kLastWords = std::chrono::seconds(1);
// Connections above the limit that are being told so at the same time; more are just closed.
constexpr size_t kMaxRefusals = 64;

}  // namespace

struct HttpServer::Impl {
  explicit Impl(const HttpServerOptions& server_options)
      : options(server_options), signals(io), drain_timer(io) {}

  asio::awaitable<void> AcceptLoop(tcp::acceptor& acceptor);
  asio::awaitable<void> AcceptOne(tcp::acceptor& acceptor);
  asio::awaitable<void> Accepted(tcp::socket socket);
  asio::awaitable<void> Refuse(tcp::socket socket);
  std::shared_ptr<HttpConnection> MakeConnection(tcp::socket socket);
  void BeginDrain(Duration timeout, std::function<void()> on_timeout);
  void StopAtSecondSignal();
  void StopIfDrained() {
    if (draining && connections.empty()) io.stop();
  }

  const HttpServerOptions options;
  HttpHandler handler;
  BodyPlanner planner;
  std::unique_ptr<asio::ssl::context> tls;  // null: plain HTTP
  asio::io_context io{1};
  Acceptors acceptors;  // one for each address
  uint16_t port = 0;    // of them
  asio::signal_set signals;
  asio::steady_timer drain_timer;
  // Of one without acceptors, whose Run would end where nothing is to be done.
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::unordered_set<std::shared_ptr<HttpConnection>> connections;
  size_t num_refusals = 0;
  bool draining = false;
};

asio::awaitable<void> HttpServer::Impl::AcceptLoop(tcp::acceptor& acceptor) {
  asio::steady_timer backoff(io);
  while (!draining) {
    bool failed = false;
    try {
      co_await AcceptOne(acceptor);
    } catch (const std::exception& exception) {  // an exception here would end the loop silently
      failed = !draining;
      if (failed) LogWarning(StrCat("cannot accept a connection: ", exception.what()));
    }
    if (!failed) continue;
    error_code ignored;
    backoff.expires_after(kAcceptBackoff);
    co_await backoff.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

asio::awaitable<void> HttpServer::Impl::AcceptOne(tcp::acceptor& acceptor) {
  tcp::socket socket(io);
  co_await acceptor.async_accept(socket, asio::use_awaitable);
  if (draining) co_return;
  if (connections.size() < options.max_connections) {
    asio::co_spawn(io, Accepted(std::move(socket)), asio::detached);
  } else if (num_refusals < kMaxRefusals) {
    asio::co_spawn(io, Refuse(std::move(socket)), asio::detached);
  }
}

std::shared_ptr<HttpConnection> HttpServer::Impl::MakeConnection(tcp::socket socket) {
  auto stream =
      tls == nullptr ? MakePlainStream(std::move(socket)) : MakeTlsStream(std::move(socket), *tls);
  return HttpConnection::Create(std::move(stream), options, handler, planner);
}

asio::awaitable<void> HttpServer::Impl::Accepted(tcp::socket socket) {
  const auto connection = MakeConnection(std::move(socket));
  connections.insert(connection);
  co_await connection->Run();
  connections.erase(connection);
  StopIfDrained();
}

asio::awaitable<void> HttpServer::Impl::Refuse(tcp::socket socket) {
  ++num_refusals;
  co_await MakeConnection(std::move(socket))->Refuse();
  --num_refusals;
}

void HttpServer::Impl::BeginDrain(Duration timeout, std::function<void()> on_timeout) {
  if (std::exchange(draining, true)) return;
  error_code ignored;
  for (tcp::acceptor& acceptor : acceptors) acceptor.close(ignored);
  for (const auto& connection : connections) connection->Drain();
  StopIfDrained();
  drain_timer.expires_after(timeout);
  drain_timer.async_wait([this, on_timeout = std::move(on_timeout)](error_code error) {
    if (error) return;
    on_timeout();
    drain_timer.expires_after(kLastWords);
    drain_timer.async_wait([this](error_code last_error) {
      if (!last_error) io.stop();
    });
  });
}

void HttpServer::Impl::StopAtSecondSignal() {
  signals.async_wait([this](error_code error, int signal) {
    if (error) return;
    if (!EndsAtOnce(signal)) return StopAtSecondSignal();
    io.stop();
  });
}

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Listen(const HttpServerOptions& options) {
  try {
    auto impl = std::make_unique<Impl>(options);
    if (!options.ssl_certfile.empty()) {
      ASSIGN_OR_RETURN(impl->tls, LoadServerTls(options.ssl_certfile, options.ssl_keyfile));
    }
    ASSIGN_OR_RETURN(Endpoints endpoints, ResolveHost(impl->io, options.host, options.port));
    ASSIGN_OR_RETURN(impl->acceptors, ListenAt(impl->io, std::move(endpoints)));
    impl->port = impl->acceptors.front().local_endpoint().port();
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& exception) {
    return Internal(StrCat("cannot start the server: ", exception.what()));
  }
}

std::unique_ptr<HttpServer> HttpServer::Unreachable() {
  auto impl = std::make_unique<Impl>(HttpServerOptions());
  impl->work.emplace(impl->io.get_executor());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return impl_->port; }

void HttpServer::Run(HttpHandler handler, BodyPlanner planner) {
  impl_->handler = std::move(handler);
  impl_->planner = std::move(planner);
  for (tcp::acceptor& acceptor : impl_->acceptors) {
    asio::co_spawn(impl_->io, impl_->AcceptLoop(acceptor), asio::detached);
  }
  while (true) {
    try {
      impl_->io.run();
      return;
    } catch (const std::exception& exception) {
      // Out of memory, as a rule. What was being done is lost; the other connections are not.
      LogError(StrCat("an event of the server was dropped: ", exception.what()));
    }
  }
}

void HttpServer::Post(std::function<void()> function) {
  asio::post(impl_->io, std::move(function));
}

void HttpServer::PostAfter(Duration after, std::function<void()> function) {
  Post([this, after, function = std::move(function)]() mutable {
    auto timer = std::make_unique<asio::steady_timer>(impl_->io, after);
    asio::steady_timer& waiting = *timer;
    waiting.async_wait(
        [timer = std::move(timer), function = std::move(function)](error_code error) {
          if (!error) function();
        });
  });
}

void HttpServer::Drain(Duration timeout, std::function<void()> on_timeout) {
  Post([this, timeout, on_timeout = std::move(on_timeout)] {
    impl_->BeginDrain(timeout, on_timeout);
  });
}

Status HttpServer::ReloadCertificate() {
  ASSIGN_OR_RETURN(auto tls,
                   LoadServerTls(impl_->options.ssl_certfile, impl_->options.ssl_keyfile));
  // Connections that there are have taken what they need of the old one.
  Post([impl = impl_.get(), tls = std::make_shared<decltype(tls)>(std::move(tls))] {
    impl->tls = std::move(*tls);
  });
  return OkStatus();
}

void HttpServer::OnTerminationSignal(std::function<void()> on_first) {
  for (const int signal : TerminationSignals()) impl_->signals.add(signal);
  impl_->signals.async_wait([this, on_first = std::move(on_first)](error_code error, int) {
    if (error) return;
    on_first();
    impl_->StopAtSecondSignal();
  });
}

void HttpServer::Stop() { impl_->io.stop(); }

}  // namespace aril::gateway
