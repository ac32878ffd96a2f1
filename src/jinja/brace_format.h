// Python's str.format, with the sandbox's attribute access.

#ifndef ARIL_JINJA_BRACE_FORMAT_H_
#define ARIL_JINJA_BRACE_FORMAT_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "jinja/object.h"

namespace aril::jinja {

StatusOr<std::string> BraceFormat(Runtime* runtime, std::string_view format,
                                  const Arguments& arguments);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_BRACE_FORMAT_H_
