#include "jinja/runtime.h"

#include <algorithm>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/namespace.h"

namespace aril::jinja {
namespace {

// The depth of a container of such values, unless it is too deep.
StatusOr<int> DepthOver(int deepest) {
  if (deepest < kMaxValueDepth) return deepest + 1;
  return ResourceExhausted(
      StrCat("lists and dicts contain each other more than ", kMaxValueDepth, " levels deep"));
}

}  // namespace

Runtime::~Runtime() {
  for (const auto& name_space : namespaces_) name_space->Clear();
}

void Runtime::Adopt(std::shared_ptr<Namespace> name_space) {
  namespaces_.push_back(std::move(name_space));
}

StatusOr<Value> Runtime::NewString(std::string text) {
  // With what the allocator adds, and the item of a list that may hold it.
  constexpr size_t kStringBytes = sizeof(String) + 48;
  RETURN_IF_ERROR(budget_.ChargeBytes(kStringBytes + text.size()));
  return Value(std::make_shared<const String>(std::move(text)));
}

StatusOr<Value> Runtime::NewSequence(std::vector<Value> items, Sequence::Kind kind) {
  RETURN_IF_ERROR(budget_.ChargeBytes(sizeof(Sequence)));
  RETURN_IF_ERROR(budget_.ChargeBytes(items.size(), sizeof(Value)));
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  ASSIGN_OR_RETURN(const int depth, DepthOver(deepest));
  return Value(std::make_shared<const Sequence>(Sequence{std::move(items), kind, depth}));
}

StatusOr<Value> Runtime::NewList(std::vector<Value> items) {
  return NewSequence(std::move(items), Sequence::Kind::kList);
}

StatusOr<Value> Runtime::NewTuple(std::vector<Value> items) {
  return NewSequence(std::move(items), Sequence::Kind::kTuple);
}

StatusOr<Value> Runtime::NewGroup(Value grouper, Value list) {
  return NewSequence({std::move(grouper), std::move(list)}, Sequence::Kind::kGroup);
}

StatusOr<Value> Runtime::NewDict(Dict::Entries entries) {
  RETURN_IF_ERROR(budget_.ChargeBytes(sizeof(Dict)));
  RETURN_IF_ERROR(budget_.ChargeBytes(entries.size(), sizeof(Dict::Entries::value_type)));
  int deepest = 0;
  for (const auto& [key, value] : entries) {
    deepest = std::max({deepest, key.depth(), value.depth()});
  }
  ASSIGN_OR_RETURN(const int depth, DepthOver(deepest));
  return Value(std::make_shared<const Dict>(Dict{std::move(entries), depth}));
}

StatusOr<Value> Runtime::NewObject(std::shared_ptr<Object> object) {
  // Of a typical one, with what it owns.
  constexpr size_t kObjectBytes = 128;
  RETURN_IF_ERROR(budget_.ChargeBytes(kObjectBytes));
  RETURN_IF_ERROR(DepthOver(object->depth()).status());
  return Value(std::move(object));
}

StatusOr<Value> Runtime::NewArray(const Json::Array& array) {
  std::vector<Value> items;
  items.reserve(array.size());
  for (const Json& item : array) {
    ASSIGN_OR_RETURN(Value value, FromJson(item));
    items.push_back(std::move(value));
  }
  return NewList(std::move(items));
}

StatusOr<Value> Runtime::NewDictFrom(const Json::Object& object) {
  Dict::Entries entries;
  entries.reserve(object.size());
  for (const auto& [name, member] : object) {
    ASSIGN_OR_RETURN(Value key, NewString(LossyUtf8(name)));
    ASSIGN_OR_RETURN(Value value, FromJson(member));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return NewDict(std::move(entries));
}

StatusOr<Value> Runtime::FromJson(const Json& json) {
  if (const bool* b = json.AsBool()) return Value(*b);
  if (const int64_t* i = json.AsInt()) return Value(*i);
  if (const double* d = json.AsDouble()) return Value(*d);
  if (const std::string* s = json.AsString()) return NewString(LossyUtf8(*s));
  if (const Json::Array* array = json.AsArray()) return NewArray(*array);
  if (const Json::Object* object = json.AsObject()) return NewDictFrom(*object);
  return Value();
}

}  // namespace aril::jinja
