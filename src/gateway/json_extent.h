// Where a JSON object ends, as its text comes.

#ifndef ARIL_GATEWAY_JSON_EXTENT_H_
#define ARIL_GATEWAY_JSON_EXTENT_H_

#include <cstddef>
#include <string_view>

namespace aril::gateway {

// Looks at nothing but brackets and strings: what is no JSON may end anywhere, or never.
class JsonExtent {
 public:
  // How many of these bytes, which follow those before, belong to the object; it has ended if
  // is_complete().
  size_t Append(std::string_view text) {
    size_t i = 0;
    while (i < text.size() && !is_complete_) Read(text[i++]);
    return i;
  }
  bool is_complete() const { return is_complete_; }

 private:
  void Read(char c) {
    if (in_string_) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (c == '\\') {
        is_escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      is_complete_ = --depth_ <= 0;
    }
  }

  int depth_ = 0;
  bool in_string_ = false;
  bool is_escaped_ = false;
  bool is_complete_ = false;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_JSON_EXTENT_H_
