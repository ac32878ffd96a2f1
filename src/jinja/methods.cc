#include "jinja/methods.h"

#include <array>
#include <cmath>

#include "base/strings.h"
#include "jinja/compare.h"
#include "jinja/iterate.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

StatusOr<Value> GetKey(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  RETURN_IF_ERROR(CheckHashable(runtime, arguments[0]));
  ASSIGN_OR_RETURN(const Value* value, FindKey(runtime, *self.AsDict(), arguments[0]));
  return value == nullptr ? arguments[1] : *value;
}

template <DictView::Kind kKind>
StatusOr<Value> View(Runtime* runtime, const Value& self, const CallArguments&) {
  return runtime->NewObject(std::make_shared<DictView>(self, kKind));
}

// Values do not change: a copy is the same.
StatusOr<Value> Copy(Runtime*, const Value& self, const CallArguments&) { return self; }

StatusOr<Value> CountItems(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  int64_t count = 0;
  for (const Value& item : self.AsSequence()->items) {
    ASSIGN_OR_RETURN(const bool equal, Equal(runtime, item, arguments[0]));
    count += equal ? 1 : 0;
  }
  return Value(count);
}

StatusOr<Value> IndexOf(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  const auto& items = self.AsSequence()->items;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, Equal(runtime, items[i], arguments[0]));
    if (equal) return Value(static_cast<int64_t>(i));
  }
  return FailedPrecondition(StrCat("the value is not in the ", self.TypeName()));
}

StatusOr<Value> IsInteger(Runtime*, const Value& self, const CallArguments&) {
  const double value = *self.AsFloat();
  return Value(std::isfinite(value) && std::floor(value) == value);
}

constexpr std::array kDictMethods = {
    Function{"get", GetKey, {"key", "default"}, 1},
    Function{"items", View<DictView::Kind::kItems>},
    Function{"keys", View<DictView::Kind::kKeys>},
    Function{"values", View<DictView::Kind::kValues>},
    Function{"copy", Copy},
};

constexpr std::array kSequenceMethods = {
    Function{"count", CountItems, {"value"}, 1}, Function{"index", IndexOf, {"value"}, 1},
    Function{"copy", Copy},  // of lists only: the last one
};

constexpr std::array kFloatMethods = {Function{"is_integer", IsInteger}};

const Function* Find(std::span<const Function> table, std::string_view name) {
  for (const Function& function : table) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

}  // namespace

const Function* FindMethod(const Value& self, std::string_view name) {
  if (self.AsString() != nullptr) return Find(StringMethods(), name);
  if (self.AsDict() != nullptr) return Find(kDictMethods, name);
  if (const Sequence* sequence = self.AsSequence()) {
    const bool is_list = sequence->kind == Sequence::Kind::kList;
    const std::span<const Function> methods = kSequenceMethods;
    return Find(is_list ? methods : methods.first(methods.size() - 1), name);
  }
  return self.AsFloat() != nullptr ? Find(kFloatMethods, name) : nullptr;
}

}  // namespace aril::jinja
