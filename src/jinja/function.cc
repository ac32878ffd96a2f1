#include "jinja/function.h"

#include <algorithm>
#include <memory>

#include "base/strings.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

class BoundMethod final : public Object {
 public:
  BoundMethod(const Function& function, Value self) : function_(function), self_(std::move(self)) {}

  std::string TypeName() const override { return "builtin_function_or_method"; }
  bool IsCallable() const override { return true; }
  StatusOr<Value> Call(Runtime* runtime, Arguments arguments) override {
    return CallFunction(runtime, function_, self_, std::move(arguments));
  }
  int depth() const override { return self_.depth(); }

 private:
  const Function& function_;
  const Value self_;
};

size_t NumParameters(const Function& function) {
  size_t count = 0;
  while (count < kMaxParameters && !function.parameters[count].empty()) ++count;
  return count;
}

}  // namespace

StatusOr<CallArguments> CallArguments::Bind(const Function& function, Arguments arguments) {
  CallArguments bound;
  bound.function_ = &function;
  if (function.is_variadic) {
    bound.rest_ = std::move(arguments);
    return bound;
  }
  const size_t num_parameters = NumParameters(function);
  if (arguments.positional.size() > num_parameters) {
    return FailedPrecondition(StrCat(function.name, "() takes at most ", num_parameters,
                                     " arguments, ", arguments.positional.size(), " were given"));
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    bound.bound_[i] = std::move(arguments.positional[i]);
  }
  const auto end = function.parameters.begin() + static_cast<ptrdiff_t>(num_parameters);
  for (auto& [name, value] : arguments.keyword) {
    const auto parameter = std::find(function.parameters.begin(), end, name);
    if (parameter == end) {
      return FailedPrecondition(StrCat(function.name, "() has no parameter '", name, "'"));
    }
    auto& slot = bound.bound_[static_cast<size_t>(parameter - function.parameters.begin())];
    if (slot) {
      return FailedPrecondition(StrCat(function.name, "() got two values for '", name, "'"));
    }
    slot = std::move(value);
  }
  for (size_t i = 0; i < function.num_required; ++i) {
    if (bound.bound_[i]) continue;
    return FailedPrecondition(
        StrCat(function.name, "() misses its argument '", function.parameters[i], "'"));
  }
  return bound;
}

const Value& CallArguments::operator[](size_t i) const {
  static const Value none;
  return bound_[i] ? *bound_[i] : none;
}

Status CallArguments::WrongType(size_t i, std::string_view expected) const {
  const Value& value = (*this)[i];
  if (const Undefined* undefined = value.AsUndefined()) {
    return FailedPrecondition(undefined->message);
  }
  return FailedPrecondition(StrCat(function_->name, "(): ", function_->parameters[i], " must be ",
                                   expected, ", not ", value.TypeName()));
}

StatusOr<int64_t> CallArguments::Int(size_t i, int64_t value_if_absent) const {
  if (!Has(i)) return value_if_absent;
  int64_t value = 0;
  if (!(*this)[i].AsIntegral(&value)) return WrongType(i, "an integer");
  return value;
}

StatusOr<bool> CallArguments::Bool(size_t i, bool value_if_absent) const {
  return Has(i) ? (*this)[i].IsTrue() : value_if_absent;
}

StatusOr<std::optional<std::string_view>> CallArguments::OptionalText(size_t i) const {
  if ((*this)[i].is_none()) return std::optional<std::string_view>();
  ASSIGN_OR_RETURN(const std::string_view text, Text(i));
  return std::optional<std::string_view>(text);
}

StatusOr<std::string_view> CallArguments::Text(size_t i) const {
  const String* string = (*this)[i].AsString();
  if (string == nullptr) return WrongType(i, "a string");
  return std::string_view(string->text);
}

StatusOr<Value> CallFunction(Runtime* runtime, const Function& function, const Value& self,
                             Arguments arguments) {
  ASSIGN_OR_RETURN(const CallArguments bound, CallArguments::Bind(function, std::move(arguments)));
  return function.body(runtime, self, bound);
}

StatusOr<std::optional<Value>> BindMethod(Runtime* runtime, const Function& function, Value self) {
  ASSIGN_OR_RETURN(Value method,
                   runtime->NewObject(std::make_shared<BoundMethod>(function, std::move(self))));
  return std::optional<Value>(std::move(method));
}

}  // namespace aril::jinja
