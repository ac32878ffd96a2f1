// What Python's str can do, on valid UTF-8. Positions and lengths are in code points.
//
// Case mappings are per code point, with ß and İ as the only ones that grow; Python applies all of
// SpecialCasing.txt (ligatures, the final sigma).

#ifndef ARIL_JINJA_TEXT_H_
#define ARIL_JINJA_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace aril::jinja {

size_t NumCodePoints(std::string_view text);

// Where the code point with this index begins; its length if there are no more.
size_t ByteOffset(const String& string, size_t index);
// The index of the code point that begins at this byte.
size_t CodePointIndex(const String& string, size_t byte_offset);

// str.isspace() of one code point, and what \s matches.
bool IsSpace(char32_t c);
// str.isprintable(): what repr() does not escape.
bool IsPrintable(char32_t c);
// What an identifier may contain, beyond ASCII roughly.
bool IsIdentifierPart(char32_t c);

// Removes code points of `chars` (white space if there are none given) from the ends.
std::string_view StripLeft(std::string_view text, std::optional<std::string_view> chars = {});
std::string_view StripRight(std::string_view text, std::optional<std::string_view> chars = {});

std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string SwapCase(std::string_view text);
// The first code point in title case, the others in lower case.
std::string Capitalize(std::string_view text);
// The first letter of every stretch of letters in title case, the others in lower case.
std::string ToTitle(std::string_view text);

// str.isupper() and so on.
bool IsUpper(std::string_view text);
bool IsLower(std::string_view text);
bool IsTitle(std::string_view text);
// Whether there is a code point and all are of the kind; `all` is "alpha", "digit", "decimal",
// "numeric", "alnum" or "space".
enum class CharKind { kAlpha, kDecimal, kDigit, kNumeric, kAlnum, kSpace };
bool IsAll(std::string_view text, CharKind kind);

// str.splitlines().
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);

// The byte where `needle` first occurs at or after `from`; npos if nowhere. Linear in the worst
// case, unlike std::string_view::find.
size_t FindText(std::string_view text, std::string_view needle, size_t from = 0);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_TEXT_H_
