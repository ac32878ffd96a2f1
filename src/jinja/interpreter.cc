#include "jinja/interpreter.h"

#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/strings.h"
#include "jinja/iterate.h"
#include "jinja/loop.h"
#include "jinja/namespace.h"
#include "jinja/print.h"

namespace aril::jinja {
namespace {

// The items of a loop that pass its filter, tested when they are asked for.
class FilteredItems final : public Iterator {
 public:
  FilteredItems(Interpreter* interpreter, const For& loop, Scope* closure, IteratorPtr items)
      : interpreter_(interpreter), loop_(loop), closure_(closure), items_(std::move(items)) {}

 private:
  StatusOr<std::optional<Value>> Produce(Runtime* runtime) override {
    while (true) {
      ASSIGN_OR_RETURN(std::optional<Value> item, items_->Next(runtime));
      if (!item) return item;
      ASSIGN_OR_RETURN(const bool passes, interpreter_->PassesFilter(loop_, closure_, *item));
      if (passes) return item;
    }
  }

  Interpreter* const interpreter_;
  const For& loop_;
  Scope* const closure_;
  const IteratorPtr items_;
};

}  // namespace

StatusOr<std::string> Interpreter::Run(const Block& block, const Json::Object& variables) {
  LocalScope context(nullptr, &captured_);
  for (const auto& [name, json] : variables) {
    ASSIGN_OR_RETURN(Value value, runtime_.FromJson(json));
    context->Set(name, std::move(value));
  }
  const LocalScope top(context.get(), &captured_);
  std::string out;
  const Status status = Execute(block, {top.get(), &out}).status();
  if (status.ok()) return out;
  // The words of raise_exception are for the user, as they are.
  if (status.code() == StatusCode::kInvalidArgument) return status;
  return Annotate(status, StrCat("line ", error_line_));
}

StatusOr<Interpreter::Flow> Interpreter::Execute(const Block& block, Frame frame) {
  for (const Stmt& statement : block) {
    ASSIGN_OR_RETURN(const Flow flow, Execute(statement, frame));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

StatusOr<Interpreter::Flow> Interpreter::Execute(const Stmt& statement, Frame frame) {
  const Budget::Nesting nesting(&runtime_.budget());
  auto flow = [&]() -> StatusOr<Flow> {
    RETURN_IF_ERROR(nesting.status());
    RETURN_IF_ERROR(runtime_.budget().ChargeSteps());
    return std::visit([&](const auto& node) { return Do(node, frame); }, statement.node);
  }();
  if (!flow.ok() && error_line_ == 0) error_line_ = statement.line;
  return flow;
}

StatusOr<Interpreter::Flow> Interpreter::Do(const Data& data, Frame frame) {
  RETURN_IF_ERROR(AppendText(&runtime_, data.text, frame.out));
  return Flow::kNext;
}

StatusOr<Interpreter::Flow> Interpreter::Do(const Output& output, Frame frame) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*output.value, frame.scope));
  RETURN_IF_ERROR(AppendStr(&runtime_, value, frame.out));
  return Flow::kNext;
}

StatusOr<Interpreter::Flow> Interpreter::Do(const If& node, Frame frame) {
  for (const If::Branch& branch : node.branches) {
    ASSIGN_OR_RETURN(const Value test, Evaluate(*branch.test, frame.scope));
    if (test.IsTrue()) return Execute(branch.body, frame);
  }
  return Execute(node.otherwise, frame);
}

StatusOr<Interpreter::Flow> Interpreter::Do(const For& loop, Frame frame) {
  ASSIGN_OR_RETURN(const Value iterable, Evaluate(*loop.iterable, frame.scope));
  return RunLoop(loop, iterable, /*depth0=*/0, frame);
}

StatusOr<Interpreter::Flow> Interpreter::RunLoop(const For& loop, const Value& iterable, int depth0,
                                                 Frame frame) {
  LoopObject::Source source{.length = Length(iterable),
                            .depth0 = depth0,
                            .interpreter = this,
                            .loop = &loop,
                            .closure = frame.scope};
  ASSIGN_OR_RETURN(source.items, IterateOrFail(iterable));
  if (loop.filter != nullptr) {
    source.length.reset();
    source.items =
        std::make_unique<FilteredItems>(this, loop, frame.scope, std::move(source.items));
  }
  // The object may outlive the loop, as a member of a namespace.
  if (loop.filter != nullptr || loop.is_recursive) frame.scope->Capture();
  const auto context = std::make_shared<LoopObject>(std::move(source));
  ASSIGN_OR_RETURN(const bool is_complete, Iterate(loop, context.get(), frame));
  if (is_complete || loop.otherwise.empty()) return Flow::kNext;
  const LocalScope scope(frame.scope, &captured_);
  return Execute(loop.otherwise, {scope.get(), frame.out});
}

// Jinja runs `else` not only when there are no items, but when no iteration went to its end.
StatusOr<bool> Interpreter::Iterate(const For& loop, LoopObject* context, Frame frame) {
  bool is_complete = false;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Value> item, context->Advance(&runtime_));
    if (!item) return is_complete;
    LocalScope scope(frame.scope, &captured_);
    RETURN_IF_ERROR(runtime_.budget().ChargeBytes(kScopeBytes + kVariableBytes));
    scope->Set("loop", Value(context->shared_from_this()));
    RETURN_IF_ERROR(Assign(loop.target, *std::move(item), scope.get()));
    ASSIGN_OR_RETURN(const Flow flow, Execute(loop.body, {scope.get(), frame.out}));
    if (flow == Flow::kBreak) return is_complete;
    if (flow == Flow::kNext) is_complete = true;
  }
}

StatusOr<bool> Interpreter::PassesFilter(const For& loop, Scope* closure, const Value& item) {
  const LocalScope scope(closure, &captured_);
  RETURN_IF_ERROR(Assign(loop.target, item, scope.get()));
  ASSIGN_OR_RETURN(const Value test, Evaluate(*loop.filter, scope.get()));
  return test.IsTrue();
}

StatusOr<Value> Interpreter::CallLoop(const For& loop, Scope* closure, const Value& iterable,
                                      int depth0) {
  const Budget::Nesting nesting(&runtime_.budget());
  RETURN_IF_ERROR(nesting.status());
  std::string out;
  RETURN_IF_ERROR(RunLoop(loop, iterable, depth0, {closure, &out}).status());
  return runtime_.NewString(std::move(out));
}

StatusOr<Interpreter::Flow> Interpreter::Do(const Set& set, Frame frame) {
  ASSIGN_OR_RETURN(Value value, Evaluate(*set.value, frame.scope));
  RETURN_IF_ERROR(Assign(set.target, std::move(value), frame.scope));
  return Flow::kNext;
}

StatusOr<Interpreter::Flow> Interpreter::Do(const SetBlock& set, Frame frame) {
  const LocalScope scope(frame.scope, &captured_);
  std::string text;
  ASSIGN_OR_RETURN(const Flow flow, Execute(set.body, {scope.get(), &text}));
  if (flow != Flow::kNext) return flow;
  ASSIGN_OR_RETURN(Value value, runtime_.NewString(std::move(text)));
  if (set.filter != nullptr) {
    ASSIGN_OR_RETURN(value, ApplyToBlock(*set.filter, scope.get(), std::move(value)));
  }
  RETURN_IF_ERROR(Assign(set.target, std::move(value), frame.scope));
  return Flow::kNext;
}

StatusOr<Interpreter::Flow> Interpreter::Do(const With& with, Frame frame) {
  const LocalScope scope(frame.scope, &captured_);
  for (const auto& [target, expr] : with.variables) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*expr, frame.scope));
    RETURN_IF_ERROR(Assign(target, std::move(value), scope.get()));
  }
  return Execute(with.body, {scope.get(), frame.out});
}

StatusOr<Interpreter::Flow> Interpreter::Do(const FilterBlock& block, Frame frame) {
  const LocalScope scope(frame.scope, &captured_);
  std::string text;
  ASSIGN_OR_RETURN(const Flow flow, Execute(block.body, {scope.get(), &text}));
  if (flow != Flow::kNext) return flow;
  ASSIGN_OR_RETURN(Value input, runtime_.NewString(std::move(text)));
  ASSIGN_OR_RETURN(const Value value, ApplyToBlock(*block.filter, scope.get(), std::move(input)));
  RETURN_IF_ERROR(AppendStr(&runtime_, value, frame.out));
  return Flow::kNext;
}

StatusOr<Interpreter::Flow> Interpreter::Do(const Generation& block, Frame frame) {
  const LocalScope scope(frame.scope, &captured_);
  return Execute(block.body, {scope.get(), frame.out});
}

Status Interpreter::Assign(const Target& target, Value value, Scope* scope) {
  if (const auto* name = std::get_if<std::string>(&target.node)) {
    RETURN_IF_ERROR(runtime_.budget().ChargeBytes(kVariableBytes));
    scope->Set(*name, std::move(value));
    return OkStatus();
  }
  if (const auto* member = std::get_if<Target::Member>(&target.node)) {
    return AssignMember(*member, std::move(value), scope);
  }
  return Unpack(std::get<std::vector<Target>>(target.node), value, scope);
}

Status Interpreter::AssignMember(const Target::Member& member, Value value, Scope* scope) {
  const Value* variable = scope->Find(member.name_space);
  auto* object = variable == nullptr ? nullptr : dynamic_cast<Namespace*>(variable->AsObject());
  if (object == nullptr) {
    return FailedPrecondition("cannot assign attribute on non-namespace object");
  }
  return object->Set(&runtime_, member.name, std::move(value));
}

Status Interpreter::Unpack(const std::vector<Target>& targets, const Value& value, Scope* scope) {
  const IteratorPtr items = jinja::Iterate(value);
  if (items == nullptr) {
    return FailedPrecondition(StrCat("cannot unpack non-iterable ", value.TypeName(), " object"));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    ASSIGN_OR_RETURN(std::optional<Value> item, items->Next(&runtime_));
    if (!item) {
      return FailedPrecondition(
          StrCat("not enough values to unpack (expected ", targets.size(), ", got ", i, ")"));
    }
    RETURN_IF_ERROR(Assign(targets[i], *std::move(item), scope));
  }
  ASSIGN_OR_RETURN(const std::optional<Value> surplus, items->Next(&runtime_));
  if (!surplus) return OkStatus();
  return FailedPrecondition(StrCat("too many values to unpack (expected ", targets.size(), ")"));
}

}  // namespace aril::jinja
