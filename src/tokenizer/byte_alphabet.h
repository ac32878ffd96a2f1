// The byte-level alphabet of GPT-2: each of the 256 bytes as one printable code point.
//
// Printable bytes of Latin-1 stand for themselves; the other 68, in order, are U+0100 and up: a
// space is "Ġ", a newline "Ċ". Source: bytes_to_unicode() of GPT-2's encoder.py.

#ifndef ARIL_TOKENIZER_BYTE_ALPHABET_H_
#define ARIL_TOKENIZER_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace aril {

char32_t ByteToAlphabet(uint8_t byte);
std::optional<uint8_t> AlphabetToByte(char32_t code_point);

// Appends each byte of `bytes` as its code point in UTF-8.
void AppendInAlphabet(std::string_view bytes, std::string* out);

// The bytes that `token` (valid UTF-8) spells, or nothing if a code point is not of the alphabet.
std::optional<std::string> FromAlphabet(std::string_view token);

}  // namespace aril

#endif  // ARIL_TOKENIZER_BYTE_ALPHABET_H_
