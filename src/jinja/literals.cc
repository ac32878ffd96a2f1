#include "jinja/literals.h"

#include <charconv>
#include <limits>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

bool IsDigit(char c, int base) {
  if (c >= '0' && c <= '9') return c - '0' < base;
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' && lower - 'a' + 10 < base;
}

// The size of `(_?digit)*`, or of `digit(_?digit)*` which begins without a "_".
size_t MatchDigits(std::string_view text, int base, bool may_begin_with_underscore) {
  size_t size = 0;
  while (size < text.size()) {
    const bool underscore = text[size] == '_' && (size > 0 || may_begin_with_underscore);
    const size_t digit = underscore ? size + 1 : size;
    if (digit >= text.size() || !IsDigit(text[digit], base)) break;
    size = digit + 1;
  }
  return size;
}

int BaseOfPrefix(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 10;
  switch (text[1] | 0x20) {
    case 'b':
      return 2;
    case 'o':
      return 8;
    case 'x':
      return 16;
    default:
      return 10;
  }
}

size_t MatchInteger(std::string_view text) {
  const int base = BaseOfPrefix(text);
  if (base != 10) {
    const size_t digits = MatchDigits(text.substr(2), base, true);
    if (digits > 0) return 2 + digits;
  }
  // After a zero come only zeros.
  return text[0] == '0' ? 1 + MatchDigits(text.substr(1), 1, true) : MatchDigits(text, 10, false);
}

size_t MatchFraction(std::string_view text) {
  if (!text.starts_with('.')) return 0;
  const size_t digits = MatchDigits(text.substr(1), 10, false);
  return digits > 0 ? 1 + digits : 0;
}

size_t MatchExponent(std::string_view text) {
  if (text.empty() || (text[0] | 0x20) != 'e') return 0;
  const size_t sign = text.size() > 1 && (text[1] == '+' || text[1] == '-') ? 1 : 0;
  const size_t digits = MatchDigits(text.substr(1 + sign), 10, false);
  return digits > 0 ? 1 + sign + digits : 0;
}

std::string WithoutUnderscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out.push_back(c);
  }
  return out;
}

std::optional<int64_t> FromDigits(std::string_view digits, int base) {
  int64_t value = 0;
  const auto end = digits.data() + digits.size();
  const auto [parsed, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || parsed != end) return std::nullopt;
  return value;
}

// Underscores only between digits, as int() and float() want them.
bool HasStrayUnderscore(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    if (i == 0 || i + 1 == text.size() || !IsDigit(text[i - 1], 36) || !IsDigit(text[i + 1], 36)) {
      return true;
    }
  }
  return false;
}

// The code point of "\ooo", "\xhh", "\uhhhh" or "\Uhhhhhhhh", whose digits begin at `*pos`.
StatusOr<char32_t> ReadCode(std::string_view text, int base, size_t num_digits, size_t* pos) {
  size_t size = 0;
  while (size < num_digits && *pos + size < text.size() && IsDigit(text[*pos + size], base)) ++size;
  if (base == 16 && size < num_digits) return InvalidArgument("truncated \\x, \\u or \\U escape");
  const auto code = FromDigits(text.substr(*pos, size), base).value_or(0);
  *pos += size;
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return InvalidArgument("illegal Unicode character in an escape");
  }
  return static_cast<char32_t>(code);
}

// What "\c" stands for; nullopt if `c` is no simple escape.
std::optional<std::string_view> SimpleEscape(char c) {
  static constexpr std::string_view kLetters = "\n\\'\"abfnrtv";
  static constexpr std::string_view kValues[] = {"",   "\\", "'",  "\"", "\a", "\b",
                                                 "\f", "\n", "\r", "\t", "\v"};
  const size_t found = kLetters.find(c);
  if (found == std::string_view::npos) return std::nullopt;
  return kValues[found];
}

size_t NumHexDigits(char c) { return c == 'x' ? 2 : c == 'u' ? 4 : 8; }

}  // namespace

NumberSpan MatchNumber(std::string_view text, bool may_be_float) {
  if (may_be_float) {
    const size_t whole = MatchDigits(text, 10, false);
    const size_t fraction = MatchFraction(text.substr(whole));
    const size_t exponent = MatchExponent(text.substr(whole + fraction));
    if (fraction + exponent > 0) return {whole + fraction + exponent, true};
  }
  return {MatchInteger(text), false};
}

std::optional<int64_t> IntegerOfLiteral(std::string_view text) {
  const int base = BaseOfPrefix(text);
  return FromDigits(WithoutUnderscores(base == 10 ? text : text.substr(2)), base);
}

double FloatOfLiteral(std::string_view text) {
  return ParseFloat(text).value_or(std::numeric_limits<double>::infinity());
}

std::optional<int64_t> ParseInteger(std::string_view text, int base) {
  text = StripRight(StripLeft(text));
  if (HasStrayUnderscore(text)) return std::nullopt;
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const int prefix = BaseOfPrefix(text);
  if (prefix != 10 && (base == prefix || base == 0)) text.remove_prefix(2);
  if (base == 0) base = prefix;
  if (text.starts_with('-')) return std::nullopt;
  return FromDigits((negative ? "-" : "") + WithoutUnderscores(text), base);
}

std::optional<double> ParseFloat(std::string_view text) {
  text = StripRight(StripLeft(text));
  if (HasStrayUnderscore(text)) return std::nullopt;
  if (text.starts_with('+') && !text.substr(1).starts_with('-')) text.remove_prefix(1);
  const std::string plain = WithoutUnderscores(text);
  double value = 0;
  const char* end = plain.data() + plain.size();
  const auto [parsed, error] = std::from_chars(plain.data(), end, value);
  if (parsed != end || plain.find('(') != std::string::npos) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    const bool tiny =
        plain.find("e-") != std::string::npos || plain.find("E-") != std::string::npos;
    const double magnitude = tiny ? 0 : std::numeric_limits<double>::infinity();
    return plain.starts_with('-') ? -magnitude : magnitude;
  }
  if (error != std::errc()) return std::nullopt;
  return value;
}

StatusOr<std::string> UnescapeString(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const char c = text[pos++];
    if (c != '\\' || pos == text.size()) {
      out.push_back(c);
      continue;
    }
    const char kind = text[pos];
    if (const auto simple = SimpleEscape(kind)) {
      out += *simple;
      ++pos;
    } else if (kind >= '0' && kind <= '7') {
      ASSIGN_OR_RETURN(const char32_t code, ReadCode(text, 8, 3, &pos));
      AppendUtf8(code, &out);
    } else if (kind == 'x' || kind == 'u' || kind == 'U') {
      ++pos;
      ASSIGN_OR_RETURN(const char32_t code, ReadCode(text, 16, NumHexDigits(kind), &pos));
      AppendUtf8(code, &out);
    } else if (kind == 'N') {
      return InvalidArgument("\\N{name} escapes are not supported");
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace aril::jinja
