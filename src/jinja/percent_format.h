// Python's `format % values`.

#ifndef ARIL_JINJA_PERCENT_FORMAT_H_
#define ARIL_JINJA_PERCENT_FORMAT_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;

// `values`: a tuple for several, a dict for %(name)s, or a single value.
StatusOr<std::string> PercentFormat(Runtime* runtime, std::string_view format, const Value& values);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_PERCENT_FORMAT_H_
