// The filters on what can be iterated.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/arithmetic.h"
#include "jinja/attribute_path.h"
#include "jinja/compare.h"
#include "jinja/filters.h"
#include "jinja/iterate.h"
#include "jinja/print.h"
#include "jinja/runtime.h"

namespace aril::jinja {
namespace {

StatusOr<Value> Count(Runtime*, const Value& self, const CallArguments&) {
  if (const auto length = Length(self)) return Value(*length);
  return FailedPrecondition(StrCat("object of type '", self.TypeName(), "' has no len()"));
}

StatusOr<Value> First(Runtime* runtime, const Value& self, const CallArguments&) {
  ASSIGN_OR_RETURN(const IteratorPtr items, IterateOrFail(self));
  ASSIGN_OR_RETURN(std::optional<Value> item, items->Next(runtime));
  if (item) return *std::move(item);
  return Value::MakeUndefined("No first item, sequence was empty.");
}

// What `reversed` accepts.
bool IsReversible(const Value& value) {
  return !value.is_undefined() && !value.is_none() && Length(value).has_value();
}

StatusOr<Value> Last(Runtime* runtime, const Value& self, const CallArguments&) {
  RETURN_IF_ERROR(CheckDefined(self, self));
  if (!IsReversible(self)) {
    return FailedPrecondition(StrCat("'", self.TypeName(), "' object is not reversible"));
  }
  ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(runtime, self));
  if (!items.empty()) return std::move(items.back());
  return Value::MakeUndefined("No last item, sequence was empty.");
}

StatusOr<Value> List(Runtime* runtime, const Value& self, const CallArguments&) {
  ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(runtime, self));
  return runtime->NewList(std::move(items));
}

// A generator over items that are already there.
StatusOr<Value> Replay(Runtime* runtime, std::vector<Value> items) {
  ASSIGN_OR_RETURN(const Value list, runtime->NewList(std::move(items)));
  ASSIGN_OR_RETURN(IteratorPtr iterator, IterateOrFail(list));
  return runtime->NewObject(std::make_shared<Generator>(std::move(iterator), list.depth()));
}

StatusOr<Value> Reverse(Runtime* runtime, const Value& self, const CallArguments&) {
  if (const String* string = self.AsString()) {
    RETURN_IF_ERROR(runtime->budget().ChargeScan(string->text.size()));
    std::string out;
    out.reserve(string->text.size());
    for (size_t end = string->text.size(); end > 0;) {
      size_t begin = end - 1;
      while ((static_cast<unsigned char>(string->text[begin]) & 0xC0) == 0x80) --begin;
      out.append(string->text, begin, end - begin);
      end = begin;
    }
    return runtime->NewString(std::move(out));
  }
  ASSIGN_OR_RETURN(std::vector<Value> items, ToVector(runtime, self));
  std::reverse(items.begin(), items.end());
  // Of a generator it makes a list, as `reversed` refuses it.
  return IsReversible(self) ? Replay(runtime, std::move(items))
                            : runtime->NewList(std::move(items));
}

StatusOr<Value> Join(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const Value separator,
                   arguments.Has(0) ? ToStr(runtime, arguments[0]) : runtime->NewString(""));
  const AttributePath path = AttributePath::Parse(arguments[1]);
  ASSIGN_OR_RETURN(const IteratorPtr items, IterateOrFail(self));
  std::string out;
  for (bool is_first = true;; is_first = false) {
    ASSIGN_OR_RETURN(const std::optional<Value> item, items->Next(runtime));
    if (!item) break;
    ASSIGN_OR_RETURN(const Value value, path.Get(runtime, *item));
    if (!is_first) RETURN_IF_ERROR(AppendText(runtime, separator.AsString()->text, &out));
    RETURN_IF_ERROR(AppendStr(runtime, value, &out));
  }
  return runtime->NewString(std::move(out));
}

StatusOr<Value> Sum(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  const AttributePath path = AttributePath::Parse(arguments[0]);
  Value sum = arguments.Has(1) ? arguments[1] : Value(int64_t{0});
  if (sum.AsString() != nullptr) {
    return FailedPrecondition("sum() can't sum strings [use ''.join(seq) instead]");
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(runtime, self));
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const Value value, path.Get(runtime, item));
    ASSIGN_OR_RETURN(sum, Arithmetic(runtime, BinaryOp::kAdd, sum, value));
  }
  return sum;
}

// What an item is sorted or compared by.
StatusOr<Value> KeyOf(Runtime* runtime, const AttributePath& path, bool case_sensitive,
                      const Value& item) {
  ASSIGN_OR_RETURN(const Value value, path.Get(runtime, item));
  return case_sensitive ? value : IgnoreCase(runtime, value);
}

StatusOr<Value> Sort(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const bool descending, arguments.Bool(0, false));
  ASSIGN_OR_RETURN(const bool case_sensitive, arguments.Bool(1, false));
  const std::vector<AttributePath> paths = AttributePath::ParseList(arguments[2]);
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(runtime, self));
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      ASSIGN_OR_RETURN(Value part, KeyOf(runtime, path, case_sensitive, item));
      key.push_back(std::move(part));
    }
    ASSIGN_OR_RETURN(Value list, runtime->NewList(std::move(key)));
    keys.push_back(std::move(list));
  }
  ASSIGN_OR_RETURN(std::vector<Value> sorted, SortBy(runtime, items, keys, descending));
  return runtime->NewList(std::move(sorted));
}

StatusOr<Value> DictSort(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  RETURN_IF_ERROR(CheckDefined(self, self));
  if (self.AsDict() == nullptr) {
    return FailedPrecondition(StrCat("dictsort() wants a dict, not ", self.TypeName()));
  }
  ASSIGN_OR_RETURN(const bool case_sensitive, arguments.Bool(0, false));
  ASSIGN_OR_RETURN(const auto by, arguments.OptionalText(1));
  ASSIGN_OR_RETURN(const bool descending, arguments.Bool(2, false));
  if (by.value_or("key") != "key" && by != "value") {
    return FailedPrecondition("You can only sort by either \"key\" or \"value\"");
  }
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, value] : self.AsDict()->entries) {
    ASSIGN_OR_RETURN(Value item, runtime->NewTuple({key, value}));
    items.push_back(std::move(item));
    const Value& by_this = by == "value" ? value : key;
    ASSIGN_OR_RETURN(Value sort_key,
                     case_sensitive ? StatusOr<Value>(by_this) : IgnoreCase(runtime, by_this));
    keys.push_back(std::move(sort_key));
  }
  ASSIGN_OR_RETURN(std::vector<Value> sorted, SortBy(runtime, items, keys, descending));
  return runtime->NewList(std::move(sorted));
}

template <CompareOp kBetter>
StatusOr<Value> Extreme(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const bool case_sensitive, arguments.Bool(0, false));
  const AttributePath path = AttributePath::Parse(arguments[1]);
  ASSIGN_OR_RETURN(const IteratorPtr items, IterateOrFail(self));
  ASSIGN_OR_RETURN(std::optional<Value> best, items->Next(runtime));
  if (!best) return Value::MakeUndefined("No aggregated item, sequence was empty.");
  ASSIGN_OR_RETURN(Value best_key, KeyOf(runtime, path, case_sensitive, *best));
  while (true) {
    ASSIGN_OR_RETURN(std::optional<Value> item, items->Next(runtime));
    if (!item) return *std::move(best);
    ASSIGN_OR_RETURN(Value key, KeyOf(runtime, path, case_sensitive, *item));
    ASSIGN_OR_RETURN(const bool is_better, Compare(runtime, kBetter, key, best_key));
    if (!is_better) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
}

StatusOr<Value> Unique(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const bool case_sensitive, arguments.Bool(0, false));
  const AttributePath path = AttributePath::Parse(arguments[1]);
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(runtime, self));
  std::vector<Value> kept;
  Dict::Entries seen;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, KeyOf(runtime, path, case_sensitive, item));
    const size_t before = seen.size();
    RETURN_IF_ERROR(SetKey(runtime, std::move(key), Value(), &seen));
    if (seen.size() > before) kept.push_back(item);
  }
  return Replay(runtime, std::move(kept));
}

StatusOr<Value> GroupBy(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  const AttributePath path = AttributePath::Parse(arguments[0], arguments[1]);
  ASSIGN_OR_RETURN(const bool case_sensitive, arguments.Bool(2, false));
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(runtime, self));
  std::vector<Value> keys;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, KeyOf(runtime, path, case_sensitive, item));
    keys.push_back(std::move(key));
  }
  ASSIGN_OR_RETURN(const std::vector<Value> sorted,
                   SortBy(runtime, items, keys, /*descending=*/false));
  std::vector<Value> groups;
  for (size_t i = 0; i < sorted.size();) {
    ASSIGN_OR_RETURN(const Value key, KeyOf(runtime, path, case_sensitive, sorted[i]));
    ASSIGN_OR_RETURN(Value grouper, path.Get(runtime, sorted[i]));
    std::vector<Value> members;
    for (; i < sorted.size(); ++i) {
      ASSIGN_OR_RETURN(const Value other, KeyOf(runtime, path, case_sensitive, sorted[i]));
      ASSIGN_OR_RETURN(const bool equal, Equal(runtime, key, other));
      if (!equal) break;
      members.push_back(sorted[i]);
    }
    // A key that is not even equal to itself, such as NaN, is a group.
    if (members.empty()) members.push_back(sorted[i++]);
    ASSIGN_OR_RETURN(Value list, runtime->NewList(std::move(members)));
    ASSIGN_OR_RETURN(Value group, runtime->NewGroup(std::move(grouper), std::move(list)));
    groups.push_back(std::move(group));
  }
  return runtime->NewList(std::move(groups));
}

StatusOr<Value> Batch(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t size, arguments.Int(0, 0));
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(runtime, self));
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (size_t i = 0; i < items.size(); ++i) {
    batch.push_back(items[i]);
    const bool is_last = i + 1 == items.size();
    if (is_last && !arguments[1].is_none() && size > static_cast<int64_t>(batch.size())) {
      RETURN_IF_ERROR(runtime->budget().ChargeBytes(static_cast<size_t>(size), sizeof(Value)));
      batch.resize(static_cast<size_t>(size), arguments[1]);
    }
    if (!is_last && static_cast<int64_t>(batch.size()) != size) continue;
    ASSIGN_OR_RETURN(Value list, runtime->NewList(std::exchange(batch, {})));
    batches.push_back(std::move(list));
  }
  return Replay(runtime, std::move(batches));
}

StatusOr<Value> Slices(Runtime* runtime, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const int64_t num_slices, arguments.Int(0, 0));
  if (num_slices == 0) return FailedPrecondition("integer division or modulo by zero");
  ASSIGN_OR_RETURN(const std::vector<Value> items, ToVector(runtime, self));
  const auto length = static_cast<int64_t>(items.size());
  std::vector<Value> slices;
  auto next = items.begin();
  for (int64_t i = 0; i < num_slices; ++i) {
    const bool has_extra = i < length % num_slices;
    const auto end = next + (length / num_slices + (has_extra ? 1 : 0));
    std::vector<Value> slice(next, end);
    next = end;
    if (!arguments[1].is_none() && !has_extra) slice.push_back(arguments[1]);
    ASSIGN_OR_RETURN(Value list, runtime->NewList(std::move(slice)));
    slices.push_back(std::move(list));
  }
  return Replay(runtime, std::move(slices));
}

StatusOr<Value> Items(Runtime* runtime, const Value& self, const CallArguments&) {
  if (self.is_undefined()) return Replay(runtime, {});
  if (self.AsDict() == nullptr) {
    return FailedPrecondition("Can only get item pairs from a mapping.");
  }
  return runtime->NewObject(std::make_shared<Generator>(
      std::make_shared<DictView>(self, DictView::Kind::kItems)->Iterate(), self.depth()));
}

constexpr std::array kFilters = {
    Function{"length", Count},
    Function{"count", Count},
    Function{"first", First},
    Function{"last", Last},
    Function{"list", List},
    Function{"reverse", Reverse},
    Function{"join", Join, {"d", "attribute"}},
    Function{"sum", Sum, {"attribute", "start"}},
    Function{"sort", Sort, {"reverse", "case_sensitive", "attribute"}},
    Function{"dictsort", DictSort, {"case_sensitive", "by", "reverse"}},
    Function{"min", Extreme<CompareOp::kLess>, {"case_sensitive", "attribute"}},
    Function{"max", Extreme<CompareOp::kGreater>, {"case_sensitive", "attribute"}},
    Function{"unique", Unique, {"case_sensitive", "attribute"}},
    Function{"groupby", GroupBy, {"attribute", "default", "case_sensitive"}, 1},
    Function{"batch", Batch, {"linecount", "fill_with"}, 1},
    Function{"slice", Slices, {"slices", "fill_with"}, 1},
    Function{"items", Items},
};

}  // namespace

std::span<const Function> SequenceFilters() { return kFilters; }

}  // namespace aril::jinja
