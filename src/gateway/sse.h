// Server-sent events (WHATWG HTML, section 9.2), as far as the OpenAI protocol uses them.

#ifndef ARIL_GATEWAY_SSE_H_
#define ARIL_GATEWAY_SSE_H_

#include <optional>
#include <string>
#include <string_view>

namespace aril::gateway {

inline constexpr std::string_view kSseContentType = "text/event-stream";
// Ends every stream of chunks.
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
// A comment line: keeps proxies from closing an idle stream.
inline constexpr std::string_view kSseHeartbeat = ": heartbeat\n\n";

// One event of one line of data. `data` must not contain line breaks (JSON text has none).
std::string SseEvent(std::string_view data);
// The same, of a type.
std::string SseEvent(std::string_view type, std::string_view data);

// Cuts a byte stream into events. For clients; not thread-safe.
class SseReader {
 public:
  void Append(std::string_view bytes) { buffer_.append(bytes); }
  // The data of the next complete event that has any, or nullopt. Lines of one event are joined by
  // '\n'; comments and fields other than `data` are skipped.
  std::optional<std::string> Next();

 private:
  std::optional<std::string> NextLine();

  std::string buffer_;
  size_t consumed_ = 0;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_SSE_H_
