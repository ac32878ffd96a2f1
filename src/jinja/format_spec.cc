#include "jinja/format_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/arithmetic.h"
#include "jinja/print.h"
#include "jinja/runtime.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

// No float has more digits that are not zeros.
constexpr int kMaxPrecision = 1100;

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

// A sign or a prefix such as "0x", then the digits.
struct Number {
  std::string prefix;
  std::string digits;
};

std::string SignOf(bool is_negative, const FormatSpec& spec) {
  if (is_negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string Grouped(const std::string& digits, char separator, size_t group) {
  const size_t end = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < end; ++i) {
    if (i > 0 && (end - i) % group == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out + digits.substr(end);
}

StatusOr<std::string> Pad(Runtime* runtime, std::string_view prefix, std::string_view body,
                          const FormatSpec& spec, char default_align) {
  const auto length = static_cast<int64_t>(NumCodePoints(prefix) + NumCodePoints(body));
  const int64_t missing = std::max<int64_t>(spec.width - length, 0);
  const char align = spec.align != 0 ? spec.align : default_align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  ASSIGN_OR_RETURN(const std::string before, Repeat(runtime, spec.fill, left));
  ASSIGN_OR_RETURN(const std::string after, Repeat(runtime, spec.fill, missing - left));
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(prefix.size() + body.size()));
  if (align == '=') return StrCat(prefix, before, body);
  return StrCat(before, prefix, body, after);
}

Status UnknownCode(char type, std::string_view type_name) {
  return FailedPrecondition(
      StrCat("Unknown format code '", type, "' for object of type '", type_name, "'"));
}

std::string Printed(double value, char conversion, int precision, bool is_alternate) {
  const char format[] = {'%',
                         is_alternate ? '#' : '.',
                         is_alternate ? '.' : '*',
                         is_alternate ? '*' : conversion,
                         is_alternate ? conversion : '\0',
                         '\0'};
  std::array<char, 400 + kMaxPrecision> buffer;
  const int size = std::snprintf(buffer.data(), buffer.size(), format, precision, value);
  return std::string(buffer.data(), static_cast<size_t>(std::max(size, 0)));
}

// The digits of a value that is not negative.
std::string FloatDigits(double value, const FormatSpec& spec) {
  const bool is_upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  if (!std::isfinite(value)) {
    const std::string name = std::isnan(value) ? "nan" : "inf";
    return (is_upper ? ToUpper(name) : name) + (spec.type == '%' ? "%" : "");
  }
  if (spec.type == 0 && spec.precision < 0) return FloatRepr(value);
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  if (spec.type == '%') return Printed(value * 100, 'f', precision, spec.is_alternate) + "%";
  if (spec.type != 0) {
    return Printed(value, spec.type == 'n' ? 'g' : spec.type, precision, spec.is_alternate);
  }
  std::string digits = Printed(value, 'g', std::max(precision, 1), spec.is_alternate);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return digits;
}

StatusOr<Number> IntegerDigits(int64_t value, const FormatSpec& spec) {
  const char type = spec.type == 0 || spec.type == 'i' || spec.type == 'u' ? 'd' : spec.type;
  const int base = type == 'd' || type == 'n'   ? 10
                   : type == 'b'                ? 2
                   : type == 'o'                ? 8
                   : type == 'x' || type == 'X' ? 16
                                                : 0;
  if (base == 0) return UnknownCode(spec.type, "int");
  const uint64_t magnitude =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  char buffer[64];
  Number number{SignOf(value < 0, spec), ""};
  number.digits.assign(buffer, std::to_chars(buffer, buffer + 64, magnitude, base).ptr);
  if (spec.is_alternate && base != 10) number.prefix += StrCat("0", type);
  if (type == 'X') number.digits = ToUpper(number.digits);
  return number;
}

bool IsFloatType(char type) {
  return std::string_view("eEfFgG%").find(type) != std::string_view::npos && type != 0;
}

}  // namespace

StatusOr<int64_t> ReadWidth(std::string_view text, size_t* pos) {
  int64_t value = 0;
  const char* begin = text.data() + *pos;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (*pos == text.size() || *begin < '0' || *begin > '9') return 0;
  if (error != std::errc()) return FailedPrecondition("Too many decimal digits in format string");
  *pos += static_cast<size_t>(end - begin);
  return value;
}

StatusOr<int> ReadPrecision(std::string_view text, size_t* pos) {
  ASSIGN_OR_RETURN(const int64_t precision, ReadWidth(text, pos));
  if (precision > kMaxPrecision) {
    return FailedPrecondition(
        StrCat("the precision ", precision, " is more than the ", kMaxPrecision, " supported"));
  }
  return static_cast<int>(precision);
}

StatusOr<FormatSpec> ParseFormatSpec(std::string_view text) {
  FormatSpec spec;
  size_t pos = 0;
  const auto take = [&](std::string_view chars) -> char {
    if (pos == text.size() || chars.find(text[pos]) == std::string_view::npos) return 0;
    return text[pos++];
  };
  size_t after_fill = 0;
  if (!text.empty()) NextCodePoint(text, &after_fill);
  const bool has_fill = after_fill > 0 && after_fill < text.size() && IsAlign(text[after_fill]);
  if (has_fill) {
    spec.fill = text.substr(0, after_fill);
    pos = after_fill;
  }
  spec.align = take("<>^=");
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.is_alternate = take("#") != 0;
  if (take("0") != 0) {
    if (!has_fill) spec.fill = "0";
    if (spec.align == 0) spec.align = '=';
  }
  ASSIGN_OR_RETURN(spec.width, ReadWidth(text, &pos));
  spec.grouping = take(",_");
  if (take(".") != 0) {
    const size_t begin = pos;
    ASSIGN_OR_RETURN(spec.precision, ReadPrecision(text, &pos));
    if (pos == begin) return FailedPrecondition("Format specifier missing precision");
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos < text.size() || static_cast<unsigned char>(spec.type) >= 0x80) {
    return FailedPrecondition("Invalid format specifier");
  }
  return spec;
}

StatusOr<std::string> FormatText(Runtime* runtime, std::string_view text, const FormatSpec& spec) {
  if (spec.type != 0 && spec.type != 's') return UnknownCode(spec.type, "str");
  if (spec.align == '=' && spec.fill != "0") {
    return FailedPrecondition("'=' alignment not allowed in string format specifier");
  }
  size_t end = spec.precision < 0 ? text.size() : 0;
  for (int i = 0; end < text.size() && i < spec.precision; ++i) NextCodePoint(text, &end);
  FormatSpec plain = spec;
  if (plain.align == '=') plain.align = '<';
  return Pad(runtime, "", text.substr(0, end), plain, '<');
}

StatusOr<std::string> FormatInteger(Runtime* runtime, int64_t value, const FormatSpec& spec) {
  if (IsFloatType(spec.type)) return FormatFloat(runtime, static_cast<double>(value), spec);
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      return FailedPrecondition("%c arg not in range(0x110000)");
    }
    std::string c;
    AppendUtf8(static_cast<char32_t>(value), &c);
    return Pad(runtime, "", c, spec, '<');
  }
  ASSIGN_OR_RETURN(Number number, IntegerDigits(value, spec));
  if (spec.precision > static_cast<int>(number.digits.size())) {
    number.digits.insert(0, static_cast<size_t>(spec.precision) - number.digits.size(), '0');
  }
  const bool is_decimal = spec.type == 0 || spec.type == 'd';
  if (spec.grouping != 0) {
    number.digits = Grouped(number.digits, spec.grouping, is_decimal ? 3 : 4);
  }
  return Pad(runtime, number.prefix, number.digits, spec, '>');
}

StatusOr<std::string> FormatFloat(Runtime* runtime, double value, const FormatSpec& spec) {
  if (spec.type != 0 && spec.type != 'n' && !IsFloatType(spec.type)) {
    return UnknownCode(spec.type, "float");
  }
  const bool is_negative = std::signbit(value) && !std::isnan(value);
  std::string digits = FloatDigits(std::fabs(value), spec);
  if (spec.grouping != 0) digits = Grouped(digits, spec.grouping, 3);
  return Pad(runtime, SignOf(is_negative, spec), digits, spec, '>');
}

StatusOr<std::string> FormatValue(Runtime* runtime, const Value& value, std::string_view text) {
  std::string printed;
  if (text.empty()) {
    RETURN_IF_ERROR(AppendStr(runtime, value, &printed));
    return printed;
  }
  ASSIGN_OR_RETURN(const FormatSpec spec, ParseFormatSpec(text));
  int64_t integer = 0;
  if (value.AsIntegral(&integer)) return FormatInteger(runtime, integer, spec);
  if (const double* real = value.AsFloat()) return FormatFloat(runtime, *real, spec);
  if (const String* string = value.AsString()) return FormatText(runtime, string->text, spec);
  return FailedPrecondition(
      StrCat("unsupported format string passed to ", value.TypeName(), ".__format__"));
}

}  // namespace aril::jinja
