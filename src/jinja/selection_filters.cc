// The filters that apply other filters, tests or attributes to each item: map, select, reject, ….
// Their items are computed when they are asked for.

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "jinja/attribute.h"
#include "jinja/attribute_path.h"
#include "jinja/filters.h"
#include "jinja/iterate.h"
#include "jinja/print.h"
#include "jinja/runtime.h"
#include "jinja/tests.h"

namespace aril::jinja {
namespace {

using MaybeValue = std::optional<Value>;

// A filter or a test by its name, with arguments for every call. An unknown name is an error of the
// first call.
struct Application {
  const Function* function = nullptr;
  std::string name;  // with its kind, for the error
  Arguments arguments;

  StatusOr<Value> operator()(Runtime* runtime, const Value& item) const {
    if (function == nullptr) return FailedPrecondition(StrCat("No ", name, "."));
    return CallFunction(runtime, *function, item, arguments);
  }
};

// `first`: the place of the name among the positional arguments.
Application NamedApplication(const Function* (*find)(std::string_view), std::string_view kind,
                             const Arguments& given, size_t first) {
  const Value& name = given.positional[first];
  Application application;
  if (const String* text = name.AsString()) {
    application.function = find(text->text);
    application.name = StrCat(kind, " named ", QuoteAsPython(text->text));
  } else {
    application.name = StrCat(kind, " named by a value of type ", name.TypeName());
  }
  application.arguments.positional.assign(
      given.positional.begin() + static_cast<ptrdiff_t>(first) + 1, given.positional.end());
  application.arguments.keyword = given.keyword;
  return application;
}

int DepthOf(const Arguments& arguments) {
  int deepest = 0;
  for (const Value& value : arguments.positional) deepest = std::max(deepest, value.depth());
  for (const auto& [name, value] : arguments.keyword) deepest = std::max(deepest, value.depth());
  return deepest;
}

class MappedItems final : public Iterator {
 public:
  // Without an application the path counts.
  MappedItems(IteratorPtr items, AttributePath path, std::optional<Application> filter)
      : items_(std::move(items)), path_(std::move(path)), filter_(std::move(filter)) {}

 private:
  StatusOr<MaybeValue> Produce(Runtime* runtime) override {
    ASSIGN_OR_RETURN(const MaybeValue item, items_->Next(runtime));
    if (!item) return item;
    ASSIGN_OR_RETURN(Value mapped,
                     filter_ ? (*filter_)(runtime, *item) : path_.Get(runtime, *item));
    return MaybeValue(std::move(mapped));
  }

  const IteratorPtr items_;
  const AttributePath path_;
  const std::optional<Application> filter_;
};

class SelectedItems final : public Iterator {
 public:
  struct Condition {
    AttributePath path;               // what of the item is tested
    std::optional<Application> test;  // none: whether it is true
    bool is_negated;
  };
  SelectedItems(IteratorPtr items, Condition condition)
      : items_(std::move(items)), condition_(std::move(condition)) {}

 private:
  StatusOr<MaybeValue> Produce(Runtime* runtime) override {
    while (true) {
      ASSIGN_OR_RETURN(MaybeValue item, items_->Next(runtime));
      if (!item) return item;
      ASSIGN_OR_RETURN(Value tested, condition_.path.Get(runtime, *item));
      if (condition_.test) {
        ASSIGN_OR_RETURN(tested, (*condition_.test)(runtime, tested));
      }
      if (tested.IsTrue() != condition_.is_negated) return item;
    }
  }

  const IteratorPtr items_;
  const Condition condition_;
};

StatusOr<Value> NewGenerator(Runtime* runtime, IteratorPtr iterator, const Value& source,
                             const Arguments& arguments) {
  const int depth = std::max(source.depth(), DepthOf(arguments));
  return runtime->NewObject(std::make_shared<Generator>(std::move(iterator), depth));
}

// Of what counts as false there are no items, whatever it is and whatever is wanted of them.
StatusOr<Value> NoItems(Runtime* runtime) {
  return NewGenerator(runtime, Iterate(Value::MakeUndefined("")), Value(), {});
}

StatusOr<Value> Map(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  if (!self.IsTrue()) return NoItems(runtime);
  Arguments given = arguments.rest();
  ASSIGN_OR_RETURN(IteratorPtr items, IterateOrFail(self));
  AttributePath path = AttributePath::Parse(Value());
  std::optional<Application> filter;
  if (auto attribute = given.positional.empty() ? given.Take("attribute") : std::nullopt) {
    path = AttributePath::Parse(*attribute, given.Take("default").value_or(Value()));
    if (!given.keyword.empty()) {
      return FailedPrecondition(
          StrCat("Unexpected keyword argument '", given.keyword[0].first, "'"));
    }
  } else if (given.positional.empty()) {
    return FailedPrecondition("map requires a filter argument");
  } else {
    filter = NamedApplication(&FindFilter, "filter", given, 0);
  }
  return NewGenerator(
      runtime, std::make_unique<MappedItems>(std::move(items), std::move(path), std::move(filter)),
      self, arguments.rest());
}

template <bool kByAttribute, bool kIsNegated>
StatusOr<Value> Select(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  if (!self.IsTrue()) return NoItems(runtime);
  const Arguments& given = arguments.rest();
  ASSIGN_OR_RETURN(IteratorPtr items, IterateOrFail(self));
  SelectedItems::Condition condition{AttributePath::Parse(Value()), std::nullopt, kIsNegated};
  if (kByAttribute) {
    if (given.positional.empty()) return FailedPrecondition("Missing parameter for attribute name");
    condition.path = AttributePath::Parse(given.positional[0]);
  }
  constexpr size_t kTest = kByAttribute ? 1 : 0;
  if (given.positional.size() > kTest) {
    condition.test = NamedApplication(&FindTest, "test", given, kTest);
  }
  return NewGenerator(runtime,
                      std::make_unique<SelectedItems>(std::move(items), std::move(condition)), self,
                      given);
}

StatusOr<Value> Default(Runtime*, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const bool replaces_false, arguments.Bool(1, false));
  if (!self.is_undefined() && !(replaces_false && !self.IsTrue())) return self;
  return arguments.Has(0) ? arguments[0] : Value::UnchargedString("");
}

StatusOr<Value> Attr(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string_view name, arguments.Text(0));
  return GetOnlyAttribute(runtime, self, name);
}

constexpr std::array kFilters = {
    Function{.name = "map", .body = Map, .is_variadic = true},
    Function{.name = "select", .body = Select<false, false>, .is_variadic = true},
    Function{.name = "reject", .body = Select<false, true>, .is_variadic = true},
    Function{.name = "selectattr", .body = Select<true, false>, .is_variadic = true},
    Function{.name = "rejectattr", .body = Select<true, true>, .is_variadic = true},
    Function{"default", Default, {"default_value", "boolean"}},
    Function{"d", Default, {"default_value", "boolean"}},
    Function{"attr", Attr, {"name"}, 1},
};

}  // namespace

std::span<const Function> SelectionFilters() { return kFilters; }

}  // namespace aril::jinja
