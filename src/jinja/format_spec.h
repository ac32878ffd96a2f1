// How numbers and texts are laid out, by Python's format specification mini-language and the
// printf-like %; one implementation for both.

#ifndef ARIL_JINJA_FORMAT_SPEC_H_
#define ARIL_JINJA_FORMAT_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

struct FormatSpec {
  std::string fill = " ";  // one code point
  char align = 0;          // '<', '>', '^', '=' (between sign and digits); 0: as the type wants
  char sign = '-';         // '+' and ' ' mark what is not negative
  bool is_alternate = false;
  int64_t width = 0;
  char grouping = 0;   // ',' or '_' between groups of digits
  int precision = -1;  // -1 if none
  char type = 0;       // 's', 'd', 'f', …; 0 if none
};

// "[[fill]align][sign][#][0][width][grouping][.precision][type]".
StatusOr<FormatSpec> ParseFormatSpec(std::string_view text);

// format(value, spec) of Python.
StatusOr<std::string> FormatValue(Runtime* runtime, const Value& value, std::string_view spec);

StatusOr<std::string> FormatText(Runtime* runtime, std::string_view text, const FormatSpec& spec);
StatusOr<std::string> FormatInteger(Runtime* runtime, int64_t value, const FormatSpec& spec);
StatusOr<std::string> FormatFloat(Runtime* runtime, double value, const FormatSpec& spec);

// Reads a decimal number at `*pos` and moves behind it; 0 if there is none.
StatusOr<int64_t> ReadWidth(std::string_view text, size_t* pos);
// The same as a precision, which is bounded.
StatusOr<int> ReadPrecision(std::string_view text, size_t* pos);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_FORMAT_SPEC_H_
