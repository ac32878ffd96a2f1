#include "gateway/http_stream.h"

#include <openssl/ssl.h>

#include <utility>

#include "boost/asio/redirect_error.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/asio/use_awaitable.hpp"
#include "boost/asio/write.hpp"

namespace aril::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

// What plain and TLS streams do alike; `Stream` is Asio's.
template <typename Stream>
class BasicStream : public HttpStream {
 public:
  template <typename... Args>
  explicit BasicStream(Args&&... args) : stream_(std::forward<Args>(args)...) {
    error_code ignored;
    stream_.lowest_layer().set_option(tcp::no_delay(true), ignored);
  }

  asio::any_io_executor executor() override { return stream_.get_executor(); }

  void ReadSome(asio::mutable_buffer buffer, ReadHandler handler) override {
    stream_.async_read_some(buffer, std::move(handler));
  }

  asio::awaitable<error_code> Write(std::string_view bytes) override {
    error_code error;
    co_await asio::async_write(stream_, asio::buffer(bytes),
                               asio::redirect_error(asio::use_awaitable, error));
    co_return error;
  }

  void Close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 protected:
  Stream stream_;
};

class PlainStream final : public BasicStream<tcp::socket> {
 public:
  using BasicStream::BasicStream;

  asio::awaitable<error_code> Open() override { co_return error_code(); }

  void EndWrites() override {
    error_code ignored;
    stream_.shutdown(tcp::socket::shutdown_send, ignored);
  }
};

class TlsStream final : public BasicStream<asio::ssl::stream<tcp::socket>>,
                        public std::enable_shared_from_this<TlsStream> {
 public:
  using BasicStream::BasicStream;

  asio::awaitable<error_code> Open() override {
    error_code error;
    co_await stream_.async_handshake(asio::ssl::stream_base::server,
                                     asio::redirect_error(asio::use_awaitable, error));
    co_return error;
  }

  // Sends close_notify (RFC 8446, section 6.1) without waiting for the client's: data that comes
  // instead would be an error to SSL_shutdown, and end the reading, too. It does not wait if the
  // client's counts as received, but then SSL_read says that there is nothing more.
  void EndWrites() override {
    SSL* const ssl = stream_.native_handle();
    const int received = SSL_get_shutdown(ssl);
    SSL_set_shutdown(ssl, received | SSL_RECEIVED_SHUTDOWN);
    stream_.async_shutdown([self = shared_from_this()](error_code) {});
    SSL_set_shutdown(ssl, received | SSL_SENT_SHUTDOWN);
  }
};

}  // namespace

std::shared_ptr<HttpStream> MakePlainStream(tcp::socket socket) {
  return std::make_shared<PlainStream>(std::move(socket));
}

std::shared_ptr<HttpStream> MakeTlsStream(tcp::socket socket, asio::ssl::context& context) {
  return std::make_shared<TlsStream>(std::move(socket), context);
}

}  // namespace aril::gateway
