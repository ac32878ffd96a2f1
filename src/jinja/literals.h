// Numbers and strings as sources spell them: those of Python.

#ifndef ARIL_JINJA_LITERALS_H_
#define ARIL_JINJA_LITERALS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace aril::jinja {

struct NumberSpan {
  size_t size;
  bool is_float;
};

// The number that `text` begins with, which is at least a digit.
NumberSpan MatchNumber(std::string_view text, bool may_be_float);

// Of what MatchNumber found; nullopt if it does not fit.
std::optional<int64_t> IntegerOfLiteral(std::string_view text);
double FloatOfLiteral(std::string_view text);

// int(text, base) and float(text) of Python; nullopt if `text` is no such number.
std::optional<int64_t> ParseInteger(std::string_view text, int base);
std::optional<double> ParseFloat(std::string_view text);

// The value of a string literal without its quotes.
StatusOr<std::string> UnescapeString(std::string_view text);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_LITERALS_H_
