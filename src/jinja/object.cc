#include "jinja/object.h"

#include <algorithm>

#include "base/strings.h"
#include "jinja/runtime.h"

namespace aril::jinja {

std::optional<Value> Arguments::Take(std::string_view name) {
  const auto found = std::find_if(keyword.begin(), keyword.end(),
                                  [&](const auto& argument) { return argument.first == name; });
  if (found == keyword.end()) return std::nullopt;
  Value value = std::move(found->second);
  keyword.erase(found);
  return value;
}

StatusOr<std::optional<Value>> Iterator::Next(Runtime* runtime) {
  RETURN_IF_ERROR(runtime->budget().ChargeSteps());
  return Produce(runtime);
}

Status Object::AppendRepr(Runtime*, int, std::string* out) {
  *out += StrCat("<", QualifiedTypeName(), " object>");
  return OkStatus();
}

StatusOr<std::optional<Value>> Object::GetAttribute(Runtime*, std::string_view) {
  return std::optional<Value>();
}

StatusOr<std::optional<Value>> Object::GetItem(Runtime*, const Value&) {
  return std::optional<Value>();
}

StatusOr<Value> Object::Call(Runtime*, Arguments) {
  return FailedPrecondition(StrCat("'", TypeName(), "' object is not callable"));
}

}  // namespace aril::jinja
