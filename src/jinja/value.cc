#include "jinja/value.h"

#include "jinja/object.h"
#include "jinja/text.h"

namespace aril::jinja {

String::String(std::string t) : text(std::move(t)), length(NumCodePoints(text)) {}

Value Value::UnchargedString(std::string text) {
  return Value(std::make_shared<const String>(std::move(text)));
}

Value Value::MakeUndefined(std::string message) {
  Value value;
  value.value_ = std::make_shared<const Undefined>(Undefined{std::move(message)});
  return value;
}

Object* Value::AsObject() const {
  const ObjectPtr* object = std::get_if<ObjectPtr>(&value_);
  return object == nullptr ? nullptr : object->get();
}

bool Value::AsIntegral(int64_t* value) const {
  if (const int64_t* i = AsInt()) return *value = *i, true;
  if (const bool* b = AsBool()) return *value = *b ? 1 : 0, true;
  return false;
}

bool Value::AsNumber(double* value) const {
  if (const double* d = AsFloat()) return *value = *d, true;
  int64_t integer = 0;
  if (!AsIntegral(&integer)) return false;
  *value = static_cast<double>(integer);
  return true;
}

std::string Value::TypeName() const {
  if (const Sequence* sequence = AsSequence()) {
    return sequence->kind == Sequence::Kind::kList ? "list" : "tuple";
  }
  if (const Object* object = AsObject()) return object->TypeName();
  static constexpr const char* kNames[] = {"NoneType",  "bool", "int", "float",
                                           "Undefined", "str",  "",    "dict"};
  return kNames[value_.index()];
}

bool Value::IsTrue() const {
  if (const bool* b = AsBool()) return *b;
  if (const int64_t* i = AsInt()) return *i != 0;
  if (const double* d = AsFloat()) return *d != 0;
  if (const String* s = AsString()) return !s->text.empty();
  if (const Sequence* s = AsSequence()) return !s->items.empty();
  if (const Dict* d = AsDict()) return !d->entries.empty();
  if (const Object* o = AsObject()) return o->Length().value_or(1) != 0;
  return false;  // None and undefined
}

bool Value::IsSame(const Value& other) const {
  if (value_.index() != other.value_.index()) return false;
  if (is_undefined()) return AsUndefined() == other.AsUndefined();
  // NaN is the same as itself, but Python makes a new object for each result.
  return value_ == other.value_;
}

int Value::depth() const {
  if (const Sequence* sequence = AsSequence()) return sequence->depth;
  if (const Dict* dict = AsDict()) return dict->depth;
  if (const Object* object = AsObject()) return object->depth();
  return 0;
}

}  // namespace aril::jinja
