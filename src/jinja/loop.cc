#include "jinja/loop.h"

#include "base/strings.h"
#include "jinja/compare.h"
#include "jinja/function.h"
#include "jinja/interpreter.h"
#include "jinja/iterate.h"
#include "jinja/print.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

using MaybeValue = std::optional<Value>;

class ItemsIterator final : public Iterator {
 public:
  explicit ItemsIterator(std::vector<Value> items) : items_(std::move(items)) {}

 private:
  StatusOr<MaybeValue> Produce(Runtime*) override {
    return pos_ < items_.size() ? MaybeValue(items_[pos_++]) : MaybeValue();
  }

  const std::vector<Value> items_;
  size_t pos_ = 0;
};

LoopObject* LoopOf(const Value& self) { return static_cast<LoopObject*>(self.AsObject()); }

constexpr Function kCycle = {
    .name = "cycle",
    .body = [](Runtime*, const Value& self, const CallArguments& arguments) -> StatusOr<Value> {
      return LoopOf(self)->Cycle(arguments.rest());
    },
    .is_variadic = true};

constexpr Function kChanged = {.name = "changed",
                               .body = [](Runtime* runtime, const Value& self,
                                          const CallArguments& arguments) -> StatusOr<Value> {
                                 return LoopOf(self)->Changed(runtime, arguments.rest());
                               },
                               .is_variadic = true};

}  // namespace

StatusOr<MaybeValue> LoopObject::Advance(Runtime* runtime) {
  ASSIGN_OR_RETURN(const MaybeValue* next, Peek(runtime));
  MaybeValue item = *next;
  has_peeked_ = false;
  after_.reset();
  if (!item) {
    has_peeked_ = true;  // the end stays the end
    return item;
  }
  ++index0_;
  before_ = std::move(current_);
  current_ = item;
  return item;
}

StatusOr<const MaybeValue*> LoopObject::Peek(Runtime* runtime) {
  if (!has_peeked_) {
    ASSIGN_OR_RETURN(after_, source_.items->Next(runtime));
    has_peeked_ = true;
  }
  return &after_;
}

// What has no length is read to its end.
StatusOr<int64_t> LoopObject::CountItems(Runtime* runtime) {
  if (length_) return *length_;
  std::vector<Value> rest;
  while (true) {
    ASSIGN_OR_RETURN(MaybeValue item, source_.items->Next(runtime));
    if (!item) break;
    RETURN_IF_ERROR(runtime->budget().ChargeBytes(sizeof(Value)));
    rest.push_back(*std::move(item));
  }
  length_ = static_cast<int64_t>(rest.size()) + index0_ + 1 + (after_ ? 1 : 0);
  source_.items = std::make_unique<ItemsIterator>(std::move(rest));
  return *length_;
}

Status LoopObject::AppendRepr(Runtime* runtime, int, std::string* out) {
  ASSIGN_OR_RETURN(const int64_t length, CountItems(runtime));
  return AppendText(runtime, StrCat("<LoopContext ", index0_ + 1, "/", length, ">"), out);
}

StatusOr<MaybeValue> LoopObject::GetAttribute(Runtime* runtime, std::string_view name) {
  if (name == "index") return MaybeValue(Value(index0_ + 1));
  if (name == "index0") return MaybeValue(Value(index0_));
  if (name == "first") return MaybeValue(Value(index0_ == 0));
  if (name == "depth") return MaybeValue(Value(int64_t{source_.depth0} + 1));
  if (name == "depth0") return MaybeValue(Value(int64_t{source_.depth0}));
  if (name == "cycle") return BindMethod(runtime, kCycle, Value(shared_from_this()));
  if (name == "changed") return BindMethod(runtime, kChanged, Value(shared_from_this()));
  if (name == "length" || name == "revindex" || name == "revindex0") {
    return GetPosition(runtime, name);
  }
  return GetNeighbour(runtime, name);
}

StatusOr<MaybeValue> LoopObject::GetPosition(Runtime* runtime, std::string_view name) {
  ASSIGN_OR_RETURN(const int64_t length, CountItems(runtime));
  if (name == "length") return MaybeValue(Value(length));
  return MaybeValue(Value(length - index0_ - (name == "revindex0" ? 1 : 0)));
}

StatusOr<MaybeValue> LoopObject::GetNeighbour(Runtime* runtime, std::string_view name) {
  if (name == "previtem") {
    return before_ ? before_ : MaybeValue(Value::MakeUndefined("there is no previous item"));
  }
  if (name != "last" && name != "nextitem") return MaybeValue();
  ASSIGN_OR_RETURN(const MaybeValue* next, Peek(runtime));
  if (name == "last") return MaybeValue(Value(!next->has_value()));
  return *next ? *next : MaybeValue(Value::MakeUndefined("there is no next item"));
}

StatusOr<Value> LoopObject::Cycle(const Arguments& arguments) const {
  const auto& values = arguments.positional;
  if (values.empty()) return FailedPrecondition("no items for cycling given");
  return values[static_cast<size_t>(index0_) % values.size()];
}

StatusOr<Value> LoopObject::Changed(Runtime* runtime, const Arguments& arguments) {
  ASSIGN_OR_RETURN(Value values, runtime->NewTuple(arguments.positional));
  if (last_changed_) {
    ASSIGN_OR_RETURN(const bool equal, Equal(runtime, *last_changed_, values));
    if (equal) return Value(false);
  }
  last_changed_ = std::move(values);
  return Value(true);
}

StatusOr<Value> LoopObject::Call(Runtime*, Arguments arguments) {
  if (!source_.loop->is_recursive) {
    return FailedPrecondition(
        "The loop must have the 'recursive' marker to be called recursively.");
  }
  if (arguments.positional.size() != 1 || !arguments.keyword.empty()) {
    return FailedPrecondition("loop() takes one argument, what to iterate");
  }
  return source_.interpreter->CallLoop(*source_.loop, source_.closure, arguments.positional[0],
                                       source_.depth0 + 1);
}

Status MacroObject::AppendRepr(Runtime* runtime, int, std::string* out) {
  const std::string name = definition_.name ? QuoteAsPython(*definition_.name) : "anonymous";
  return AppendText(runtime, StrCat("<Macro ", name, ">"), out);
}

StatusOr<MaybeValue> MacroObject::GetAttribute(Runtime* runtime, std::string_view name) {
  if (name == "name") {
    if (!definition_.name) return MaybeValue(Value());
    ASSIGN_OR_RETURN(Value text, runtime->NewString(*definition_.name));
    return MaybeValue(std::move(text));
  }
  if (name != "arguments") return MaybeValue();
  std::vector<Value> names;
  for (const auto& parameter : definition_.parameters) {
    ASSIGN_OR_RETURN(Value text, runtime->NewString(parameter.name));
    names.push_back(std::move(text));
  }
  ASSIGN_OR_RETURN(Value tuple, runtime->NewTuple(std::move(names)));
  return MaybeValue(std::move(tuple));
}

StatusOr<Value> MacroObject::Call(Runtime*, Arguments arguments) {
  return interpreter_->CallMacro(definition_, closure_, std::move(arguments));
}

}  // namespace aril::jinja
