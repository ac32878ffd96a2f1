// Python's str() and repr().

#ifndef ARIL_JINJA_PRINT_H_
#define ARIL_JINJA_PRINT_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

// Appends `text`, on the budget.
Status AppendText(Runtime* runtime, std::string_view text, std::string* out);

// Appends str(value), as {{ value }} does.
Status AppendStr(Runtime* runtime, const Value& value, std::string* out);
// Appends repr(value), inside of `level` containers.
Status AppendRepr(Runtime* runtime, const Value& value, int level, std::string* out);

// str(value) as a value: the same one for a string.
StatusOr<Value> ToStr(Runtime* runtime, const Value& value);
StatusOr<Value> ToRepr(Runtime* runtime, const Value& value);

// repr() of a string: quoted and escaped.
std::string QuoteAsPython(std::string_view text);
// repr() of a float: the shortest digits that read back as the same one.
std::string FloatRepr(double value);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_PRINT_H_
