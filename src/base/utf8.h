// UTF-8: reading code points from bytes that may be anything, and writing them.
//
// "Maximal subpart" (The Unicode Standard, section 3.9) is the longest head of an ill-formed
// sequence that could have begun a well-formed one; Rust's and Python's lossy decoders replace each
// by one U+FFFD, and so does LossyUtf8.

#ifndef ARIL_BASE_UTF8_H_
#define ARIL_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace aril {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Utf8Unit {
  enum class Kind : uint8_t {
    kValid,      // a whole code point
    kTruncated,  // the text ends inside of a code point that is fine so far
    kInvalid,    // no continuation can make this a code point
  };
  char32_t code_point;  // U+FFFD unless valid
  uint32_t size_bytes;  // of the code point, or of the maximal subpart; at least 1
  Kind kind;
};

// What stands at text[pos]; pos < text.size(). Surrogates, overlong forms and values above U+10FFFF
// are invalid.
Utf8Unit ReadUtf8(std::string_view text, size_t pos);

// Advances `*pos` past one code point of text that is known to be valid.
char32_t NextCodePoint(std::string_view text, size_t* pos);

void AppendUtf8(char32_t code_point, std::string* out);

bool IsValidUtf8(std::string_view text);

// Invalid bytes become U+FFFD, one per byte, as sentencepiece reads its input.
std::string ReplaceInvalidBytes(std::string_view text);

// Invalid bytes become U+FFFD, one per maximal subpart.
std::string LossyUtf8(std::string_view text);

// The number of bytes at the end of `text` that begin a code point which later bytes may complete:
// 0 to 3.
size_t TruncatedTailBytes(std::string_view text);

}  // namespace aril

#endif  // ARIL_BASE_UTF8_H_
