#include "jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace aril::jinja {
namespace {

enum class Case { kUpper, kLower, kTitle };

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool IsUpperLetter(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LU || utf8proc_isupper(static_cast<int32_t>(c)) != 0;
}
bool IsLowerLetter(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LL || utf8proc_islower(static_cast<int32_t>(c)) != 0;
}
bool IsTitleLetter(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_LT; }
bool IsCased(char32_t c) { return IsUpperLetter(c) || IsLowerLetter(c) || IsTitleLetter(c); }

char32_t Map(char32_t c, Case to) {
  const auto code = static_cast<utf8proc_int32_t>(c);
  if (to == Case::kUpper) return static_cast<char32_t>(utf8proc_toupper(code));
  if (to == Case::kLower) return static_cast<char32_t>(utf8proc_tolower(code));
  return static_cast<char32_t>(utf8proc_totitle(code));
}

void AppendMapped(char32_t c, Case to, std::string* out) {
  if (c == 0xDF && to != Case::kLower) {
    *out += to == Case::kUpper ? "SS" : "Ss";
  } else if (c == 0x130 && to == Case::kLower) {
    *out += "i\xCC\x87";
  } else {
    AppendUtf8(Map(c, to), out);
  }
}

template <typename ChooseCase>
std::string MapEach(std::string_view text, ChooseCase choose) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, &pos);
    AppendMapped(c, choose(c), &out);
  }
  return out;
}

bool Contains(std::string_view chars, char32_t wanted) {
  for (size_t pos = 0; pos < chars.size();) {
    if (NextCodePoint(chars, &pos) == wanted) return true;
  }
  return false;
}

bool IsStripped(char32_t c, std::optional<std::string_view> chars) {
  return chars ? Contains(*chars, c) : IsSpace(c);
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

bool IsKind(char32_t c, CharKind kind) {
  const utf8proc_category_t category = Category(c);
  const bool alpha = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  const bool decimal = category == UTF8PROC_CATEGORY_ND;
  // Superscript and circled digits have the property Digit without being decimal.
  const bool digit = decimal || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
                     (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
                     (c >= 0x2460 && c <= 0x2468);
  const bool numeric =
      digit || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
  switch (kind) {
    case CharKind::kAlpha:
      return alpha;
    case CharKind::kDecimal:
      return decimal;
    case CharKind::kDigit:
      return digit;
    case CharKind::kNumeric:
      return numeric;
    case CharKind::kAlnum:
      return alpha || numeric;
    case CharKind::kSpace:
      return IsSpace(c);
  }
  return false;
}

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

size_t NumCodePoints(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(),
                                                         [](char c) { return IsContinuation(c); }));
}

size_t ByteOffset(const String& string, size_t index) {
  if (index >= string.length) return string.text.size();
  if (string.is_ascii()) return index;
  size_t pos = 0;
  for (; index > 0; --index) NextCodePoint(string.text, &pos);
  return pos;
}

size_t CodePointIndex(const String& string, size_t byte_offset) {
  if (string.is_ascii()) return byte_offset;
  return NumCodePoints(std::string_view(string.text).substr(0, byte_offset));
}

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsPrintable(char32_t c) {
  if (c == ' ') return true;
  const utf8proc_category_t category = Category(c);
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

bool IsIdentifierPart(char32_t c) {
  if (c < 0x80) return IsKind(c, CharKind::kAlnum) || c == '_';
  const utf8proc_category_t category = Category(c);
  return IsKind(c, CharKind::kAlnum) || category == UTF8PROC_CATEGORY_MN ||
         category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_PC;
}

std::string_view StripLeft(std::string_view text, std::optional<std::string_view> chars) {
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size() && IsStripped(NextCodePoint(text, &pos), chars);) {
    begin = pos;
  }
  return text.substr(begin);
}

std::string_view StripRight(std::string_view text, std::optional<std::string_view> chars) {
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (IsContinuation(text[last])) --last;
    size_t pos = last;
    if (!IsStripped(NextCodePoint(text, &pos), chars)) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string ToUpper(std::string_view text) {
  return MapEach(text, [](char32_t) { return Case::kUpper; });
}

std::string ToLower(std::string_view text) {
  return MapEach(text, [](char32_t) { return Case::kLower; });
}

std::string SwapCase(std::string_view text) {
  return MapEach(text, [](char32_t c) { return IsUpperLetter(c) ? Case::kLower : Case::kUpper; });
}

std::string Capitalize(std::string_view text) {
  return MapEach(text, [first = true](char32_t) mutable {
    return std::exchange(first, false) ? Case::kTitle : Case::kLower;
  });
}

std::string ToTitle(std::string_view text) {
  return MapEach(text, [after_cased = false](char32_t c) mutable {
    return std::exchange(after_cased, IsCased(c)) ? Case::kLower : Case::kTitle;
  });
}

bool IsUpper(std::string_view text) {
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, &pos);
    if (IsLowerLetter(c) || IsTitleLetter(c)) return false;
    any |= IsUpperLetter(c);
  }
  return any;
}

bool IsLower(std::string_view text) {
  bool any = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, &pos);
    if (IsUpperLetter(c) || IsTitleLetter(c)) return false;
    any |= IsLowerLetter(c);
  }
  return any;
}

bool IsTitle(std::string_view text) {
  bool any = false;
  bool after_cased = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, &pos);
    const bool begins = IsUpperLetter(c) || IsTitleLetter(c);
    if ((begins && after_cased) || (IsLowerLetter(c) && !after_cased)) return false;
    after_cased = IsCased(c);
    any |= after_cased;
  }
  return any;
}

bool IsAll(std::string_view text, CharKind kind) {
  for (size_t pos = 0; pos < text.size();) {
    if (!IsKind(NextCodePoint(text, &pos), kind)) return false;
  }
  return !text.empty();
}

std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = pos;
    const char32_t c = NextCodePoint(text, &pos);
    if (!IsLineEnd(c)) continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.push_back(text.substr(begin, (keep_ends ? pos : end) - begin));
    begin = pos;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

size_t FindText(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // glibc's memmem is the two-way algorithm. Sanitizers look at all bytes that it is given, at each
  // call: windows that grow keep the cost in proportion to what is skipped.
  const size_t rest = text.size() - from;
  for (size_t window = 64 + needle.size();; window *= 2) {
    const size_t size = std::min(window, rest);
    const void* found = memmem(text.data() + from, size, needle.data(), needle.size());
    if (found != nullptr) {
      return static_cast<size_t>(static_cast<const char*>(found) - text.data());
    }
    if (size == rest) return std::string_view::npos;
  }
}

}  // namespace aril::jinja
