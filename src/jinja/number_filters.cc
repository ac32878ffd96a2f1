// The filters on numbers.

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/strings.h"
#include "jinja/arithmetic.h"
#include "jinja/filters.h"
#include "jinja/literals.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

StatusOr<Value> Abs(Runtime*, const Value& self, const CallArguments&) { return Absolute(self); }

StatusOr<Value> Int(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  RETURN_IF_ERROR(CheckDefined(self, self));
  ASSIGN_OR_RETURN(const int64_t base, arguments.Int(1, 10));
  const Value value_if_wrong = arguments.Has(0) ? arguments[0] : Value(int64_t{0});
  int64_t integer = 0;
  if (self.AsIntegral(&integer)) return Value(integer);
  std::optional<double> real;
  if (const double* number = self.AsFloat()) real = *number;
  if (const String* text = self.AsString()) {
    RETURN_IF_ERROR(runtime->budget().ChargeCodePoints(text->text.size()));
    if (base == 0 || (base >= 2 && base <= 36)) {
      const auto parsed = ParseInteger(text->text, static_cast<int>(base));
      if (parsed) return Value(*parsed);
    }
    real = ParseFloat(text->text);  // "42.5" is 42
  }
  if (!real || !std::isfinite(*real)) return value_if_wrong;
  ASSIGN_OR_RETURN(integer, Truncate(*real));
  return Value(integer);
}

StatusOr<Value> Float(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  RETURN_IF_ERROR(CheckDefined(self, self));
  double number = 0;
  if (self.AsNumber(&number)) return Value(number);
  if (const String* text = self.AsString()) {
    RETURN_IF_ERROR(runtime->budget().ChargeCodePoints(text->text.size()));
    if (const auto parsed = ParseFloat(text->text)) return Value(*parsed);
  }
  return arguments.Has(0) ? arguments[0] : Value(0.0);
}

// Half to even of the exact decimal value, which the C library prints.
double RoundToDigits(double value, int digits) {
  if (!std::isfinite(value) || digits > 330) return value;
  if (digits >= 0) {
    std::array<char, 700> buffer;
    std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
    return std::strtod(buffer.data(), nullptr);
  }
  if (digits < -310) return std::copysign(0.0, value);
  const double scale = std::pow(10.0, -digits);
  return std::nearbyint(value / scale) * scale;
}

// round() of an integer to tens, hundreds, …: half to even.
StatusOr<Value> RoundInteger(int64_t value, int64_t digits) {
  if (digits >= 0) return Value(value);
  if (digits < -18) return Value(int64_t{0});
  int64_t scale = 1;
  for (; digits < 0; ++digits) scale *= 10;
  const int64_t rest = ((value % scale) + scale) % scale;
  int64_t rounded = 0;
  if (__builtin_sub_overflow(value, rest, &rounded)) {
    return FailedPrecondition("integer overflow: only 64-bit integers are supported");
  }
  const bool is_odd = (rounded / scale) % 2 != 0;
  const bool goes_up = rest > scale / 2 || (rest == scale / 2 && is_odd);
  if (goes_up && __builtin_add_overflow(rounded, scale, &rounded)) {
    return FailedPrecondition("integer overflow: only 64-bit integers are supported");
  }
  return Value(rounded);
}

StatusOr<Value> Round(Runtime*, const Value& self, const CallArguments& arguments) {
  RETURN_IF_ERROR(CheckDefined(self, self));
  ASSIGN_OR_RETURN(const int64_t digits, arguments.Int(0, 0));
  ASSIGN_OR_RETURN(const auto given_method, arguments.OptionalText(1));
  const std::string_view method = given_method.value_or("common");
  if (method != "common" && method != "ceil" && method != "floor") {
    return FailedPrecondition("method must be common, ceil or floor");
  }
  double number = 0;
  if (!self.AsNumber(&number)) {
    return FailedPrecondition(StrCat("round() wants a number, not ", self.TypeName()));
  }
  const int clamped = static_cast<int>(std::clamp<int64_t>(digits, -1000, 1000));
  if (method == "common") {
    int64_t integer = 0;
    if (self.AsIntegral(&integer)) return RoundInteger(integer, digits);
    return Value(RoundToDigits(number, clamped));
  }
  const double scale = std::pow(10.0, clamped);
  const double scaled = number * scale;
  if (!std::isfinite(scaled)) return FailedPrecondition("cannot round an infinite number");
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

StatusOr<Value> FileSize(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  static constexpr std::array kPrefixes = {"k", "M", "G", "T", "P", "E", "Z", "Y"};
  ASSIGN_OR_RETURN(const Value value, Float(runtime, self, CallArguments()));
  ASSIGN_OR_RETURN(const bool is_binary, arguments.Bool(0, false));
  const double size = *value.AsFloat();
  const double base = is_binary ? 1024 : 1000;
  if (size == 1) return runtime->NewString("1 Byte");
  if (size < base) {
    ASSIGN_OR_RETURN(const int64_t whole, Truncate(size));
    return runtime->NewString(StrCat(whole, " Bytes"));
  }
  size_t prefix = 0;
  double unit = base * base;
  for (; prefix + 1 < kPrefixes.size() && size >= unit; ++prefix) unit *= base;
  std::array<char, 400> number;
  std::snprintf(number.data(), number.size(), "%.1f ", base * size / unit);
  const std::string letter = is_binary && prefix == 0 ? "K" : kPrefixes[prefix];
  return runtime->NewString(StrCat(number.data(), letter, is_binary ? "iB" : "B"));
}

constexpr std::array kFilters = {
    Function{"abs", Abs},
    Function{"int", Int, {"default", "base"}},
    Function{"float", Float, {"default"}},
    Function{"round", Round, {"precision", "method"}},
    Function{"filesizeformat", FileSize, {"binary"}},
};

}  // namespace

std::span<const Function> NumberFilters() { return kFilters; }

}  // namespace aril::jinja
