// Small helpers on text, URL paths and HTTP field names.

#ifndef ARIL_GATEWAY_TEXT_H_
#define ARIL_GATEWAY_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace aril::gateway {

// Number of code points of a valid UTF-8 text.
size_t CountCodePoints(std::string_view text);

// `text` with %XX replaced by the byte it stands for; nullopt if a % is not followed by two
// hexadecimal digits.
std::optional<std::string> PercentDecode(std::string_view text);

// ASCII only: HTTP field names and tokens.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TEXT_H_
