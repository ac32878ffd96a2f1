#include "grammar/schema_keywords.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/strings.h"

namespace aril::grammar {
namespace {

struct TypedKeyword {
  std::string_view name;
  TypeSet types;  // that it restricts
};
constexpr std::array<TypedKeyword, 14> kTypedKeywords = {{
    {"minimum", kNumber},
    {"maximum", kNumber},
    {"exclusiveMinimum", kNumber},
    {"exclusiveMaximum", kNumber},
    {"minLength", kString},
    {"maxLength", kString},
    {"pattern", kString},
    {"items", kArray},
    {"prefixItems", kArray},
    {"minItems", kArray},
    {"maxItems", kArray},
    {"properties", kObject},
    {"required", kObject},
    {"additionalProperties", kObject},
}};

// What restricts and is not implemented; with those values that restrict nothing.
struct UnsupportedKeyword {
  std::string_view name;
  std::array<std::string_view, 2> harmless = {};
};
constexpr std::array<UnsupportedKeyword, 18> kUnsupportedKeywords = {{
    {"$dynamicRef"},
    {"$recursiveRef"},
    {"contains"},
    {"dependencies", {"{}"}},
    {"dependentRequired", {"{}"}},
    {"dependentSchemas", {"{}"}},
    {"else"},
    {"if"},
    {"maxProperties"},
    {"minProperties", {"0"}},
    {"multipleOf"},
    {"not", {"false"}},
    {"patternProperties", {"{}"}},
    {"propertyNames", {"true", "{}"}},
    {"then"},
    {"unevaluatedItems", {"true", "{}"}},
    {"unevaluatedProperties", {"true", "{}"}},
    {"uniqueItems", {"false"}},
}};

// Types by name, as a bit each but for "number".
constexpr std::array<std::pair<std::string_view, TypeSet>, 7> kTypeNames = {{
    {"null", kNull},
    {"boolean", kBoolean},
    {"integer", kInteger},
    {"number", kNumber},
    {"string", kString},
    {"array", kArray},
    {"object", kObject},
}};

StatusOr<TypeSet> TypeNamed(const Json& name) {
  if (name.AsString() == nullptr) {
    return InvalidArgument(
        StrCat("`type` must be a name or a list of names, not ", name.KindName()));
  }
  for (const auto& [known, type] : kTypeNames) {
    if (*name.AsString() == known) return type;
  }
  return InvalidArgument("`type` must be null, boolean, integer, number, string, array or object");
}

bool IsWhole(double value) { return std::isfinite(value) && value == std::floor(value); }

}  // namespace

TypeSet TypeOf(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.AsBool() != nullptr) return kBoolean;
  if (value.AsInt() != nullptr) return kInteger;
  if (const double* number = value.AsDouble()) return IsWhole(*number) ? kInteger : kFraction;
  if (value.AsString() != nullptr) return kString;
  return value.AsArray() != nullptr ? kArray : kObject;
}

StatusOr<TypeSet> TypesNamed(const Json& schema) {
  const Json* type = schema.Find("type");
  if (type == nullptr) return kAllTypes;
  if (type->AsArray() == nullptr) return TypeNamed(*type);
  TypeSet types = 0;
  for (const Json& name : *type->AsArray()) {
    ASSIGN_OR_RETURN(const TypeSet one, TypeNamed(name));
    types |= one;
  }
  if (types == 0) return InvalidArgument("`type` names no type");
  return types;
}

bool IsForm(std::string_view keyword) { return std::ranges::find(kForms, keyword) != kForms.end(); }

TypeSet TypesRestrictedBy(std::string_view keyword) {
  for (const TypedKeyword& typed : kTypedKeywords) {
    if (typed.name == keyword) return typed.types;
  }
  return 0;
}

bool IsUnsupported(std::string_view keyword, const Json& value) {
  for (const auto& [name, harmless] : kUnsupportedKeywords) {
    if (name == keyword) return std::ranges::find(harmless, value.Dump()) == harmless.end();
  }
  return false;
}

Json WithoutAnnotations(const Json& schema) {
  constexpr std::array<std::string_view, 8> kAnnotations = {"$comment",    "default",  "deprecated",
                                                            "description", "examples", "readOnly",
                                                            "title",       "writeOnly"};
  constexpr std::array<std::string_view, 3> kNamedSchemas = {"$defs", "definitions", "properties"};
  constexpr std::array<std::string_view, 6> kSchemas = {
      "additionalProperties", "allOf", "anyOf", "items", "oneOf", "prefixItems"};
  if (const Json::Array* list = schema.AsArray()) {
    Json::Array result;
    for (const Json& item : *list) result.push_back(WithoutAnnotations(item));
    return result;
  }
  const Json::Object* object = schema.AsObject();
  if (object == nullptr) return schema;
  Json::Object result;
  for (const auto& [name, value] : *object) {
    if (std::ranges::find(kAnnotations, name) != kAnnotations.end()) continue;
    if (std::ranges::find(kSchemas, name) != kSchemas.end()) {
      result.emplace_back(name, WithoutAnnotations(value));
    } else if (value.AsObject() != nullptr &&
               std::ranges::find(kNamedSchemas, name) != kNamedSchemas.end()) {
      Json::Object members;
      for (const auto& [member, inner] : *value.AsObject()) {
        members.emplace_back(member, WithoutAnnotations(inner));
      }
      result.emplace_back(name, std::move(members));
    } else {
      result.emplace_back(name, value);
    }
  }
  return result;
}

}  // namespace aril::grammar
