#include "jinja/print.h"

#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/object.h"
#include "jinja/runtime.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

void AppendHex(char32_t c, int num_digits, std::string* out) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (int shift = 4 * (num_digits - 1); shift >= 0; shift -= 4) {
    out->push_back(kHex[c >> shift & 15]);
  }
}

void AppendEscaped(char32_t c, char quote, std::string* out) {
  if (c == static_cast<char32_t>(quote) || c == '\\') {
    out->push_back('\\');
    AppendUtf8(c, out);
  } else if (c == '\n') {
    *out += "\\n";
  } else if (c == '\r') {
    *out += "\\r";
  } else if (c == '\t') {
    *out += "\\t";
  } else if (IsPrintable(c)) {
    AppendUtf8(c, out);
  } else if (c < 0x100) {
    AppendHex(c, 2, &(*out += "\\x"));
  } else if (c < 0x10000) {
    AppendHex(c, 4, &(*out += "\\u"));
  } else {
    AppendHex(c, 8, &(*out += "\\U"));
  }
}

Status AppendSequence(Runtime* runtime, const Sequence& sequence, int level, std::string* out) {
  const bool is_list = sequence.kind == Sequence::Kind::kList;
  RETURN_IF_ERROR(AppendText(runtime, is_list ? "[" : "(", out));
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) RETURN_IF_ERROR(AppendText(runtime, ", ", out));
    RETURN_IF_ERROR(AppendRepr(runtime, sequence.items[i], level + 1, out));
  }
  if (!is_list && sequence.items.size() == 1) RETURN_IF_ERROR(AppendText(runtime, ",", out));
  return AppendText(runtime, is_list ? "]" : ")", out);
}

Status AppendDict(Runtime* runtime, const Dict& dict, int level, std::string* out) {
  RETURN_IF_ERROR(AppendText(runtime, "{", out));
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) RETURN_IF_ERROR(AppendText(runtime, ", ", out));
    RETURN_IF_ERROR(AppendRepr(runtime, dict.entries[i].first, level + 1, out));
    RETURN_IF_ERROR(AppendText(runtime, ": ", out));
    RETURN_IF_ERROR(AppendRepr(runtime, dict.entries[i].second, level + 1, out));
  }
  return AppendText(runtime, "}", out);
}

// "d.ddde±xx" as digits and a decimal exponent.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;  // of the first digit
};

Decimal ShortestDecimal(double value) {
  char buffer[32];
  const char* end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  Decimal decimal;
  const char* pos = buffer;
  if (*pos == '-') decimal.negative = true, ++pos;
  for (; *pos != 'e'; ++pos) {
    if (*pos != '.') decimal.digits.push_back(*pos);
  }
  ++pos;
  if (*pos == '+') ++pos;
  std::from_chars(pos, end, decimal.exponent);
  return decimal;
}

std::string WithExponent(const Decimal& decimal) {
  std::string out = decimal.digits.substr(0, 1);
  if (decimal.digits.size() > 1) out += "." + decimal.digits.substr(1);
  const int magnitude = std::abs(decimal.exponent);
  return StrCat(out, decimal.exponent < 0 ? "e-" : "e+", magnitude < 10 ? "0" : "", magnitude);
}

std::string WithoutExponent(const Decimal& decimal) {
  std::string out = decimal.digits;
  const int num_digits = static_cast<int>(out.size());
  if (decimal.exponent < 0) {
    return "0." + std::string(static_cast<size_t>(-decimal.exponent - 1), '0') + out;
  }
  if (decimal.exponent >= num_digits - 1) {
    return out + std::string(static_cast<size_t>(decimal.exponent - num_digits + 1), '0') + ".0";
  }
  return out.insert(static_cast<size_t>(decimal.exponent) + 1, ".");
}

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const Decimal decimal = ShortestDecimal(value);
  // Python's limits for format 'r'.
  const bool plain = decimal.exponent >= -4 && decimal.exponent < 16;
  return (decimal.negative ? "-" : "") + (plain ? WithoutExponent(decimal) : WithExponent(decimal));
}

std::string QuoteAsPython(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) AppendEscaped(NextCodePoint(text, &pos), quote, &out);
  out.push_back(quote);
  return out;
}

Status AppendText(Runtime* runtime, std::string_view text, std::string* out) {
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(text.size()));
  *out += text;
  return OkStatus();
}

Status AppendRepr(Runtime* runtime, const Value& value, int level, std::string* out) {
  RETURN_IF_ERROR(runtime->budget().ChargeSteps());
  // Containers are bounded when they are made, but namespaces may contain each other as deep as
  // they like.
  if (level > 2 * kMaxValueDepth) {
    return ResourceExhausted(StrCat("printing goes deeper than ", 2 * kMaxValueDepth, " levels"));
  }
  if (const String* s = value.AsString()) {
    // "\\x01" is the longest escape of a byte.
    RETURN_IF_ERROR(runtime->budget().ChargeBytes(s->text.size(), 4));
    *out += QuoteAsPython(s->text);
    return OkStatus();
  }
  if (const Sequence* s = value.AsSequence()) return AppendSequence(runtime, *s, level, out);
  if (const Dict* dict = value.AsDict()) return AppendDict(runtime, *dict, level, out);
  if (Object* object = value.AsObject()) return object->AppendRepr(runtime, level, out);
  if (value.is_undefined()) return AppendText(runtime, "Undefined", out);
  return AppendStr(runtime, value, out);
}

Status AppendStr(Runtime* runtime, const Value& value, std::string* out) {
  if (const String* s = value.AsString()) return AppendText(runtime, s->text, out);
  if (const int64_t* i = value.AsInt()) return AppendText(runtime, std::to_string(*i), out);
  if (const double* d = value.AsFloat()) return AppendText(runtime, FloatRepr(*d), out);
  if (const bool* b = value.AsBool()) return AppendText(runtime, *b ? "True" : "False", out);
  if (value.is_none()) return AppendText(runtime, "None", out);
  if (value.is_undefined()) return OkStatus();
  return AppendRepr(runtime, value, 0, out);
}

StatusOr<Value> ToStr(Runtime* runtime, const Value& value) {
  if (value.AsString() != nullptr) return value;
  std::string text;
  RETURN_IF_ERROR(AppendStr(runtime, value, &text));
  return runtime->NewString(std::move(text));
}

StatusOr<Value> ToRepr(Runtime* runtime, const Value& value) {
  std::string text;
  RETURN_IF_ERROR(AppendRepr(runtime, value, 0, &text));
  return runtime->NewString(std::move(text));
}

}  // namespace aril::jinja
