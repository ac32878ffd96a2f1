#include "grammar/schema_document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/strings.h"
#include "grammar/hex.h"

namespace aril::grammar {
namespace {

// Of a value that is to be unlike others, beside that of a name.
constexpr size_t kLooksOfValue = 20;

// References that lead to one another; more are taken for endless.
constexpr int kMaxReferences = 32;

// With %41 as A, and then ~1 as / and ~0 as ~.
std::string Unescaped(std::string_view token) {
  std::string bytes;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool is_escape =
        token[i] == '%' && i + 2 < token.size() && HexDigit(token[i + 1]) && HexDigit(token[i + 2]);
    if (is_escape) {
      bytes.push_back(static_cast<char>(*HexDigit(token[i + 1]) * 16 + *HexDigit(token[i + 2])));
      i += 2;
    } else {
      bytes.push_back(token[i]);
    }
  }
  std::string name;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_escape =
        bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
    name.push_back(!is_escape ? bytes[i] : bytes[++i] == '0' ? '~' : '/');
  }
  return name;
}

const Json* Step(const Json* value, const std::string& name) {
  const Json::Array* array = value->AsArray();
  if (array == nullptr) return value->Find(name);
  size_t index = 0;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data(), end, index);
  const bool is_index = parsed.ec == std::errc() && parsed.ptr == end && index < array->size();
  return is_index ? &(*array)[index] : nullptr;
}

// The same for numbers that are equal. Of scalars.
std::string KeyOf(const Json& value) {
  constexpr double kIntEnd = 9223372036854775808.0;  // 2^63
  const double* number = value.AsDouble();
  const bool is_int = number != nullptr && TypeOf(value) == kInteger && std::abs(*number) < kIntEnd;
  return is_int ? std::to_string(static_cast<int64_t>(*number)) : value.Dump();
}

// Whether more is said where a reference stands.
bool RestrictsBeside(const Json& schema) {
  return std::ranges::any_of(*schema.AsObject(), [](const auto& member) {
    const auto& [name, value] = member;
    return name == "type" || (IsForm(name) && name != "$ref") || TypesRestrictedBy(name) != 0 ||
           IsUnsupported(name, value);
  });
}

// By its keywords, where no `type` and no form says more; none if they say nothing.
TypeSet ImpliedTypes(const Json& schema) {
  if (schema.AsObject() == nullptr || schema.Find("type") != nullptr) return 0;
  TypeSet implied = 0;
  for (const auto& [name, value] : *schema.AsObject()) {
    if (IsForm(name)) return 0;
    implied |= TypesRestrictedBy(name);
  }
  return implied;
}

bool IsScalar(const Json& value) {
  return value.AsArray() == nullptr && value.AsObject() == nullptr;
}

}  // namespace

bool IsSame(const Json& one, const Json& other) {
  if (TypeOf(one) != TypeOf(other)) return false;
  if (IsScalar(one)) return KeyOf(one) == KeyOf(other);
  if (const Json::Array* array = one.AsArray()) {
    return std::equal(array->begin(), array->end(), other.AsArray()->begin(),
                      other.AsArray()->end(), IsSame);
  }
  const auto is_same_member = [](const auto& a, const auto& b) {
    return a.first == b.first && IsSame(a.second, b.second);
  };
  return std::equal(one.AsObject()->begin(), one.AsObject()->end(), other.AsObject()->begin(),
                    other.AsObject()->end(), is_same_member);
}

const Json* SchemaDocument::Find(const std::string& reference) {
  const auto [entry, is_new] = found_.try_emplace(reference, nullptr);
  if (!is_new) return entry->second;
  std::string_view rest = reference;
  if (!rest.starts_with('#')) return nullptr;
  rest.remove_prefix(1);
  const Json* at = &root_;
  while (at != nullptr && rest.starts_with('/')) {
    rest.remove_prefix(1);
    const std::string_view token = rest.substr(0, rest.find('/'));
    rest.remove_prefix(token.size());
    at = Step(at, Unescaped(token));
  }
  return entry->second = rest.empty() ? at : nullptr;
}

const Json* SchemaDocument::Follow(const Json* schema) {
  for (int i = 0; i < kMaxReferences; ++i) {
    const Json* reference = schema->Find("$ref");
    if (reference == nullptr || reference->AsString() == nullptr || RestrictsBeside(*schema)) break;
    const Json* target = Find(*reference->AsString());
    if (target == nullptr) break;
    schema = target;
  }
  return schema;
}

TypeSet SchemaDocument::Types(const Json* schema, int depth) {
  schema = Follow(schema);
  // A schema that is its own alternative is asked for while it is looked at.
  const auto [entry, is_new] = types_.try_emplace(schema, kAllTypes);
  if (!is_new) return entry->second;
  TypeSet types = TypesNamed(*schema).value_or(kAllTypes);
  if (const Json* all = schema->Find("allOf"); all != nullptr && all->AsArray() != nullptr) {
    for (const Json& one : *all->AsArray()) {
      if (depth < kMaxNestedAlternatives) types &= Types(&one, depth + 1);
    }
  }
  for (const std::string_view form : {"anyOf", "oneOf"}) {
    const Json* alternatives = schema->Find(form);
    if (alternatives == nullptr || alternatives->AsArray() == nullptr) continue;
    TypeSet of_alternatives = depth == kMaxNestedAlternatives ? kAllTypes : TypeSet{0};
    for (const Json& alternative : *alternatives->AsArray()) {
      if (of_alternatives != kAllTypes) of_alternatives |= Types(&alternative, depth + 1);
    }
    types &= of_alternatives;
  }
  if (const auto values = Values(schema)) {
    TypeSet of_values = 0;
    for (const Json* value : *values) of_values |= TypeOf(*value);
    types &= of_values;
  }
  return entry->second = types;
}

std::optional<std::vector<const Json*>> SchemaDocument::Values(const Json* schema) {
  schema = Follow(schema);
  if (const Json* value = schema->Find("const")) return {{value}};
  const Json* list = schema->Find("enum");
  if (list == nullptr || list->AsArray() == nullptr) return std::nullopt;
  std::vector<const Json*> values;
  for (const Json& value : *list->AsArray()) values.push_back(&value);
  return values;
}

TypeSet SchemaDocument::CompiledTypes(const Json* schema) {
  const TypeSet implied = ImpliedTypes(*Follow(schema));
  return implied != 0 ? implied : Types(schema);
}

std::set<std::string> SchemaDocument::Words(const Json* schema) {
  std::set<std::string> words;
  std::set<const Json*> seen;
  std::vector<const Json*> open = {schema};
  const auto may_look = [this] { return words_left_ > 0 && words_left_-- > 0; };
  while (!open.empty() && may_look()) {
    const Json* one = Follow(open.back());
    open.pop_back();
    if (!seen.insert(one).second) continue;
    for (const Json* value : Values(one).value_or(std::vector<const Json*>())) {
      if (value->AsString() == nullptr) continue;
      if (!may_look()) return words;
      words.insert(*value->AsString());
    }
    for (const std::string_view form : {"anyOf", "oneOf", "allOf"}) {
      const Json* inner = one->Find(form);
      if (inner == nullptr || inner->AsArray() == nullptr) continue;
      for (const Json& alternative : *inner->AsArray()) {
        if (open.size() < words_left_) open.push_back(&alternative);
      }
    }
  }
  return words;
}

bool SchemaDocument::Look(size_t count) {
  if (count > looks_left_) return false;
  looks_left_ -= count;
  return true;
}

// Whether each schema has values that no other one has.
bool SchemaDocument::AreDistinct(const std::vector<const Json*>& schemas) {
  std::set<std::string> seen;
  for (const Json* schema : schemas) {
    const auto values = Values(schema);
    if (!values || !Look(kLooksOfValue * values->size())) return false;
    std::set<std::string> own;
    for (const Json* value : *values) {
      if (!IsScalar(*value)) return false;
      own.insert(KeyOf(*value));
    }
    for (const std::string& key : own) {
      if (!seen.insert(key).second) return false;
    }
  }
  return true;
}

std::optional<std::string_view> SchemaDocument::DistinctProperty(
    const std::vector<const Json*>& schemas) {
  const Json* first = schemas[0]->Find("properties");
  if (first == nullptr || first->AsObject() == nullptr) return std::nullopt;
  for (const auto& [name, unused] : *first->AsObject()) {
    std::vector<const Json*> properties;
    for (const Json* schema : schemas) {
      const Json* all = schema->Find("properties");
      const Json::Object* members = all == nullptr ? nullptr : all->AsObject();
      if (members == nullptr || !Look(members->size())) return std::nullopt;
      const Json* property = all->Find(name);
      if (property == nullptr) break;
      properties.push_back(property);
      if (properties.size() == 2 && !AreDistinct(properties)) break;  // in vain, and seen early
    }
    if (properties.size() == schemas.size() && AreDistinct(properties)) return name;
  }
  return std::nullopt;
}

std::optional<SchemaDocument::Exclusion> SchemaDocument::Exclude(const Json::Array& alternatives) {
  Exclusion exclusion;
  for (TypeSet type = 1; type <= kObject; type = static_cast<TypeSet>(type * 2)) {
    std::vector<const Json*> allowing;
    for (const Json& alternative : alternatives) {
      if ((Types(&alternative) & type) != 0) allowing.push_back(Follow(&alternative));
    }
    if (allowing.size() < 2 || AreDistinct(allowing)) continue;
    if (type != kObject) return std::nullopt;
    const auto property = DistinctProperty(allowing);
    if (!property) return std::nullopt;
    exclusion.property = *property;
  }
  return exclusion;
}

}  // namespace aril::grammar
