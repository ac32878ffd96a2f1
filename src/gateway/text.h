// Small helpers on text, URL paths and HTTP field names.

#ifndef ARIL_GATEWAY_TEXT_H_
#define ARIL_GATEWAY_TEXT_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace aril::gateway {

// Number of code points of a valid UTF-8 text.
size_t CountCodePoints(std::string_view text);

// `text` with %XX replaced by the byte it stands for; nullopt if a % is not followed by two
// hexadecimal digits.
std::optional<std::string> PercentDecode(std::string_view text);

// The value of the first parameter of that name in a query ("a=1&b=2"), percent-decoded; as it was
// sent if that cannot be, and empty without `=`. nullopt if there is none.
std::optional<std::string> FindQueryParameter(std::string_view query, std::string_view name);

// The name of the first parameter that is none of `names`, as it was sent.
std::optional<std::string_view> FindOtherParameter(std::string_view query,
                                                   std::span<const std::string_view> names);

// `text` without the spaces, tabs and ends of lines before or behind it.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);

// Bytes at the end of `text` that `word`, which is not empty, begins with, less than all of it.
size_t NumBegun(std::string_view text, std::string_view word);

// `text` without the spaces and tabs around it (the optional whitespace of RFC 9110).
std::string_view TrimBlanks(std::string_view text);

// ASCII only: HTTP field names and tokens.
bool EqualsIgnoreCase(std::string_view a, std::string_view b);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_TEXT_H_
