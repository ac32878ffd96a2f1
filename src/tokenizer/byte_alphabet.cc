#include "tokenizer/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace aril {
namespace {

constexpr char32_t kFirstShifted = 0x100;
constexpr size_t kNumShifted = 68;

constexpr bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Tables {
  std::array<char32_t, 256> to_alphabet{};
  std::array<uint8_t, kNumShifted> from_shifted{};
};

constexpr Tables MakeTables() {
  Tables tables;
  size_t shifted = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (StandsForItself(byte)) {
      tables.to_alphabet[byte] = static_cast<char32_t>(byte);
    } else {
      tables.from_shifted[shifted] = static_cast<uint8_t>(byte);
      tables.to_alphabet[byte] = kFirstShifted + static_cast<char32_t>(shifted++);
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

char32_t ByteToAlphabet(uint8_t byte) { return kTables.to_alphabet[byte]; }

std::optional<uint8_t> AlphabetToByte(char32_t code_point) {
  if (code_point < kFirstShifted) {
    if (!StandsForItself(static_cast<int>(code_point))) return std::nullopt;
    return static_cast<uint8_t>(code_point);
  }
  if (code_point >= kFirstShifted + kNumShifted) return std::nullopt;
  return kTables.from_shifted[code_point - kFirstShifted];
}

void AppendInAlphabet(std::string_view bytes, std::string* out) {
  for (const char c : bytes) AppendUtf8(ByteToAlphabet(static_cast<uint8_t>(c)), out);
}

std::optional<std::string> FromAlphabet(std::string_view token) {
  std::string bytes;
  for (size_t pos = 0; pos < token.size();) {
    const auto byte = AlphabetToByte(NextCodePoint(token, &pos));
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
  }
  return bytes;
}

}  // namespace aril
