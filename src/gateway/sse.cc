#include "gateway/sse.h"

#include <utility>

#include "base/check.h"

namespace aril::gateway {

std::string SseEvent(std::string_view data) {
  DCHECK(data.find_first_of("\r\n") == std::string_view::npos);
  std::string event = "data: ";
  event.append(data).append("\n\n");
  return event;
}

std::string SseEvent(std::string_view type, std::string_view data) {
  std::string event = "event: ";
  return event.append(type).append("\n").append(SseEvent(data));
}

std::optional<std::string> SseReader::Next() {
  while (const auto line = NextLine()) {
    if (line->empty()) {
      if (std::exchange(has_data_, false)) return std::exchange(data_, {});
      continue;
    }
    if (line->compare(0, 5, "data:") != 0) continue;
    if (has_data_) data_.push_back('\n');
    data_.append(*line, line->compare(5, 1, " ") == 0 ? 6 : 5);
    has_data_ = true;
  }
  return std::nullopt;
}

std::optional<std::string> SseReader::NextLine() {
  const size_t end = buffer_.find('\n', consumed_);
  if (end == std::string::npos) {
    buffer_.erase(0, std::exchange(consumed_, 0));
    return std::nullopt;
  }
  std::string line = buffer_.substr(consumed_, end - consumed_);
  consumed_ = end + 1;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

}  // namespace aril::gateway
