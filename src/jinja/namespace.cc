#include "jinja/namespace.h"

#include <algorithm>

#include "jinja/function.h"
#include "jinja/print.h"
#include "jinja/runtime.h"

namespace aril::jinja {

Status Namespace::AppendRepr(Runtime* runtime, int level, std::string* out) {
  // Python's mark for what contains itself.
  if (is_printing_) return AppendText(runtime, "<Namespace {...}>", out);
  is_printing_ = true;
  Status status = AppendMembers(runtime, level, out);
  is_printing_ = false;
  return status;
}

Status Namespace::AppendMembers(Runtime* runtime, int level, std::string* out) const {
  RETURN_IF_ERROR(AppendText(runtime, "<Namespace {", out));
  for (size_t i = 0; i < members_.size(); ++i) {
    if (i > 0) RETURN_IF_ERROR(AppendText(runtime, ", ", out));
    RETURN_IF_ERROR(AppendText(runtime, QuoteAsPython(members_[i].first), out));
    RETURN_IF_ERROR(AppendText(runtime, ": ", out));
    RETURN_IF_ERROR(jinja::AppendRepr(runtime, members_[i].second, level + 1, out));
  }
  return AppendText(runtime, "}>", out);
}

StatusOr<std::optional<Value>> Namespace::GetAttribute(Runtime* runtime, std::string_view name) {
  RETURN_IF_ERROR(runtime->budget().ChargeSteps(static_cast<int64_t>(members_.size() / 16)));
  for (const auto& [member, value] : members_) {
    if (member == name) return std::optional<Value>(value);
  }
  return std::optional<Value>();
}

Status Namespace::Set(Runtime* runtime, std::string_view name, Value value) {
  RETURN_IF_ERROR(runtime->budget().ChargeSteps(static_cast<int64_t>(members_.size() / 16)));
  const auto found = std::find_if(members_.begin(), members_.end(),
                                  [&](const auto& member) { return member.first == name; });
  if (found != members_.end()) {
    found->second = std::move(value);
    return OkStatus();
  }
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(name.size() + sizeof(members_[0])));
  members_.emplace_back(name, std::move(value));
  return OkStatus();
}

StatusOr<std::optional<Value>> Cycler::GetAttribute(Runtime* runtime, std::string_view name) {
  if (name == "current") return std::optional<Value>(items_[pos_]);
  static constexpr Function kNext = {
      "next", [](Runtime*, const Value& self, const CallArguments&) -> StatusOr<Value> {
        return static_cast<Cycler*>(self.AsObject())->Next();
      }};
  static constexpr Function kReset = {
      "reset", [](Runtime*, const Value& self, const CallArguments&) -> StatusOr<Value> {
        static_cast<Cycler*>(self.AsObject())->Reset();
        return Value();
      }};
  if (name == "next") return BindMethod(runtime, kNext, Value(shared_from_this()));
  if (name == "reset") return BindMethod(runtime, kReset, Value(shared_from_this()));
  return std::optional<Value>();
}

int Cycler::depth() const {
  int deepest = 0;
  for (const Value& item : items_) deepest = std::max(deepest, item.depth());
  return deepest + 1;
}

Value Cycler::Next() {
  const Value& next = items_[pos_];
  pos_ = (pos_ + 1) % items_.size();
  return next;
}

StatusOr<Value> Joiner::Call(Runtime*, Arguments) {
  if (used_) return separator_;
  used_ = true;
  return Value::UnchargedString("");
}

}  // namespace aril::jinja
