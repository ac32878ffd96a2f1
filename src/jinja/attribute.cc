#include "jinja/attribute.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/compare.h"
#include "jinja/function.h"
#include "jinja/iterate.h"
#include "jinja/methods.h"
#include "jinja/object.h"
#include "jinja/print.h"
#include "jinja/runtime.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

using MaybeValue = std::optional<Value>;

std::string Describe(const Value& x) {
  if (x.is_none()) return "None";
  if (const Object* object = x.AsObject()) return object->QualifiedTypeName() + " object";
  return x.TypeName() + " object";
}

StatusOr<Value> NoAttribute(Runtime* runtime, const Value& x, std::string_view name) {
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(name.size(), 4));  // its longest escape
  return Value::MakeUndefined(StrCat("'", Describe(x), "' has no attribute ", QuoteAsPython(name)));
}

StatusOr<Value> NoElement(Runtime* runtime, const Value& x, const Value& key) {
  if (const String* name = key.AsString()) return NoAttribute(runtime, x, name->text);
  std::string printed;
  RETURN_IF_ERROR(AppendRepr(runtime, key, 0, &printed));
  return Value::MakeUndefined(StrCat(Describe(x), " has no element ", printed));
}

// What lists and dicts have but the immutable sandbox refuses.
bool IsMutator(const Value& x, std::string_view name) {
  static constexpr std::array<std::string_view, 8> kOfLists = {
      "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"};
  static constexpr std::array<std::string_view, 5> kOfDicts = {"clear", "pop", "popitem",
                                                               "setdefault", "update"};
  const Sequence* sequence = x.AsSequence();
  if (sequence != nullptr && sequence->kind == Sequence::Kind::kList) {
    return std::find(kOfLists.begin(), kOfLists.end(), name) != kOfLists.end();
  }
  return x.AsDict() != nullptr &&
         std::find(kOfDicts.begin(), kOfDicts.end(), name) != kOfDicts.end();
}

Value Unsafe(const Value& x, std::string_view name) {
  return Value::MakeUndefined(StrCat("access to attribute ", QuoteAsPython(name), " of '",
                                     x.TypeName(), "' object is unsafe."));
}

StatusOr<MaybeValue> FindAttribute(Runtime* runtime, const Value& x, std::string_view name) {
  if (Object* object = x.AsObject()) return object->GetAttribute(runtime, name);
  if (const Sequence* group = x.AsSequence();
      group != nullptr && group->kind == Sequence::Kind::kGroup) {
    if (name == "grouper") return MaybeValue(group->items[0]);
    if (name == "list") return MaybeValue(group->items[1]);
  }
  if (const Function* method = FindMethod(x, name)) return BindMethod(runtime, *method, x);
  if (IsMutator(x, name)) return MaybeValue(Unsafe(x, name));
  return MaybeValue();
}

// The place that an index means, from the end if it is negative; nullopt if outside.
std::optional<size_t> Place(const Value& key, size_t length) {
  int64_t index = 0;
  if (!key.AsIntegral(&index)) return std::nullopt;
  const auto size = static_cast<int64_t>(length);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<size_t>(index);
}

StatusOr<MaybeValue> FindCodePoint(Runtime* runtime, const String& string, const Value& key) {
  const auto place = Place(key, string.length);
  if (!place) return MaybeValue();
  if (!string.is_ascii()) RETURN_IF_ERROR(runtime->budget().ChargeScan(string.text.size()));
  const size_t begin = ByteOffset(string, *place);
  size_t end = begin;
  NextCodePoint(string.text, &end);
  ASSIGN_OR_RETURN(Value c, runtime->NewString(string.text.substr(begin, end - begin)));
  return MaybeValue(std::move(c));
}

StatusOr<MaybeValue> FindItem(Runtime* runtime, const Value& x, const Value& key) {
  if (const Dict* dict = x.AsDict()) {
    if (key.AsDict() != nullptr) return MaybeValue();  // not hashable
    ASSIGN_OR_RETURN(const Value* value, FindKey(runtime, *dict, key));
    return value == nullptr ? MaybeValue() : MaybeValue(*value);
  }
  if (const Sequence* sequence = x.AsSequence()) {
    const auto place = Place(key, sequence->items.size());
    return place ? MaybeValue(sequence->items[*place]) : MaybeValue();
  }
  if (const String* string = x.AsString()) return FindCodePoint(runtime, *string, key);
  if (Object* object = x.AsObject()) return object->GetItem(runtime, key);
  return MaybeValue();
}

// Where a slice begins, and how many items it takes, by CPython's PySlice_AdjustIndices.
struct Slice {
  int64_t start;
  int64_t step;
  int64_t count;
};

StatusOr<int64_t> Bound(const Value& bound, int64_t value_if_absent, int64_t low, int64_t high,
                        int64_t length) {
  if (bound.is_none()) return value_if_absent;
  int64_t index = 0;
  if (bound.is_undefined() || !bound.AsIntegral(&index)) {
    return FailedPrecondition(
        StrCat("slice indices must be integers or None, not ", bound.TypeName()));
  }
  if (index < 0) index += length;
  return std::clamp(index, low, high);
}

StatusOr<Slice> Resolve(const SliceBounds& bounds, int64_t length) {
  Slice slice{0, 1, 0};
  if (!bounds.step.is_none() && !bounds.step.AsIntegral(&slice.step)) {
    return FailedPrecondition(
        StrCat("slice indices must be integers or None, not ", bounds.step.TypeName()));
  }
  if (slice.step == 0) return FailedPrecondition("slice step cannot be zero");
  const bool forward = slice.step > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? length : length - 1;
  ASSIGN_OR_RETURN(slice.start, Bound(bounds.start, forward ? low : high, low, high, length));
  ASSIGN_OR_RETURN(const int64_t stop, Bound(bounds.stop, forward ? high : low, low, high, length));
  // Nothing is farther than `length`, and the smallest integer has no positive counterpart.
  slice.step = std::clamp(slice.step, -length - 1, length + 1);
  const int64_t distance = forward ? stop - slice.start : slice.start - stop;
  const int64_t stride = forward ? slice.step : -slice.step;
  if (distance > 0) slice.count = (distance - 1) / stride + 1;
  return slice;
}

StatusOr<Value> SliceText(Runtime* runtime, const String& string, const Slice& slice) {
  RETURN_IF_ERROR(runtime->budget().ChargeScan(string.text.size()));
  if (slice.step == 1) {
    const auto first = static_cast<size_t>(slice.start);
    const size_t begin = ByteOffset(string, first);
    const size_t end = ByteOffset(string, first + static_cast<size_t>(slice.count));
    return runtime->NewString(string.text.substr(begin, end - begin));
  }
  std::vector<size_t> offsets;
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(string.length, sizeof(size_t)));
  for (size_t pos = 0; pos < string.text.size(); NextCodePoint(string.text, &pos)) {
    offsets.push_back(pos);
  }
  std::string out;
  for (int64_t i = 0; i < slice.count; ++i) {
    size_t pos = offsets[static_cast<size_t>(slice.start + i * slice.step)];
    AppendUtf8(NextCodePoint(string.text, &pos), &out);
  }
  return runtime->NewString(std::move(out));
}

StatusOr<Value> SliceItems(Runtime* runtime, const Sequence& sequence, const Slice& slice) {
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(static_cast<size_t>(slice.count), sizeof(Value)));
  std::vector<Value> items;
  for (int64_t i = 0; i < slice.count; ++i) {
    items.push_back(sequence.items[static_cast<size_t>(slice.start + i * slice.step)]);
  }
  return sequence.kind == Sequence::Kind::kList ? runtime->NewList(std::move(items))
                                                : runtime->NewTuple(std::move(items));
}

}  // namespace

StatusOr<Value> GetAttribute(Runtime* runtime, const Value& x, std::string_view name) {
  if (const Undefined* undefined = x.AsUndefined()) return FailedPrecondition(undefined->message);
  ASSIGN_OR_RETURN(MaybeValue attribute, FindAttribute(runtime, x, name));
  if (attribute) return *std::move(attribute);
  if (const Dict* dict = x.AsDict()) {
    RETURN_IF_ERROR(runtime->budget().ChargeSteps(static_cast<int64_t>(dict->entries.size() / 16)));
    if (const Value* item = FindKey(*dict, name)) return *item;
  }
  return NoAttribute(runtime, x, name);
}

StatusOr<Value> GetItem(Runtime* runtime, const Value& x, const Value& key) {
  if (const Undefined* undefined = x.AsUndefined()) return FailedPrecondition(undefined->message);
  ASSIGN_OR_RETURN(MaybeValue item, FindItem(runtime, x, key));
  if (item) return *std::move(item);
  if (const String* name = key.AsString()) {
    ASSIGN_OR_RETURN(MaybeValue attribute, FindAttribute(runtime, x, name->text));
    if (attribute) return *std::move(attribute);
  }
  return NoElement(runtime, x, key);
}

StatusOr<Value> GetOnlyAttribute(Runtime* runtime, const Value& x, std::string_view name) {
  if (const Undefined* undefined = x.AsUndefined()) return FailedPrecondition(undefined->message);
  ASSIGN_OR_RETURN(MaybeValue attribute, FindAttribute(runtime, x, name));
  if (attribute) return *std::move(attribute);
  return NoAttribute(runtime, x, name);
}

StatusOr<Value> GetSlice(Runtime* runtime, const Value& x, const SliceBounds& bounds) {
  if (const Undefined* undefined = x.AsUndefined()) return FailedPrecondition(undefined->message);
  if (const String* string = x.AsString()) {
    ASSIGN_OR_RETURN(const Slice slice, Resolve(bounds, static_cast<int64_t>(string->length)));
    return SliceText(runtime, *string, slice);
  }
  if (const Sequence* sequence = x.AsSequence()) {
    ASSIGN_OR_RETURN(const Slice slice,
                     Resolve(bounds, static_cast<int64_t>(sequence->items.size())));
    return SliceItems(runtime, *sequence, slice);
  }
  return FailedPrecondition(StrCat("'", x.TypeName(), "' object is not subscriptable"));
}

}  // namespace aril::jinja
