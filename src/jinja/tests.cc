#include "jinja/tests.h"

#include <array>

#include "base/strings.h"
#include "jinja/arithmetic.h"
#include "jinja/compare.h"
#include "jinja/filters.h"
#include "jinja/globals.h"
#include "jinja/iterate.h"
#include "jinja/object.h"
#include "jinja/print.h"
#include "jinja/runtime.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

template <bool (*kIs)(const Value&)>
StatusOr<Value> Is(Runtime*, const Value& self, const CallArguments&) {
  return Value(kIs(self));
}

bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsBoolean(const Value& value) { return value.AsBool() != nullptr; }
bool IsTrue(const Value& value) { return value.AsBool() != nullptr && *value.AsBool(); }
bool IsFalse(const Value& value) { return value.AsBool() != nullptr && !*value.AsBool(); }
bool IsInteger(const Value& value) { return value.AsInt() != nullptr; }
bool IsFloat(const Value& value) { return value.AsFloat() != nullptr; }
bool IsString(const Value& value) { return value.AsString() != nullptr; }
bool IsMapping(const Value& value) { return value.AsDict() != nullptr; }
bool IsNumber(const Value& value) {
  double number = 0;
  return value.AsNumber(&number);
}
// With a length and items by index; undefined claims to have both.
bool IsSequence(const Value& value) {
  const Object* object = value.AsObject();
  if (object != nullptr) return object->TypeName() == "range";
  return Length(value).has_value();
}
bool IsIterable(const Value& value) { return Iterate(value) != nullptr; }
bool IsCallable(const Value& value) {
  // Undefined has __call__, to complain about it.
  return value.is_undefined() || (value.AsObject() != nullptr && value.AsObject()->IsCallable());
}
// Nothing is marked as escaped.
bool IsEscaped(const Value&) { return false; }

template <bool (*kIs)(std::string_view)>
StatusOr<Value> IsText(Runtime* runtime, const Value& self, const CallArguments&) {
  ASSIGN_OR_RETURN(const Value text, ToStr(runtime, self));
  RETURN_IF_ERROR(runtime->budget().ChargeCodePoints(text.AsString()->text.size()));
  return Value(kIs(text.AsString()->text));
}

StatusOr<Value> HasRest(Runtime* runtime, const Value& self, const Value& divisor, int64_t rest) {
  ASSIGN_OR_RETURN(const Value modulo, Arithmetic(runtime, BinaryOp::kModulo, self, divisor));
  ASSIGN_OR_RETURN(const bool equal, Equal(runtime, modulo, Value(rest)));
  return Value(equal);
}

StatusOr<Value> IsOdd(Runtime* runtime, const Value& self, const CallArguments&) {
  return HasRest(runtime, self, Value(int64_t{2}), 1);
}

StatusOr<Value> IsEven(Runtime* runtime, const Value& self, const CallArguments&) {
  return HasRest(runtime, self, Value(int64_t{2}), 0);
}

StatusOr<Value> IsDivisibleBy(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  return HasRest(runtime, self, arguments[0], 0);
}

template <CompareOp kOp>
StatusOr<Value> Compares(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const bool holds, Compare(runtime, kOp, self, arguments[0]));
  return Value(holds);
}

StatusOr<Value> IsIn(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const bool contains, Contains(runtime, arguments[0], self));
  return Value(contains);
}

StatusOr<Value> IsSameAs(Runtime*, const Value& self, const CallArguments& arguments) {
  return Value(self.IsSame(arguments[0]));
}

StatusOr<Value> IsFilter(Runtime* runtime, const Value& self, const CallArguments&) {
  RETURN_IF_ERROR(CheckHashable(runtime, self));
  return Value(self.AsString() != nullptr && FindFilter(self.AsString()->text) != nullptr);
}

StatusOr<Value> IsTest(Runtime* runtime, const Value& self, const CallArguments&) {
  RETURN_IF_ERROR(CheckHashable(runtime, self));
  return Value(self.AsString() != nullptr && FindTest(self.AsString()->text) != nullptr);
}

constexpr Function Comparing(std::string_view name, Function::Body body) {
  return Function{name, body, {"other"}, 1};
}

constexpr std::array kTests = {
    Function{"defined", Is<IsDefined>},
    Function{"undefined", Is<IsUndefined>},
    Function{"none", Is<IsNone>},
    Function{"boolean", Is<IsBoolean>},
    Function{"true", Is<IsTrue>},
    Function{"false", Is<IsFalse>},
    Function{"integer", Is<IsInteger>},
    Function{"float", Is<IsFloat>},
    Function{"number", Is<IsNumber>},
    Function{"string", Is<IsString>},
    Function{"mapping", Is<IsMapping>},
    Function{"sequence", Is<IsSequence>},
    Function{"iterable", Is<IsIterable>},
    Function{"callable", Is<IsCallable>},
    Function{"escaped", Is<IsEscaped>},
    Function{"lower", IsText<IsLower>},
    Function{"upper", IsText<IsUpper>},
    Function{"odd", IsOdd},
    Function{"even", IsEven},
    Function{"divisibleby", IsDivisibleBy, {"num"}, 1},
    Function{"filter", IsFilter},
    Function{"test", IsTest},
    Function{"in", IsIn, {"seq"}, 1},
    Comparing("sameas", IsSameAs),
    Comparing("==", Compares<CompareOp::kEqual>),
    Comparing("eq", Compares<CompareOp::kEqual>),
    Comparing("equalto", Compares<CompareOp::kEqual>),
    Comparing("!=", Compares<CompareOp::kNotEqual>),
    Comparing("ne", Compares<CompareOp::kNotEqual>),
    Comparing(">", Compares<CompareOp::kGreater>),
    Comparing("gt", Compares<CompareOp::kGreater>),
    Comparing("greaterthan", Compares<CompareOp::kGreater>),
    Comparing(">=", Compares<CompareOp::kGreaterOrEqual>),
    Comparing("ge", Compares<CompareOp::kGreaterOrEqual>),
    Comparing("<", Compares<CompareOp::kLess>),
    Comparing("lt", Compares<CompareOp::kLess>),
    Comparing("lessthan", Compares<CompareOp::kLess>),
    Comparing("<=", Compares<CompareOp::kLessOrEqual>),
    Comparing("le", Compares<CompareOp::kLessOrEqual>),
};

}  // namespace

const Function* FindTest(std::string_view name) {
  for (const Function& test : kTests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

}  // namespace aril::jinja
