// SHA-256 (FIPS 180-4).

#ifndef ARIL_BASE_SHA256_H_
#define ARIL_BASE_SHA256_H_

#include <cstddef>
#include <span>
#include <string>

namespace aril {

// Of all bytes, as 64 hexadecimal digits in small letters.
std::string Sha256(std::span<const std::byte> bytes);
inline std::string Sha256(const std::string& text) {
  return Sha256(std::as_bytes(std::span(text)));
}

}  // namespace aril

#endif  // ARIL_BASE_SHA256_H_
