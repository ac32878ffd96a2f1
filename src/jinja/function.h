// Functions that are built in: filters, tests, methods and globals, in tables.

#ifndef ARIL_JINJA_FUNCTION_H_
#define ARIL_JINJA_FUNCTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "jinja/object.h"
#include "jinja/value.h"

namespace aril::jinja {

class Runtime;
struct Function;

inline constexpr size_t kMaxParameters = 6;

// What a built-in function is called with.
class CallArguments {
 public:
  // Assigns positional and keyword arguments to the parameters as Python does. A variadic function
  // has none: it reads `rest`.
  static StatusOr<CallArguments> Bind(const Function& function, Arguments arguments);

  bool Has(size_t i) const { return bound_[i].has_value(); }
  // The i-th parameter; None if it was not given.
  const Value& operator[](size_t i) const;
  const Arguments& rest() const { return rest_; }

  // Typed; FailedPrecondition names function and parameter.
  StatusOr<int64_t> Int(size_t i, int64_t value_if_absent) const;
  StatusOr<bool> Bool(size_t i, bool value_if_absent) const;
  // The referenced text lives as long as these arguments. None is absent.
  StatusOr<std::optional<std::string_view>> OptionalText(size_t i) const;
  StatusOr<std::string_view> Text(size_t i) const;

 private:
  Status WrongType(size_t i, std::string_view expected) const;

  const Function* function_ = nullptr;
  std::array<std::optional<Value>, kMaxParameters> bound_;
  Arguments rest_;
};

struct Function {
  using Body = StatusOr<Value> (*)(Runtime* runtime, const Value& self,
                                   const CallArguments& arguments);

  std::string_view name;
  Body body;
  // Names, the required ones first; a variadic function takes any arguments.
  std::array<std::string_view, kMaxParameters> parameters = {};
  size_t num_required = 0;
  bool is_variadic = false;
};

// `self`: what a filter or test is applied to, or whose method it is; None for a global.
StatusOr<Value> CallFunction(Runtime* runtime, const Function& function, const Value& self,
                             Arguments arguments);

// A function as a value: `x.strip` before it is called. `function` must live on.
StatusOr<std::optional<Value>> BindMethod(Runtime* runtime, const Function& function, Value self);

}  // namespace aril::jinja

#endif  // ARIL_JINJA_FUNCTION_H_
