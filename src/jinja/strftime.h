// Python's datetime.strftime, of a time in UTC.

#ifndef ARIL_JINJA_STRFTIME_H_
#define ARIL_JINJA_STRFTIME_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace aril::jinja {

// As a naive datetime with whole seconds prints it: %z and %Z are empty, %f is zeros. glibc's
// flags (%-d) work; FailedPrecondition for a directive that would print more than 100 bytes.
StatusOr<std::string> Strftime(std::string_view format, int64_t unix_seconds);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_STRFTIME_H_
