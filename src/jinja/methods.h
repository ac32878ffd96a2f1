// The methods of strings, lists, dicts and numbers that the immutable sandbox allows.

#ifndef ARIL_JINJA_METHODS_H_
#define ARIL_JINJA_METHODS_H_

#include <span>
#include <string_view>

#include "jinja/function.h"
#include "jinja/value.h"

namespace aril::jinja {

// nullptr if values of this type have no such method.
const Function* FindMethod(const Value& self, std::string_view name);

// Those of strings (string_methods.cc).
std::span<const Function> StringMethods();

}  // namespace aril::jinja

#endif  // ARIL_JINJA_METHODS_H_
