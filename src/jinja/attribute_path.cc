#include "jinja/attribute_path.h"

#include <string_view>
#include <utility>

#include "jinja/attribute.h"
#include "jinja/literals.h"
#include "jinja/runtime.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

std::vector<std::string> Cut(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

Value PartOf(const std::string& text) {
  const bool is_index = IsAll(text, CharKind::kDecimal);
  if (const auto index = ParseInteger(text, 10); is_index && index) return Value(*index);
  return Value::UnchargedString(text);
}

}  // namespace

AttributePath AttributePath::Parse(const Value& attribute, Value value_if_absent) {
  AttributePath path;
  path.value_if_absent_ = std::move(value_if_absent);
  if (const String* text = attribute.AsString()) {
    for (const std::string& part : Cut(text->text, '.')) path.parts_.push_back(PartOf(part));
  } else if (!attribute.is_none()) {
    path.parts_.push_back(attribute);
  }
  return path;
}

std::vector<AttributePath> AttributePath::ParseList(const Value& attribute) {
  const String* text = attribute.AsString();
  if (text == nullptr) return {Parse(attribute)};
  std::vector<AttributePath> paths;
  for (std::string& part : Cut(text->text, ',')) {
    paths.push_back(Parse(Value::UnchargedString(std::move(part))));
  }
  return paths;
}

StatusOr<Value> AttributePath::Get(Runtime* runtime, const Value& item) const {
  Value value = item;
  for (const Value& part : parts_) {
    RETURN_IF_ERROR(runtime->budget().ChargeSteps());
    ASSIGN_OR_RETURN(value, GetItem(runtime, value, part));
    if (value.is_undefined() && !value_if_absent_.is_none()) value = value_if_absent_;
  }
  return value;
}

StatusOr<Value> IgnoreCase(Runtime* runtime, const Value& value) {
  const String* text = value.AsString();
  if (text == nullptr) return value;
  RETURN_IF_ERROR(runtime->budget().ChargeBytes(text->text.size(), 2));
  RETURN_IF_ERROR(runtime->budget().ChargeCodePoints(text->text.size()));
  return runtime->NewString(ToLower(text->text));
}

}  // namespace aril::jinja
