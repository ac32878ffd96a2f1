// Jinja's built-in tests: `x is defined`.

#ifndef ARIL_JINJA_TESTS_H_
#define ARIL_JINJA_TESTS_H_

#include <string_view>

#include "jinja/function.h"

namespace aril::jinja {

// nullptr if there is no such test. Its result is a bool.
const Function* FindTest(std::string_view name);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_TESTS_H_
