// The expressions of jinja/interpreter.h.

#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "jinja/arithmetic.h"
#include "jinja/attribute.h"
#include "jinja/compare.h"
#include "jinja/filters.h"
#include "jinja/function.h"
#include "jinja/globals.h"
#include "jinja/interpreter.h"
#include "jinja/iterate.h"
#include "jinja/print.h"

namespace aril::jinja {

StatusOr<Value> Interpreter::Evaluate(const Expr& expr, Scope* scope) {
  const Budget::Nesting nesting(&runtime_.budget());
  auto value = [&]() -> StatusOr<Value> {
    RETURN_IF_ERROR(nesting.status());
    RETURN_IF_ERROR(runtime_.budget().ChargeSteps());
    return std::visit([&](const auto& node) { return Get(node, scope); }, expr.node);
  }();
  if (!value.ok() && error_line_ == 0) error_line_ = expr.line;
  return value;
}

StatusOr<Value> Interpreter::EvaluateOptional(const ExprPtr& expr, Scope* scope) {
  if (expr == nullptr) return Value();
  return Evaluate(*expr, scope);
}

StatusOr<Value> Interpreter::Get(const Name& name, Scope* scope) {
  if (const Value* value = scope->Find(name.name)) return *value;
  if (const Function* function = FindGlobal(name.name)) {
    ASSIGN_OR_RETURN(auto value, BindMethod(&runtime_, *function, Value()));
    return *std::move(value);
  }
  return Value::MakeUndefined(StrCat("'", name.name, "' is undefined"));
}

StatusOr<Value> Interpreter::Get(const ListDisplay& list, Scope* scope) {
  std::vector<Value> items;
  items.reserve(list.items.size());
  for (const ExprPtr& expr : list.items) {
    ASSIGN_OR_RETURN(Value item, Evaluate(*expr, scope));
    items.push_back(std::move(item));
  }
  return list.is_tuple ? runtime_.NewTuple(std::move(items)) : runtime_.NewList(std::move(items));
}

StatusOr<Value> Interpreter::Get(const DictDisplay& dict, Scope* scope) {
  Dict::Entries entries;
  for (const auto& [key_expr, value_expr] : dict.entries) {
    ASSIGN_OR_RETURN(Value key, Evaluate(*key_expr, scope));
    ASSIGN_OR_RETURN(Value value, Evaluate(*value_expr, scope));
    RETURN_IF_ERROR(SetKey(&runtime_, std::move(key), std::move(value), &entries));
  }
  return runtime_.NewDict(std::move(entries));
}

StatusOr<Value> Interpreter::Get(const Unary& unary, Scope* scope) {
  ASSIGN_OR_RETURN(const Value operand, Evaluate(*unary.operand, scope));
  if (unary.op == Unary::Op::kNot) return Value(!operand.IsTrue());
  return unary.op == Unary::Op::kNegative ? Negative(operand) : Positive(operand);
}

StatusOr<Value> Interpreter::Get(const Binary& binary, Scope* scope) {
  ASSIGN_OR_RETURN(const Value left, Evaluate(*binary.left, scope));
  ASSIGN_OR_RETURN(const Value right, Evaluate(*binary.right, scope));
  return Arithmetic(&runtime_, binary.op, left, right);
}

StatusOr<Value> Interpreter::Get(const Logical& logical, Scope* scope) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*logical.left, scope));
  return left.IsTrue() == logical.is_and ? Evaluate(*logical.right, scope) : left;
}

StatusOr<bool> Interpreter::Holds(const Comparison::Link& link, const Value& left,
                                  const Value& right) {
  if (link.membership == Comparison::Membership::kNone) {
    return Compare(&runtime_, link.op, left, right);
  }
  ASSIGN_OR_RETURN(const bool contains, Contains(&runtime_, right, left));
  return contains == (link.membership == Comparison::Membership::kIn);
}

StatusOr<Value> Interpreter::Get(const Comparison& comparison, Scope* scope) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*comparison.first, scope));
  for (const Comparison::Link& link : comparison.links) {
    ASSIGN_OR_RETURN(Value right, Evaluate(*link.right, scope));
    ASSIGN_OR_RETURN(const bool holds, Holds(link, left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

StatusOr<Value> Interpreter::Get(const Concatenation& concatenation, Scope* scope) {
  std::string text;
  for (const ExprPtr& expr : concatenation.parts) {
    ASSIGN_OR_RETURN(const Value part, Evaluate(*expr, scope));
    RETURN_IF_ERROR(AppendStr(&runtime_, part, &text));
  }
  return runtime_.NewString(std::move(text));
}

StatusOr<Value> Interpreter::Get(const Conditional& conditional, Scope* scope) {
  ASSIGN_OR_RETURN(const Value test, Evaluate(*conditional.test, scope));
  if (test.IsTrue()) return Evaluate(*conditional.then, scope);
  if (conditional.otherwise != nullptr) return Evaluate(*conditional.otherwise, scope);
  return Value::MakeUndefined(StrCat("the inline if-expression on line ", conditional.test->line,
                                     " evaluated to false and no else section was defined."));
}

StatusOr<Value> Interpreter::Get(const Attribute& attribute, Scope* scope) {
  ASSIGN_OR_RETURN(const Value object, Evaluate(*attribute.object, scope));
  return GetAttribute(&runtime_, object, attribute.name);
}

StatusOr<Value> Interpreter::Get(const Item& item, Scope* scope) {
  ASSIGN_OR_RETURN(const Value object, Evaluate(*item.object, scope));
  ASSIGN_OR_RETURN(const Value key, Evaluate(*item.key, scope));
  return GetItem(&runtime_, object, key);
}

StatusOr<Value> Interpreter::Get(const SliceOf& slice, Scope* scope) {
  ASSIGN_OR_RETURN(const Value object, Evaluate(*slice.object, scope));
  SliceBounds bounds;
  ASSIGN_OR_RETURN(bounds.start, EvaluateOptional(slice.start, scope));
  ASSIGN_OR_RETURN(bounds.stop, EvaluateOptional(slice.stop, scope));
  ASSIGN_OR_RETURN(bounds.step, EvaluateOptional(slice.step, scope));
  return GetSlice(&runtime_, object, bounds);
}

StatusOr<Value> Interpreter::Get(const Call& call, Scope* scope) {
  return CallWith(call, scope, nullptr);
}

StatusOr<Value> Interpreter::CallWith(const Call& call, Scope* scope, const Value* caller) {
  ASSIGN_OR_RETURN(const Value callee, Evaluate(*call.callee, scope));
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(call.arguments, scope));
  if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
  if (const Undefined* undefined = callee.AsUndefined()) {
    return FailedPrecondition(undefined->message);
  }
  if (Object* object = callee.AsObject()) return object->Call(&runtime_, std::move(arguments));
  return FailedPrecondition(StrCat("'", callee.TypeName(), "' object is not callable"));
}

StatusOr<Value> Interpreter::Get(const Filter& filter, Scope* scope) {
  ASSIGN_OR_RETURN(const Value input, Evaluate(*filter.input, scope));
  return Apply(filter, scope, input);
}

StatusOr<Value> Interpreter::ApplyToBlock(const Expr& expr, Scope* scope, Value input) {
  const Filter& filter = std::get<Filter>(expr.node);
  if (filter.input != nullptr) {
    ASSIGN_OR_RETURN(input, ApplyToBlock(*filter.input, scope, std::move(input)));
  }
  return Apply(filter, scope, input);
}

StatusOr<Value> Interpreter::Apply(const Filter& filter, Scope* scope, const Value& input) {
  if (filter.function == nullptr) {
    return FailedPrecondition(StrCat("No filter named '", filter.name, "' found."));
  }
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(filter.arguments, scope));
  return CallFunction(&runtime_, *filter.function, input, std::move(arguments));
}

StatusOr<Value> Interpreter::Get(const Test& test, Scope* scope) {
  ASSIGN_OR_RETURN(const Value input, Evaluate(*test.input, scope));
  if (test.function == nullptr) {
    return FailedPrecondition(StrCat("No test named '", test.name, "' found."));
  }
  ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(test.arguments, scope));
  return CallFunction(&runtime_, *test.function, input, std::move(arguments));
}

StatusOr<Arguments> Interpreter::EvaluateArguments(const ArgumentList& list, Scope* scope) {
  Arguments arguments;
  for (const ExprPtr& expr : list.positional) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*expr, scope));
    arguments.positional.push_back(std::move(value));
  }
  if (list.more_positional != nullptr) {
    ASSIGN_OR_RETURN(const Value more, Evaluate(*list.more_positional, scope));
    ASSIGN_OR_RETURN(std::vector<Value> values, ToVector(&runtime_, more));
    for (Value& value : values) arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, expr] : list.keyword) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*expr, scope));
    arguments.keyword.emplace_back(name, std::move(value));
  }
  if (list.more_keyword != nullptr) {
    ASSIGN_OR_RETURN(const Value more, Evaluate(*list.more_keyword, scope));
    RETURN_IF_ERROR(AddMoreKeywords(more, &arguments));
  }
  return arguments;
}

Status Interpreter::AddMoreKeywords(const Value& dict, Arguments* arguments) {
  if (dict.AsDict() == nullptr) {
    return FailedPrecondition(StrCat("argument after ** must be a mapping, not ", dict.TypeName()));
  }
  for (const auto& [key, value] : dict.AsDict()->entries) {
    if (key.AsString() == nullptr) return FailedPrecondition("keywords must be strings");
    RETURN_IF_ERROR(runtime_.budget().ChargeBytes(sizeof(Value) + key.AsString()->text.size()));
    arguments->keyword.emplace_back(key.AsString()->text, value);
  }
  return OkStatus();
}

}  // namespace aril::jinja
