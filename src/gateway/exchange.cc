#include "gateway/exchange.h"

#include <utility>

#include "base/check.h"
#include "boost/asio/redirect_error.hpp"
#include "boost/asio/use_awaitable.hpp"

namespace aril::gateway {

namespace asio = boost::asio;

Exchange::Exchange(const asio::any_io_executor& executor, ExchangeOptions options)
    : options_(std::move(options)), wake_(executor) {}

void Exchange::Respond(HttpResponse response) {
  if (disconnected_) return;
  CHECK(!streaming_ && !complete_);
  std::string bytes = SerializeHead(response, options_.extra_headers, HttpFraming::kContentLength,
                                    options_.keep_alive);
  if (!options_.head_only) bytes += response.body;
  queue_ = std::move(bytes);
  Complete();
}

void Exchange::StartStream(HttpResponse head, std::string heartbeat) {
  if (disconnected_) return;
  CHECK(!streaming_ && !complete_);
  streaming_ = true;
  chunked_ = options_.http_1_1;
  if (!chunked_) options_.keep_alive = false;
  queue_ = SerializeHead(head, options_.extra_headers,
                         chunked_ ? HttpFraming::kChunked : HttpFraming::kUntilClose,
                         options_.keep_alive);
  heartbeat_ = std::move(heartbeat);
  wake_.cancel();
}

void Exchange::Write(std::string_view bytes) {
  if (disconnected_ || options_.head_only) return;
  CHECK(streaming_ && !complete_);
  // Who has nothing left to take is not slow, however much comes at once.
  if (sending_ && queue_.size() > options_.max_buffer_bytes) return Disconnect();
  Queue(bytes);
  wake_.cancel();
}

void Exchange::Finish() {
  if (disconnected_) return;
  CHECK(streaming_ && !complete_);
  if (chunked_ && !options_.head_only) queue_ += kLastChunk;
  Complete();
}

void Exchange::OnDisconnect(std::function<void()> callback) {
  on_disconnect_ = std::move(callback);
}

asio::awaitable<std::string> Exchange::NextBytes(Duration heartbeat_interval) {
  sending_ = false;
  while (queue_.empty() && !complete_ && !disconnected_) {
    wake_.expires_after(heartbeat_interval);
    boost::system::error_code error;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (!error && queue_.empty() && streaming_ && !complete_) Queue(heartbeat_);
  }
  if (disconnected_) co_return std::string();
  sending_ = true;
  co_return std::exchange(queue_, {});
}

void Exchange::Disconnect() {
  if (complete_ || std::exchange(disconnected_, true)) return;
  wake_.cancel();
  // The callback may end what holds it.
  if (const auto callback = std::exchange(on_disconnect_, nullptr)) callback();
}

void Exchange::Queue(std::string_view bytes) {
  if (chunked_) {
    AppendChunk(bytes, &queue_);
  } else {
    queue_ += bytes;
  }
}

void Exchange::Complete() {
  complete_ = true;
  on_disconnect_ = nullptr;
  wake_.cancel();
}

}  // namespace aril::gateway
