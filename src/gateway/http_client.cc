#include "gateway/http_client.h"

#include <array>
#include <charconv>
#include <exception>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "boost/asio/connect.hpp"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/asio/write.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/http/buffer_body.hpp"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/read.hpp"
#include "gateway/tls_context.h"

namespace aril::gateway {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using ResponseParser = http::response_parser<http::buffer_body>;

constexpr uint16_t kHttpsPort = 443;
constexpr uint32_t kMaxHeadBytes = 64 << 10;

std::string Serialize(const HttpUrl& url, const HttpRequest& request) {
  std::string text =
      StrCat(request.method, " ", url.path, request.path, " HTTP/1.1\r\nHost: ", url.host, ":",
             url.port, "\r\nContent-Length: ", request.body.size(), "\r\n");
  for (const auto& [name, value] : request.headers) text += name + ": " + value + "\r\n";
  return text + "\r\n" + request.body;
}

HttpResponse ToResponse(const ResponseParser& parser) {
  HttpResponse response;
  response.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    response.headers.emplace_back(
        std::string(field.name_string().data(), field.name_string().size()),
        std::string(field.value().data(), field.value().size()));
  }
  response.content_type = std::string(FindHeader(response.headers, "Content-Type"));
  return response;
}

}  // namespace

StatusOr<HttpUrl> ParseHttpUrl(const std::string& url) {
  static constexpr std::string_view kHttp = "http://";
  static constexpr std::string_view kHttps = "https://";
  const Status error = InvalidArgument(url + ": expected http[s]://HOST[:PORT][/PATH]");
  HttpUrl result;
  result.is_https = url.compare(0, kHttps.size(), kHttps) == 0;
  if (result.is_https) result.port = kHttpsPort;
  const std::string_view scheme = result.is_https ? kHttps : kHttp;
  if (url.compare(0, scheme.size(), scheme) != 0) return error;
  const size_t path_at = std::min(url.find('/', scheme.size()), url.size());
  std::string authority = url.substr(scheme.size(), path_at - scheme.size());
  result.path = url.substr(path_at);
  while (!result.path.empty() && result.path.back() == '/') result.path.pop_back();
  if (const size_t colon = authority.rfind(':');
      colon != std::string::npos && authority.back() != ']') {
    const char* const end = authority.data() + authority.size();
    const auto parsed = std::from_chars(authority.data() + colon + 1, end, result.port);
    if (parsed.ec != std::errc() || parsed.ptr != end || result.port == 0) return error;
    authority.resize(colon);
  }
  if (authority.size() > 2 && authority.front() == '[' && authority.back() == ']') {
    authority = authority.substr(1, authority.size() - 2);
  }
  if (authority.empty()) return error;
  result.host = authority;
  return result;
}

struct HttpClient::Impl {
  HttpUrl url;
  Duration timeout{};
  uint64_t max_body_bytes = 0;
  asio::io_context io{1};
  tcp::socket socket{io};
  // For https: TLS over the socket.
  std::unique_ptr<asio::ssl::context> tls_context;
  std::optional<asio::ssl::stream<tcp::socket&>> tls;
  boost::beast::flat_buffer buffer;

  // Runs one asynchronous operation to its end, or until time is up.
  template <typename Start>
  error_code Await(const Start& start) {
    error_code result;
    start([&result](error_code error, auto&&...) { result = error; });
    io.restart();
    io.run_for(timeout);
    if (io.stopped()) return result;
    Close();
    io.run();
    return asio::error::timed_out;
  }

  // As Await, on TLS or the bare socket: `start` gets the stream to work on.
  template <typename Start>
  error_code AwaitStream(const Start& start) {
    if (tls) return Await([&](auto done) { start(*tls, done); });
    return Await([&](auto done) { start(socket, done); });
  }

  void Close() {
    error_code ignored;
    socket.close(ignored);
    tls.reset();
    buffer.clear();
  }

  Status Fail(const error_code& error) {
    if (error == http::error::body_limit) {
      return Fail(StrCat("its answer is longer than the ", max_body_bytes, " bytes that are read"));
    }
    return Fail(error.message());
  }
  Status Fail(const std::string& reason) {
    Close();
    return Unavailable(StrCat(url.host, ":", url.port, ": ", reason));
  }

  Status Connect() {
    if (socket.is_open()) return OkStatus();
    tcp::resolver resolver(io);
    error_code error;
    const auto endpoints = resolver.resolve(url.host, std::to_string(url.port), error);
    if (error) return Fail(error);
    error = Await([&](auto done) { asio::async_connect(socket, endpoints, done); });
    if (error) return Fail(error);
    socket.set_option(tcp::no_delay(true), error);
    return url.is_https ? ShakeHands() : OkStatus();
  }

  Status ShakeHands() {
    if (tls_context == nullptr) tls_context = MakeClientTls();
    tls.emplace(socket, *tls_context);
    SSL* const connection = tls->native_handle();
    RETURN_IF_ERROR(ExpectHost(connection, url.host));
    const error_code error =
        Await([&](auto done) { tls->async_handshake(asio::ssl::stream_base::client, done); });
    if (!error) return OkStatus();
    const auto verified = SSL_get_verify_result(connection);
    if (verified == X509_V_OK) return Fail(error);
    return Fail(StrCat("its certificate is not trusted: ", X509_verify_cert_error_string(verified),
                       "; name its authority's file in SSL_CERT_FILE"));
  }

  StatusOr<HttpResponse> Exchange(const HttpRequest& request,
                                  const std::function<bool(std::string_view)>& on_data) {
    RETURN_IF_ERROR(Connect());
    const std::string bytes = Serialize(url, request);
    error_code error = AwaitStream([&](auto& stream, auto done) {
      asio::async_write(stream, asio::buffer(bytes), std::move(done));
    });
    if (error) return Fail(error);
    ResponseParser parser;
    parser.header_limit(kMaxHeadBytes);
    parser.body_limit(max_body_bytes);
    error = AwaitStream([&](auto& stream, auto done) {
      http::async_read_header(stream, buffer, parser, std::move(done));
    });
    if (error) return Fail(error);
    HttpResponse response = ToResponse(parser);
    RETURN_IF_ERROR(ReadBody(parser, on_data));
    if (!parser.is_done() || !parser.keep_alive()) Close();
    return response;
  }

  Status ReadBody(ResponseParser& parser, const std::function<bool(std::string_view)>& on_data) {
    std::array<char, 16384> piece;
    while (!parser.is_done()) {
      parser.get().body().data = piece.data();
      parser.get().body().size = piece.size();
      error_code error = AwaitStream([&](auto& stream, auto done) {
        http::async_read_some(stream, buffer, parser, std::move(done));
      });
      if (error == http::error::need_buffer) error = {};
      if (error) return Fail(error);
      const size_t num_bytes = piece.size() - parser.get().body().size;
      if (num_bytes > 0 && !on_data({piece.data(), num_bytes})) return OkStatus();
    }
    return OkStatus();
  }
};

HttpClient::HttpClient(HttpUrl url, Duration timeout, uint64_t max_body_bytes)
    : impl_(std::make_unique<Impl>()) {
  impl_->url = std::move(url);
  impl_->timeout = timeout;
  impl_->max_body_bytes = max_body_bytes;
}
HttpClient::~HttpClient() = default;

StatusOr<HttpResponse> HttpClient::Send(const HttpRequest& request) {
  std::string body;
  auto response = SendStreaming(request, [&](std::string_view data) {
    body.append(data);
    return true;
  });
  if (response.ok()) response->body = std::move(body);
  return response;
}

StatusOr<HttpResponse> HttpClient::SendStreaming(
    const HttpRequest& request, const std::function<bool(std::string_view)>& on_data) {
  try {
    return impl_->Exchange(request, on_data);
  } catch (const std::exception& exception) {
    impl_->Close();
    return Internal(exception.what());
  }
}

}  // namespace aril::gateway
