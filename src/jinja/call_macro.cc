// Defining and calling macros and call blocks, by the rules of jinja2.runtime.Macro.

#include <memory>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "jinja/interpreter.h"
#include "jinja/loop.h"
#include "jinja/print.h"

namespace aril::jinja {

StatusOr<Value> Interpreter::NewMacro(const MacroDefinition& definition, Scope* scope) {
  scope->Capture();
  RETURN_IF_ERROR(runtime_.budget().ChargeBytes(kScopeBytes + kVariableBytes));
  return runtime_.NewObject(std::make_shared<MacroObject>(this, definition, scope));
}

StatusOr<Interpreter::Flow> Interpreter::Do(const Macro& macro, Frame frame) {
  ASSIGN_OR_RETURN(Value value, NewMacro(*macro.definition, frame.scope));
  frame.scope->Set(*macro.definition->name, std::move(value));
  return Flow::kNext;
}

StatusOr<Interpreter::Flow> Interpreter::Do(const CallBlock& block, Frame frame) {
  ASSIGN_OR_RETURN(const Value caller, NewMacro(*block.caller, frame.scope));
  ASSIGN_OR_RETURN(const Value value,
                   CallWith(std::get<Call>(block.call->node), frame.scope, &caller));
  RETURN_IF_ERROR(AppendStr(&runtime_, value, frame.out));
  return Flow::kNext;
}

StatusOr<Value> Interpreter::CallMacro(const MacroDefinition& macro, Scope* closure,
                                       Arguments arguments) {
  const LocalScope scope(closure, &captured_);
  RETURN_IF_ERROR(runtime_.budget().ChargeBytes(kScopeBytes));
  RETURN_IF_ERROR(runtime_.budget().ChargeBytes(macro.parameters.size(), kVariableBytes));
  RETURN_IF_ERROR(BindParameters(macro, &arguments, scope.get()));
  std::string out;
  RETURN_IF_ERROR(Execute(macro.body, {scope.get(), &out}).status());
  return runtime_.NewString(std::move(out));
}

Status Interpreter::BindParameters(const MacroDefinition& macro, Arguments* arguments,
                                   Scope* scope) {
  // Each parameter looks through the keywords.
  RETURN_IF_ERROR(runtime_.budget().ChargeSteps(
      static_cast<int64_t>(macro.parameters.size() * (1 + arguments->keyword.size() / 16))));
  std::vector<const MacroDefinition::Parameter*> absent;
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& parameter = macro.parameters[i];
    std::optional<Value> value;
    if (i < arguments->positional.size()) {
      value = std::move(arguments->positional[i]);
    } else {
      value = arguments->Take(parameter.name);
    }
    if (!value) {
      // Until its turn comes, a default cannot be seen by those before it.
      value = Value::MakeUndefined(StrCat("'", parameter.name, "' is undefined"));
      absent.push_back(&parameter);
    }
    scope->Set(parameter.name, *std::move(value));
  }
  RETURN_IF_ERROR(BindSpecialNames(macro, arguments, scope));
  for (const MacroDefinition::Parameter* parameter : absent) {
    Value value =
        Value::MakeUndefined(StrCat("parameter '", parameter->name, "' was not provided"));
    if (parameter->value_if_absent != nullptr) {
      ASSIGN_OR_RETURN(value, Evaluate(*parameter->value_if_absent, scope));
    }
    scope->Set(parameter->name, std::move(value));
  }
  return OkStatus();
}

// What is left goes to `caller`, `kwargs` and `varargs`, if the macro reads them.
Status Interpreter::BindSpecialNames(const MacroDefinition& macro, Arguments* arguments,
                                     Scope* scope) {
  const auto is_parameter = [&](std::string_view name) {
    for (const auto& parameter : macro.parameters) {
      if (parameter.name == name) return true;
    }
    return false;
  };
  if (macro.uses_caller && !is_parameter("caller")) {
    auto caller = arguments->Take("caller");
    scope->Set("caller", caller ? *std::move(caller) : Value::MakeUndefined("No caller defined"));
  }
  if (macro.uses_kwargs && !is_parameter("kwargs")) {
    Dict::Entries entries;
    for (auto& [name, value] : arguments->keyword) {
      ASSIGN_OR_RETURN(Value key, runtime_.NewString(name));
      entries.emplace_back(std::move(key), std::move(value));
    }
    ASSIGN_OR_RETURN(Value kwargs, runtime_.NewDict(std::move(entries)));
    scope->Set("kwargs", std::move(kwargs));
  } else if (!arguments->keyword.empty()) {
    return FailedPrecondition(StrCat("macro '", macro.name.value_or("caller"),
                                     "' takes no keyword argument '", arguments->keyword[0].first,
                                     "'"));
  }
  auto& positional = arguments->positional;
  const size_t num_parameters = macro.parameters.size();
  std::vector<Value> surplus;
  for (size_t i = num_parameters; i < positional.size(); ++i) {
    surplus.push_back(std::move(positional[i]));
  }
  if (macro.uses_varargs && !is_parameter("varargs")) {
    ASSIGN_OR_RETURN(Value varargs, runtime_.NewTuple(std::move(surplus)));
    scope->Set("varargs", std::move(varargs));
  } else if (!surplus.empty()) {
    return FailedPrecondition(StrCat("macro '", macro.name.value_or("caller"),
                                     "' takes not more than ", num_parameters, " argument(s)"));
  }
  return OkStatus();
}

}  // namespace aril::jinja
