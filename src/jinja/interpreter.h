// Runs a syntax tree: one interpreter per render.

#ifndef ARIL_JINJA_INTERPRETER_H_
#define ARIL_JINJA_INTERPRETER_H_

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "jinja/ast.h"
#include "jinja/budget.h"
#include "jinja/object.h"
#include "jinja/runtime.h"
#include "jinja/scope.h"

namespace aril::jinja {

class LoopObject;

class Interpreter {
 public:
  Interpreter(const RenderLimits& limits, int64_t now_unix_seconds)
      : runtime_(limits, now_unix_seconds) {}

  // What the template prints, with the members of `variables` as its variables. Both must outlive
  // the interpreter.
  StatusOr<std::string> Run(const Block& block, const Json::Object& variables);

  // For what macros and loops call back. `closure` is captured by whom it is passed to.
  StatusOr<Value> CallMacro(const MacroDefinition& macro, Scope* closure, Arguments arguments);
  StatusOr<Value> CallLoop(const For& loop, Scope* closure, const Value& iterable, int depth0);
  // Whether a loop's filter takes the item.
  StatusOr<bool> PassesFilter(const For& loop, Scope* closure, const Value& item);

 private:
  // What happens after a statement.
  enum class Flow { kNext, kBreak, kContinue };
  // Where a statement runs, and where it prints.
  struct Frame {
    Scope* scope;
    std::string* out;
  };

  // Statements (interpreter.cc).
  StatusOr<Flow> Execute(const Block& block, Frame frame);
  StatusOr<Flow> Execute(const Stmt& statement, Frame frame);
  StatusOr<Flow> Do(const Data& data, Frame frame);
  StatusOr<Flow> Do(const Output& output, Frame frame);
  StatusOr<Flow> Do(const If& node, Frame frame);
  StatusOr<Flow> Do(const For& loop, Frame frame);
  StatusOr<Flow> Do(const Set& set, Frame frame);
  StatusOr<Flow> Do(const SetBlock& set, Frame frame);
  StatusOr<Flow> Do(const With& with, Frame frame);
  StatusOr<Flow> Do(const Macro& macro, Frame frame);
  StatusOr<Flow> Do(const CallBlock& block, Frame frame);
  StatusOr<Flow> Do(const FilterBlock& block, Frame frame);
  StatusOr<Flow> Do(const Generation& block, Frame frame);
  StatusOr<Flow> Do(const Break&, Frame) { return Flow::kBreak; }
  StatusOr<Flow> Do(const Continue&, Frame) { return Flow::kContinue; }
  StatusOr<Flow> RunLoop(const For& loop, const Value& iterable, int depth0, Frame frame);
  // Whether the loop was left with `break`; whether an iteration went to its end.
  StatusOr<bool> Iterate(const For& loop, LoopObject* context, Frame frame);
  Status Assign(const Target& target, Value value, Scope* scope);
  Status AssignMember(const Target::Member& member, Value value, Scope* scope);
  Status Unpack(const std::vector<Target>& targets, const Value& value, Scope* scope);
  StatusOr<Value> NewMacro(const MacroDefinition& definition, Scope* scope);
  Status BindParameters(const MacroDefinition& macro, Arguments* arguments, Scope* scope);
  Status BindSpecialNames(const MacroDefinition& macro, Arguments* arguments, Scope* scope);

  // Expressions (evaluate.cc).
  StatusOr<Value> Evaluate(const Expr& expr, Scope* scope);
  StatusOr<Value> EvaluateOptional(const ExprPtr& expr, Scope* scope);
  StatusOr<Value> Get(const Literal& literal, Scope*) { return literal.value; }
  StatusOr<Value> Get(const Name& name, Scope* scope);
  StatusOr<Value> Get(const ListDisplay& list, Scope* scope);
  StatusOr<Value> Get(const DictDisplay& dict, Scope* scope);
  StatusOr<Value> Get(const Unary& unary, Scope* scope);
  StatusOr<Value> Get(const Binary& binary, Scope* scope);
  StatusOr<Value> Get(const Logical& logical, Scope* scope);
  StatusOr<Value> Get(const Comparison& comparison, Scope* scope);
  StatusOr<Value> Get(const Concatenation& concatenation, Scope* scope);
  StatusOr<Value> Get(const Conditional& conditional, Scope* scope);
  StatusOr<Value> Get(const Attribute& attribute, Scope* scope);
  StatusOr<Value> Get(const Item& item, Scope* scope);
  StatusOr<Value> Get(const SliceOf& slice, Scope* scope);
  StatusOr<Value> Get(const Call& call, Scope* scope);
  StatusOr<Value> Get(const Filter& filter, Scope* scope);
  StatusOr<Value> Get(const Test& test, Scope* scope);
  StatusOr<bool> Holds(const Comparison::Link& link, const Value& left, const Value& right);
  StatusOr<Value> CallWith(const Call& call, Scope* scope, const Value* caller);
  // The filters of a filter block or a set block, on what the block has printed.
  StatusOr<Value> ApplyToBlock(const Expr& filter, Scope* scope, Value input);
  StatusOr<Value> Apply(const Filter& filter, Scope* scope, const Value& input);
  StatusOr<Arguments> EvaluateArguments(const ArgumentList& list, Scope* scope);
  Status AddMoreKeywords(const Value& dict, Arguments* arguments);

  // Of a scope, and of a variable in it: the node of a map, and the value.
  static constexpr size_t kScopeBytes = sizeof(Scope);
  static constexpr size_t kVariableBytes = 112;

  Runtime runtime_;
  CapturedScopes captured_;
  int error_line_ = 0;  // where the first error was found
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_INTERPRETER_H_
