#include "grammar/json_number.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace aril::grammar {
namespace {

// A multiple of a power of ten.
using Scaled = __int128;
// Of numbers with bounds. With 19 digits before the point they fit Scaled, whose limit is 1.7e38.
constexpr int kFractionDigits = 16;
constexpr int kUsualDigits = 17;
constexpr int kMostDigits = 19;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Scaled PowerOf10(int exponent) {
  Scaled power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

enum class Rounding { kDown, kUp };

// The shortest decimal text that reads as `value`, in units of 10^-fraction_digits. What is 1e19 or
// larger becomes 1e19.
Scaled Scale(double value, int fraction_digits, Rounding rounding) {
  const double limit = std::pow(10.0, kMostDigits);
  value = std::clamp(value, -limit, limit);
  std::array<char, 32> text;
  const char* const end = std::to_chars(text.data(), text.data() + text.size(), std::abs(value),
                                        std::chars_format::scientific)
                              .ptr;
  Scaled digits = 0;
  int exponent = fraction_digits;
  bool is_fraction = false;
  const char* at = text.data();
  for (; *at != 'e'; ++at) {
    if (*at == '.') {
      is_fraction = true;
      continue;
    }
    digits = digits * 10 + (*at - '0');
    if (is_fraction) --exponent;
  }
  int written = 0;
  std::from_chars(at[1] == '+' ? at + 2 : at + 1, end, written);
  exponent += written;
  if (exponent >= 0) return (value < 0 ? -digits : digits) * PowerOf10(exponent);
  // No more than 17 digits: they are all dropped then.
  const Scaled divisor = PowerOf10(std::min(-exponent, kMostDigits));
  const bool away_from_0 = (rounding == Rounding::kUp) == (value > 0);
  const Scaled result = digits / divisor + (away_from_0 && digits % divisor != 0 ? 1 : 0);
  return value < 0 ? -result : result;
}

// The range that numbers may be of, ends included; whether both, or one, were given.
struct Range {
  Scaled min = 0;
  Scaled max = 0;
  bool has_min = false;
  bool has_max = false;
};

void RaiseMin(Range& range, Scaled min) {
  range.min = range.has_min ? std::max(range.min, min) : min;
  range.has_min = true;
}

void LowerMax(Range& range, Scaled max) {
  range.max = range.has_max ? std::min(range.max, max) : max;
  range.has_max = true;
}

// The least whole number that is not below the bound, or, if `above`, beyond it.
Scaled LeastWhole(const Json& bound, bool above) {
  if (const int64_t* whole = bound.AsInt()) return Scaled{*whole} + (above ? 1 : 0);
  const double value = *bound.AsDouble();
  if (above && value == std::floor(value)) return Scale(value, 0, Rounding::kUp) + 1;
  return Scale(value, 0, Rounding::kUp);
}

Scaled GreatestWhole(const Json& bound, bool below) {
  if (const int64_t* whole = bound.AsInt()) return Scaled{*whole} - (below ? 1 : 0);
  const double value = *bound.AsDouble();
  if (below && value == std::floor(value)) return Scale(value, 0, Rounding::kDown) - 1;
  return Scale(value, 0, Rounding::kDown);
}

// The double next to the bound in the direction of what is allowed, or the bound itself if it is a
// double and allowed. So what is read as a double, and rounded then, does not leave the bounds:
// 99.99999999999999999 would be 100.
double Inward(const Json& bound, bool is_exclusive, double direction) {
  double value = 0;
  bound.AsNumber(&value);
  const int64_t* whole = bound.AsInt();
  // long double has the 64 bits that a double may have lost.
  const long double exact = whole == nullptr ? value : static_cast<long double>(*whole);
  const bool is_outside = direction > 0 ? value < exact : value > exact;
  const bool is_at = value == exact;
  return is_outside || (is_exclusive && is_at) ? std::nextafter(value, direction) : value;
}

Range WholeRange(const NumberBounds& bounds) {
  Range range;
  if (!bounds.minimum.is_null()) RaiseMin(range, LeastWhole(bounds.minimum, false));
  if (!bounds.exclusive_minimum.is_null()) {
    RaiseMin(range, LeastWhole(bounds.exclusive_minimum, true));
  }
  if (!bounds.maximum.is_null()) LowerMax(range, GreatestWhole(bounds.maximum, false));
  if (!bounds.exclusive_maximum.is_null()) {
    LowerMax(range, GreatestWhole(bounds.exclusive_maximum, true));
  }
  return range;
}

Range FractionRange(const NumberBounds& bounds) {
  Range range;
  const auto min = [&](const Json& bound, bool is_exclusive) {
    if (bound.is_null()) return;
    RaiseMin(range, Scale(Inward(bound, is_exclusive, kInfinity), kFractionDigits, Rounding::kUp));
  };
  const auto max = [&](const Json& bound, bool is_exclusive) {
    if (bound.is_null()) return;
    LowerMax(range,
             Scale(Inward(bound, is_exclusive, -kInfinity), kFractionDigits, Rounding::kDown));
  };
  min(bounds.minimum, false);
  min(bounds.exclusive_minimum, true);
  max(bounds.maximum, false);
  max(bounds.exclusive_maximum, true);
  return range;
}

// Sets the ends that are not given, and takes back those that have too many digits.
Status Close(Range& range, int fraction_digits) {
  const Scaled usual = PowerOf10(kUsualDigits + fraction_digits) - 1;
  const Scaled most = PowerOf10(kMostDigits + fraction_digits) - 1;
  if (!range.has_min) range.min = range.max > -usual ? -usual : -most;
  if (!range.has_max) range.max = range.min < usual ? usual : most;
  range.min = std::max(range.min, -most);
  range.max = std::min(range.max, most);
  if (range.min <= range.max) return OkStatus();
  return InvalidArgument(
      fraction_digits == 0
          ? StrCat("no whole number of at most ", kMostDigits, " digits is within its bounds")
          : StrCat("no number of at most ", kMostDigits, " digits before and ", fraction_digits,
                   " behind the point is within its bounds"));
}

std::string Digits(Scaled value, size_t min_size) {
  std::string digits;
  for (; value > 0; value /= 10) digits.push_back(static_cast<char>('0' + value % 10));
  while (digits.size() < min_size) digits.push_back('0');
  std::ranges::reverse(digits);
  return digits;
}

// Adds numbers that are not negative.
class MagnitudeAdder {
 public:
  MagnitudeAdder(GrammarBuilder& builder, int fraction_digits, NodeIdx next)
      : builder_(builder), fraction_digits_(static_cast<size_t>(fraction_digits)), free_{next} {}

  NodeIdx Add(Scaled min, Scaled max) {
    const std::string low = Digits(min, fraction_digits_ + 1);
    const std::string high = Digits(max, fraction_digits_ + 1);
    if (low.size() == high.size()) return Between(low, high);
    const NodeIdx result = builder_.Either(Between(low, std::string(low.size(), '9')),
                                           Between("1" + std::string(high.size() - 1, '0'), high));
    if (high.size() - low.size() == 1) return result;
    return builder_.Either(Longer(low.size() + 1, high.size() - 1), result);
  }

 private:
  // What is left to write of a number, from `low` to `high`, which are equally long. Zeros and
  // nines are no bounds any more; so one call below has a bound on either side, and all others on
  // one.
  NodeIdx Between(std::string_view low, std::string_view high) {
    const bool low_is_free = low.find_first_not_of('0') == std::string_view::npos;
    if (low_is_free && high.find_first_not_of('9') == std::string_view::npos) {
      return Free(low.size());
    }
    const std::string_view low_rest = low.substr(1);
    const std::string_view high_rest = high.substr(1);
    if (low[0] == high[0]) {
      return At(low.size(), Digit(low[0], low[0], Between(low_rest, high_rest)), low_is_free);
    }
    const NodeIdx ends = builder_.Either(
        Digit(low[0], low[0], Between(low_rest, std::string(low_rest.size(), '9'))),
        Digit(high[0], high[0], Between(std::string(low_rest.size(), '0'), high_rest)));
    const bool has_more = high[0] - low[0] > 1;
    const NodeIdx digits =
        has_more ? builder_.Either(Digit(low[0] + 1, high[0] - 1, Free(low_rest.size())), ends)
                 : ends;
    return At(low.size(), digits, low_is_free);
  }

  // Any `size` digits.
  NodeIdx Free(size_t size) {
    while (free_.size() <= size) {
      free_.push_back(At(free_.size(), Digit('0', '9', free_.back()), true));
    }
    return free_[size];
  }

  // Goes on with `digits`, of which there are `size`: behind the point if that is here, and if the
  // number may not end here. Zeros at the end need not be written.
  NodeIdx At(size_t size, NodeIdx digits, bool may_end) {
    if (size > fraction_digits_) return digits;
    if (size == fraction_digits_) digits = builder_.Bytes('.', '.', digits);
    return may_end ? builder_.Either(digits, free_[0]) : digits;
  }

  NodeIdx Digit(int first, int last, NodeIdx next) {
    return builder_.Bytes(static_cast<uint8_t>(first), static_cast<uint8_t>(last), next);
  }

  // Those of `min_size` to `max_size` digits, the ones behind the point included.
  NodeIdx Longer(size_t min_size, size_t max_size) {
    const auto digit = [&](NodeIdx next) { return Digit('0', '9', next); };
    const auto behind_first = [&](size_t size) {
      return static_cast<int64_t>(size - fraction_digits_ - 1);
    };
    return Digit('1', '9',
                 builder_.Repeat(behind_first(min_size), behind_first(max_size),
                                 Free(fraction_digits_), digit));
  }

  GrammarBuilder& builder_;
  const size_t fraction_digits_;
  std::vector<NodeIdx> free_;  // by the number of digits
};

NodeIdx AddRange(GrammarBuilder& builder, const Range& range, int fraction_digits, NodeIdx next) {
  MagnitudeAdder adder(builder, fraction_digits, next);
  if (range.min >= 0) return adder.Add(range.min, range.max);
  const NodeIdx negative =
      builder.Bytes('-', '-', adder.Add(std::max<Scaled>(1, -range.max), -range.min));
  return range.max < 0 ? negative : builder.Either(adder.Add(0, range.max), negative);
}

// As RFC 8259, section 6, has it, but for the numbers of digits.
NodeIdx AddAnyNumber(GrammarBuilder& builder, NodeIdx next) {
  const auto digit = [&](NodeIdx behind) { return builder.Bytes('0', '9', behind); };
  const auto byte = [&](char c, NodeIdx behind) {
    return builder.Literal(std::string_view(&c, 1), behind);
  };
  const NodeIdx digits = builder.Repeat(1, 2, next, digit);
  const NodeIdx sign = builder.Either(builder.Either(byte('+', digits), byte('-', digits)), digits);
  const NodeIdx exponent = builder.Either(byte('e', sign), byte('E', sign));
  const NodeIdx behind_fraction = builder.Either(exponent, next);
  const NodeIdx fraction = byte('.', builder.Repeat(1, kUsualDigits, behind_fraction, digit));
  const NodeIdx behind_whole = builder.Either(fraction, behind_fraction);
  const NodeIdx whole = builder.Either(
      byte('0', behind_whole),
      builder.Bytes('1', '9', builder.Repeat(0, kUsualDigits - 1, behind_whole, digit)));
  return builder.Either(byte('-', whole), whole);
}

}  // namespace

StatusOr<NodeIdx> AddInteger(GrammarBuilder& builder, const NumberBounds& bounds, NodeIdx next) {
  Range range = WholeRange(bounds);
  RETURN_IF_ERROR(Close(range, 0));
  return AddRange(builder, range, 0, next);
}

StatusOr<NodeIdx> AddNumber(GrammarBuilder& builder, const NumberBounds& bounds, NodeIdx next) {
  Range range = FractionRange(bounds);
  if (!range.has_min && !range.has_max) return AddAnyNumber(builder, next);
  RETURN_IF_ERROR(Close(range, kFractionDigits));
  return AddRange(builder, range, kFractionDigits, next);
}

}  // namespace aril::grammar
