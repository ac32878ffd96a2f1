// Hexadecimal digits, in the escapes of several languages.

#ifndef ARIL_GRAMMAR_HEX_H_
#define ARIL_GRAMMAR_HEX_H_

#include <cstdint>
#include <optional>

namespace aril::grammar {

inline std::optional<uint32_t> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_HEX_H_
