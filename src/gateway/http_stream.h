// The bytes of one accepted connection, plain or under TLS. Internal to the server: includes Asio.

#ifndef ARIL_GATEWAY_HTTP_STREAM_H_
#define ARIL_GATEWAY_HTTP_STREAM_H_

#include <functional>
#include <memory>
#include <string_view>

#include "boost/asio/any_io_executor.hpp"
#include "boost/asio/awaitable.hpp"
#include "boost/asio/buffer.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "boost/system/error_code.hpp"

namespace aril::gateway {

// One read and one write may be in flight at the same time. Nothing is cancelled but by Close: a
// TLS record that was read or written by half cannot be taken up again. On the server's thread.
class HttpStream {
 public:
  using ReadHandler = std::function<void(boost::system::error_code, size_t)>;

  virtual ~HttpStream() = default;

  virtual boost::asio::any_io_executor executor() = 0;
  // To be awaited before anything else: the TLS handshake.
  virtual boost::asio::awaitable<boost::system::error_code> Open() = 0;
  // Calls `handler` with what arrives next; `buffer` must live until then.
  virtual void ReadSome(boost::asio::mutable_buffer buffer, ReadHandler handler) = 0;
  // Writes all of `bytes`, which must live until then.
  virtual boost::asio::awaitable<boost::system::error_code> Write(std::string_view bytes) = 0;
  // Lets the client know that nothing more comes. It can still be read from.
  virtual void EndWrites() = 0;
  // Ends whatever is in flight with an error.
  virtual void Close() = 0;
};

std::shared_ptr<HttpStream> MakePlainStream(boost::asio::ip::tcp::socket socket);
// `context` must outlive the stream.
std::shared_ptr<HttpStream> MakeTlsStream(boost::asio::ip::tcp::socket socket,
                                          boost::asio::ssl::context& context);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_HTTP_STREAM_H_
