#include "jinja/compare.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <numeric>

#include "base/strings.h"
#include "jinja/iterate.h"
#include "jinja/object.h"
#include "jinja/runtime.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

// Exact, as Python compares them: 2**53 + 1 is not the float 2**53.
std::partial_ordering CompareMixed(int64_t integer, double real) {
  if (std::isnan(real)) return std::partial_ordering::unordered;
  constexpr double kTwoTo63 = 9223372036854775808.0;
  if (real >= kTwoTo63) return std::partial_ordering::less;
  if (real < -kTwoTo63) return std::partial_ordering::greater;
  const double whole = std::floor(real);
  const auto order = integer <=> static_cast<int64_t>(whole);
  return order == 0 && real > whole ? std::partial_ordering::less : std::partial_ordering(order);
}

std::optional<std::partial_ordering> CompareNumbers(const Value& a, const Value& b) {
  int64_t i = 0;
  int64_t j = 0;
  const bool a_is_integral = a.AsIntegral(&i);
  const bool b_is_integral = b.AsIntegral(&j);
  if (a_is_integral && b_is_integral) return i <=> j;
  const double* x = a.AsFloat();
  const double* y = b.AsFloat();
  if (x != nullptr && y != nullptr) return *x <=> *y;
  if (a_is_integral && y != nullptr) return CompareMixed(i, *y);
  if (x != nullptr && b_is_integral) return 0 <=> CompareMixed(j, *x);
  return std::nullopt;
}

StatusOr<bool> EqualItem(Runtime* runtime, const Value& a, const Value& b) {
  RETURN_IF_ERROR(runtime->budget().ChargeSteps());
  if (a.IsSame(b)) return true;
  return Equal(runtime, a, b);
}

bool IsTuple(const Sequence& sequence) { return sequence.kind != Sequence::Kind::kList; }

StatusOr<bool> EqualSequences(Runtime* runtime, const Sequence& a, const Sequence& b) {
  if (IsTuple(a) != IsTuple(b) || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool equal, EqualItem(runtime, a.items[i], b.items[i]));
    if (!equal) return false;
  }
  return true;
}

StatusOr<bool> EqualDicts(Runtime* runtime, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    ASSIGN_OR_RETURN(const Value* other, FindKey(runtime, b, key));
    if (other == nullptr) return false;
    ASSIGN_OR_RETURN(const bool equal, EqualItem(runtime, value, *other));
    if (!equal) return false;
  }
  return true;
}

bool Holds(CompareOp op, std::partial_ordering order) {
  switch (op) {
    case CompareOp::kEqual:
      return order == 0;
    case CompareOp::kNotEqual:
      return order != 0;
    case CompareOp::kLess:
      return order < 0;
    case CompareOp::kLessOrEqual:
      return order <= 0;
    case CompareOp::kGreater:
      return order > 0;
    case CompareOp::kGreaterOrEqual:
      return order >= 0;
  }
  return false;
}

const char* Symbol(CompareOp op) {
  static constexpr const char* kSymbols[] = {"==", "!=", "<", "<=", ">", ">="};
  return kSymbols[static_cast<size_t>(op)];
}

Status NoOrder(CompareOp op, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) return FailedPrecondition(value->AsUndefined()->message);
  }
  return FailedPrecondition(StrCat("'", Symbol(op), "' not supported between instances of '",
                                   a.TypeName(), "' and '", b.TypeName(), "'"));
}

// The first items that differ decide, then the lengths.
StatusOr<bool> CompareSequences(Runtime* runtime, CompareOp op, const Sequence& a,
                                const Sequence& b) {
  const size_t shorter = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < shorter; ++i) {
    ASSIGN_OR_RETURN(const bool equal, EqualItem(runtime, a.items[i], b.items[i]));
    if (!equal) return Compare(runtime, op, a.items[i], b.items[i]);
  }
  return Holds(op, a.items.size() <=> b.items.size());
}

StatusOr<bool> ContainsText(Runtime* runtime, const String& text, const Value& item) {
  const String* needle = item.AsString();
  if (needle == nullptr) {
    return FailedPrecondition(
        StrCat("'in <string>' requires string as left operand, not ", item.TypeName()));
  }
  RETURN_IF_ERROR(runtime->budget().ChargeScan(text.text.size()));
  return FindText(text.text, needle->text) != std::string_view::npos;
}

}  // namespace

StatusOr<bool> Equal(Runtime* runtime, const Value& a, const Value& b) {
  RETURN_IF_ERROR(runtime->budget().ChargeSteps());
  if (const auto order = CompareNumbers(a, b)) return *order == 0;
  if (const String* s = a.AsString(), *t = b.AsString(); s != nullptr && t != nullptr) {
    if (s->text.size() != t->text.size()) return false;
    RETURN_IF_ERROR(runtime->budget().ChargeScan(s->text.size()));
    return s->text == t->text;
  }
  if (const Sequence* s = a.AsSequence(), *t = b.AsSequence(); s != nullptr && t != nullptr) {
    return EqualSequences(runtime, *s, *t);
  }
  if (const Dict* d = a.AsDict(), *e = b.AsDict(); d != nullptr && e != nullptr) {
    return EqualDicts(runtime, *d, *e);
  }
  if (const Object* o = a.AsObject(), *p = b.AsObject(); o != nullptr && p != nullptr) {
    return o->EqualTo(*p);
  }
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

StatusOr<bool> Compare(Runtime* runtime, CompareOp op, const Value& a, const Value& b) {
  if (op == CompareOp::kEqual) return Equal(runtime, a, b);
  if (op == CompareOp::kNotEqual) {
    ASSIGN_OR_RETURN(const bool equal, Equal(runtime, a, b));
    return !equal;
  }
  RETURN_IF_ERROR(runtime->budget().ChargeSteps());
  if (const auto order = CompareNumbers(a, b)) return Holds(op, *order);
  if (const String* s = a.AsString(), *t = b.AsString(); s != nullptr && t != nullptr) {
    RETURN_IF_ERROR(runtime->budget().ChargeScan(std::min(s->text.size(), t->text.size())));
    // The order of UTF-8 is that of code points.
    return Holds(op, s->text <=> t->text);
  }
  if (const Sequence* s = a.AsSequence(), *t = b.AsSequence();
      s != nullptr && t != nullptr && IsTuple(*s) == IsTuple(*t)) {
    return CompareSequences(runtime, op, *s, *t);
  }
  return NoOrder(op, a, b);
}

StatusOr<bool> Contains(Runtime* runtime, const Value& container, const Value& item) {
  if (const String* text = container.AsString()) return ContainsText(runtime, *text, item);
  if (const Dict* dict = container.AsDict()) {
    RETURN_IF_ERROR(CheckHashable(runtime, item));
    ASSIGN_OR_RETURN(const Value* value, FindKey(runtime, *dict, item));
    return value != nullptr;
  }
  const IteratorPtr iterator = Iterate(container);
  if (iterator == nullptr) {
    return FailedPrecondition(
        StrCat("argument of type '", container.TypeName(), "' is not iterable"));
  }
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Value> next, iterator->Next(runtime));
    if (!next) return false;
    ASSIGN_OR_RETURN(const bool equal, EqualItem(runtime, *next, item));
    if (equal) return true;
  }
}

Status CheckHashable(Runtime* runtime, const Value& value) {
  RETURN_IF_ERROR(runtime->budget().ChargeSteps());
  const Sequence* sequence = value.AsSequence();
  if (value.AsDict() != nullptr || (sequence != nullptr && !IsTuple(*sequence))) {
    return FailedPrecondition(StrCat("unhashable type: '", value.TypeName(), "'"));
  }
  if (sequence != nullptr) {
    for (const Value& item : sequence->items) RETURN_IF_ERROR(CheckHashable(runtime, item));
  }
  return OkStatus();
}

StatusOr<const Value*> FindKey(Runtime* runtime, const Dict& dict, const Value& key) {
  for (const auto& [name, value] : dict.entries) {
    ASSIGN_OR_RETURN(const bool equal, EqualItem(runtime, name, key));
    if (equal) return &value;
  }
  return nullptr;
}

const Value* FindKey(const Dict& dict, std::string_view key) {
  for (const auto& [name, value] : dict.entries) {
    const String* string = name.AsString();
    if (string != nullptr && string->text == key) return &value;
  }
  return nullptr;
}

Status SetKey(Runtime* runtime, Value key, Value value, Dict::Entries* entries) {
  RETURN_IF_ERROR(CheckHashable(runtime, key));
  for (auto& [name, old] : *entries) {
    ASSIGN_OR_RETURN(const bool equal, EqualItem(runtime, name, key));
    if (!equal) continue;
    old = std::move(value);
    return OkStatus();
  }
  entries->emplace_back(std::move(key), std::move(value));
  return OkStatus();
}

// A merge sort, because the comparison may fail.
StatusOr<std::vector<Value>> SortBy(Runtime* runtime, const std::vector<Value>& items,
                                    const std::vector<Value>& keys, bool descending) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<size_t> merged(items.size());
  const CompareOp before = descending ? CompareOp::kGreater : CompareOp::kLess;
  for (size_t width = 1; width < order.size(); width *= 2) {
    for (size_t begin = 0; begin < order.size(); begin += 2 * width) {
      size_t left = begin;
      const size_t middle = std::min(begin + width, order.size());
      size_t right = middle;
      const size_t end = std::min(begin + 2 * width, order.size());
      for (size_t out = begin; out < end; ++out) {
        bool take_right = left == middle;
        if (left < middle && right < end) {
          ASSIGN_OR_RETURN(take_right,
                           Compare(runtime, before, keys[order[right]], keys[order[left]]));
        }
        merged[out] = take_right ? order[right++] : order[left++];
      }
    }
    order.swap(merged);
  }
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (const size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

}  // namespace aril::jinja
