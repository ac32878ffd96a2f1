// The schemas that say a type: their keywords.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/json_format.h"
#include "grammar/json_number.h"
#include "grammar/schema_compiler.h"

namespace aril::grammar {
namespace {

constexpr const char* kInexact = "whole numbers of 2^63 and more are not supported";

// Whether a whole number was read as a double, which may stand for others as well, or
// has one in it.
bool IsInexact(const Json& value) {
  if (const Json::Array* array = value.AsArray()) return std::ranges::any_of(*array, IsInexact);
  if (const Json::Object* object = value.AsObject()) {
    return std::ranges::any_of(*object,
                               [](const auto& member) { return IsInexact(member.second); });
  }
  const double* number = value.AsDouble();
  return number != nullptr && std::abs(*number) >= 0x1p63;
}

}  // namespace

std::string PointerToken(std::string_view name) {
  std::string token;
  for (const char c : name) {
    if (c == '~') {
      token += "~0";
    } else if (c == '/') {
      token += "~1";
    } else {
      token.push_back(c);
    }
  }
  return token;
}

StatusOr<NodeIdx> SchemaCompiler::AddConstants(const Place& place, TypeSet types) {
  const Json* only = place.schema->Find("const");
  const Json* list = place.schema->Find("enum");
  if (list != nullptr && list->AsArray() == nullptr) {
    return Refuse(place, "`enum` must be a list of values");
  }
  std::vector<const Json*> values;
  if (list == nullptr) {
    values.push_back(only);
  } else {
    for (const Json& value : *list->AsArray()) values.push_back(&value);
  }
  std::erase_if(values, [&](const Json* value) {
    return (TypeOf(*value) & types) == 0 || (only != nullptr && !IsSame(*value, *only));
  });
  if (values.empty()) return Refuse(place, "none of its values is allowed");
  if (std::ranges::any_of(values, [](const Json* value) { return IsInexact(*value); })) {
    return Refuse(place, kInexact);
  }
  return text_.OneOf(values, builder_.Return());
}

StatusOr<NodeIdx> SchemaCompiler::AddTyped(const Place& place, TypeSet types) {
  TypeSet implied = 0;
  for (const auto& [name, value] : *place.schema->AsObject()) implied |= TypesRestrictedBy(name);
  if (place.schema->Find("type") == nullptr) {
    if (!Format(place).empty()) implied |= kString;
    if (implied == 0) return text_.AnyValue(builder_.Return());
    types = implied;
  }
  std::optional<NodeIdx> result;
  const auto add = [&](NodeIdx node) { result = result ? builder_.Either(*result, node) : node; };
  const NodeIdx end = builder_.Return();
  if ((types & kNull) != 0) add(builder_.Literal("null", end));
  if ((types & kBoolean) != 0) add(builder_.Literal("true", end));
  if ((types & kBoolean) != 0) add(builder_.Literal("false", end));
  using Adder = StatusOr<NodeIdx> (SchemaCompiler::*)(const Place&);
  for (const auto& [type, adder] :
       std::initializer_list<std::pair<TypeSet, Adder>>{{kNumber, &SchemaCompiler::AddNumeric},
                                                        {kString, &SchemaCompiler::AddString},
                                                        {kArray, &SchemaCompiler::AddArray},
                                                        {kObject, &SchemaCompiler::AddObject}}) {
    if ((types & type) == 0) continue;
    ASSIGN_OR_RETURN(const NodeIdx node, (this->*adder)(place));
    add(node);
  }
  return *result;
}

StatusOr<NodeIdx> SchemaCompiler::AddNumeric(const Place& place) {
  const bool is_whole = (TypesNamed(*place.schema).value_or(kAllTypes) & kFraction) == 0;
  NumberBounds bounds;
  for (const auto& [name, bound] : std::initializer_list<std::pair<const char*, Json*>>{
           {"minimum", &bounds.minimum},
           {"exclusiveMinimum", &bounds.exclusive_minimum},
           {"maximum", &bounds.maximum},
           {"exclusiveMaximum", &bounds.exclusive_maximum}}) {
    const Json* value = place.schema->Find(name);
    if (value == nullptr) continue;
    if (double unused; !value->AsNumber(&unused)) {
      return Refuse(place, StrCat("`", name, "` must be a number"));
    }
    if (is_whole && IsInexact(*value)) return Refuse(place, kInexact);
    *bound = *value;
  }
  const auto node = is_whole ? AddInteger(builder_, bounds, builder_.Return())
                             : AddNumber(builder_, bounds, builder_.Return());
  return node.ok() ? node : Refuse(place, Message(node.status()));
}

StatusOr<NodeIdx> SchemaCompiler::AddString(const Place& place) {
  ASSIGN_OR_RETURN(const auto min, Count(place, "minLength"));
  ASSIGN_OR_RETURN(const auto max, Count(place, "maxLength"));
  if (max && *max < min.value_or(0)) return Refuse(place, "`maxLength` is less than `minLength`");
  const bool has_length = min.value_or(0) > 0 || max;
  if (const Json* pattern = place.schema->Find("pattern")) {
    if (pattern->AsString() == nullptr) return Refuse(place, "`pattern` must be a string");
    if (has_length) {
      return Refuse(place,
                    "`pattern` beside `minLength` or `maxLength` is not supported; put the "
                    "length into the pattern");
    }
    const auto node = text_.StringLike(*pattern->AsString(), true, builder_.Return());
    return node.ok() ? node : Refuse(place, "`pattern`: " + Message(node.status()));
  }
  const std::string_view format = Format(place);
  if (!format.empty() && !has_length) return text_.StringLike(format, false, builder_.Return());
  return text_.String(min.value_or(0), max, builder_.Return());
}

std::string_view SchemaCompiler::Format(const Place& place) {
  const Json* format = place.schema->Find("format");
  const std::string* name = format == nullptr ? nullptr : format->AsString();
  return name == nullptr ? std::string_view() : FormatExpression(*name);
}

StatusOr<std::optional<int64_t>> SchemaCompiler::Count(const Place& place, const char* name) {
  const Json* value = place.schema->Find(name);
  if (value == nullptr) return std::optional<int64_t>();
  double count = -1;
  if (!value->AsNumber(&count) || count < 0 || count != std::floor(count)) {
    return Refuse(place, StrCat("`", name, "` must be a whole number, 0 or more"));
  }
  // More than any grammar has room for.
  return std::optional<int64_t>(static_cast<int64_t>(std::min(count, 1e15)));
}

StatusOr<NodeIdx> SchemaCompiler::AddArray(const Place& place) {
  ASSIGN_OR_RETURN(const auto min, Count(place, "minItems"));
  ASSIGN_OR_RETURN(const auto max, Count(place, "maxItems"));
  const int64_t least = min.value_or(0);
  if (max && *max < least) return Refuse(place, "`maxItems` is less than `minItems`");
  const Json* prefix = place.schema->Find("prefixItems");
  if (prefix != nullptr && prefix->AsArray() == nullptr) {
    return Refuse(place, "`prefixItems` must be a list of schemas");
  }
  const Json* items = place.schema->Find("items");
  if (items != nullptr && items->AsArray() != nullptr) {
    return Refuse(place, "`items` must be a schema; a list of them is `prefixItems`");
  }
  const NodeIdx empty = builder_.Literal("]", builder_.Return());
  if (max == 0) return text_.Opening('[', empty);
  // Behind `i` items: from the last `i` that differs from the next, down to the first item.
  const NodeIdx close = text_.Closing(']', builder_.Return());
  NodeIdx behind = close;
  if (!max) {
    behind = builder_.Later();
    builder_.Become(behind,
                    builder_.Either(text_.Opening(',', Item(place, SIZE_MAX, behind)), close));
  }
  const auto num_prefix = static_cast<int64_t>(prefix == nullptr ? 0 : prefix->AsArray()->size());
  int64_t i = max.value_or(std::max({least, num_prefix, int64_t{1}})) - 1;
  for (; i > 0 && !builder_.is_full(); --i) {
    behind = text_.Opening(',', Item(place, static_cast<size_t>(i), behind));
    if (i >= least) behind = builder_.Either(behind, close);
  }
  const NodeIdx first = Item(place, 0, behind);
  return text_.Opening('[', least == 0 ? builder_.Either(first, empty) : first);
}

NodeIdx SchemaCompiler::Item(const Place& place, size_t index, NodeIdx next) {
  const Json* prefix = place.schema->Find("prefixItems");
  if (prefix != nullptr && index < prefix->AsArray()->size()) {
    return Inner((*prefix->AsArray())[index], place, StrCat("/prefixItems/", index), next);
  }
  const Json* items = place.schema->Find("items");
  return items == nullptr ? text_.AnyValue(next) : Inner(*items, place, "/items", next);
}

StatusOr<NodeIdx> SchemaCompiler::AddObject(const Place& place) {
  const bool has_properties = place.schema->Find("properties") != nullptr;
  ASSIGN_OR_RETURN(const Json::Object* properties, PropertiesOf(place));
  ASSIGN_OR_RETURN(const auto required, Required(place, *properties));
  const NodeIdx close = text_.Closing('}', builder_.Return());
  // Where a member may stand next, if any; and behind a member.
  std::optional<NodeIdx> member;
  NodeIdx behind = close;
  const Json* others = place.schema->Find("additionalProperties");
  if (others != nullptr || !has_properties) {
    behind = builder_.Later();
    member = OtherMember(place, *properties, others, behind);
    builder_.Become(behind, builder_.Either(text_.Opening(',', *member), close));
  }
  // An optional property shares what comes behind it with those before: a text passes it by on the
  // way to the next, and no combination of properties needs nodes of its own.
  bool may_end = true;
  for (auto at = properties->rbegin(); at != properties->rend(); ++at) {
    const auto& [name, schema] = *at;
    const NodeIdx here =
        text_.Name(name, Inner(schema, place, StrCat("/properties/", PointerToken(name)), behind));
    const bool is_required = required.contains(name);
    may_end = may_end && !is_required;
    member = member && !is_required ? builder_.Either(here, *member) : here;
    behind = text_.Opening(',', *member);
    if (may_end) behind = builder_.Either(behind, close);
  }
  const NodeIdx empty = builder_.Literal("}", builder_.Return());
  if (!member) return text_.Opening('{', empty);
  return text_.Opening('{', may_end ? builder_.Either(*member, empty) : *member);
}

StatusOr<const Json::Object*> SchemaCompiler::PropertiesOf(const Place& place) {
  static const Json::Object kNone;
  const Json* named = place.schema->Find("properties");
  if (named == nullptr) return &kNone;
  if (named->AsObject() == nullptr) {
    return Refuse(place, "`properties` must be an object of schemas");
  }
  return named->AsObject();
}

NodeIdx SchemaCompiler::OtherMember(const Place& place, const Json::Object& properties,
                                    const Json* schema, NodeIdx next) {
  std::vector<std::string> names;
  for (const auto& [name, unused] : properties) names.push_back(name);
  return text_.NameBesides(names, schema == nullptr
                                      ? text_.AnyValue(next)
                                      : Inner(*schema, place, "/additionalProperties", next));
}

StatusOr<std::set<std::string_view>> SchemaCompiler::Required(const Place& place,
                                                              const Json::Object& properties) {
  std::set<std::string_view> named;
  for (const auto& [name, unused] : properties) named.insert(name);
  std::set<std::string_view> required;
  if (!place.demanded.empty()) required.insert(place.demanded);
  const Json* list = place.schema->Find("required");
  if (list == nullptr) return required;
  if (list->AsArray() == nullptr) return Refuse(place, "`required` must be a list of names");
  for (const Json& name : *list->AsArray()) {
    if (name.AsString() == nullptr) return Refuse(place, "`required` must be a list of names");
    if (!named.contains(*name.AsString())) {
      return Refuse(place, StrCat("`required` has ", JsonQuote(Shortened(*name.AsString())),
                                  ", which `properties` does not have"));
    }
    required.insert(*name.AsString());
  }
  return required;
}

}  // namespace aril::grammar
