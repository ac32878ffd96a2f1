// The functions that every template has: range, dict, namespace, raise_exception, …

#ifndef ARIL_JINJA_GLOBALS_H_
#define ARIL_JINJA_GLOBALS_H_

#include <string_view>

#include "jinja/function.h"

namespace aril::jinja {

// nullptr if there is no such function.
const Function* FindGlobal(std::string_view name);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_GLOBALS_H_
