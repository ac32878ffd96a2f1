#include "grammar/json_schema.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "grammar/prune.h"
#include "grammar/schema_compiler.h"
#include "wire/limits.h"

namespace aril::grammar {
namespace {

// Of a place or a name that an error quotes.
constexpr size_t kMaxQuotedBytes = 200;

}  // namespace

std::string Shortened(std::string_view text) {
  if (text.size() <= kMaxQuotedBytes) return std::string(text);
  text = text.substr(0, kMaxQuotedBytes);
  text.remove_suffix(TruncatedTailBytes(text));
  return StrCat(text, "…");
}

StatusOr<NodeIdx> SchemaCompiler::AddRule() {
  const Place& root = PlaceOf(root_, nullptr, "#");
  RETURN_IF_ERROR(AddBodies());
  return root.rule;
}

Status SchemaCompiler::AddBodies() {
  // Bodies add places behind.
  for (size_t i = 0; i < places_.size() && !builder_.is_full(); ++i) {
    ASSIGN_OR_RETURN(const NodeIdx body, Body(places_[i]));
    builder_.Become(places_[i].rule, body);
  }
  return CheckCycles();
}

SchemaCompiler::Place& SchemaCompiler::PlaceOf(const Json& schema, const Place* parent,
                                               std::string token, std::string_view demanded) {
  const auto [entry, is_new] = index_of_.try_emplace({&schema, demanded}, places_.size());
  if (is_new) {
    places_.push_back({.schema = &schema,
                       .parent = parent,
                       .token = std::move(token),
                       .demanded = demanded,
                       .rule = builder_.Later(),
                       .index = entry->second});
  }
  return places_[entry->second];
}

const SchemaCompiler::Place& SchemaCompiler::UnlistedPlaceOf(const Json& schema,
                                                             const Place* parent,
                                                             std::string token) {
  return unlisted_places_.emplace_back(Place{.schema = &schema,
                                             .parent = parent,
                                             .token = std::move(token),
                                             .demanded = {},
                                             .rule = builder_.Nothing()});
}

NodeIdx SchemaCompiler::Inner(const Json& schema, const Place& parent, std::string token,
                              NodeIdx next) {
  return builder_.Call(PlaceOf(schema, &parent, std::move(token)).rule, next);
}

Status SchemaCompiler::Refuse(const Place& place, const std::string& message) {
  std::string pointer;
  for (const Place* at = &place; at != nullptr; at = at->parent) pointer = at->token + pointer;
  return InvalidArgument(StrCat(Shortened(pointer), ": ", message));
}

StatusOr<NodeIdx> SchemaCompiler::Body(Place& place) {
  const Json& schema = *place.schema;
  if (const bool* allows = schema.AsBool()) {
    return *allows ? text_.AnyValue(builder_.Return()) : builder_.Nothing();
  }
  if (schema.AsObject() == nullptr) {
    return Refuse(place, StrCat("a schema is an object or a boolean, not ", schema.KindName()));
  }
  RETURN_IF_ERROR(CheckKeywords(place));
  const auto types = TypesNamed(schema);
  if (!types.ok()) return Refuse(place, Message(types.status()));
  for (const std::string_view form : kForms) {
    if (schema.Find(form) == nullptr) continue;
    RETURN_IF_ERROR(CheckBeside(place, form));
    if (form == "const" || form == "enum") return AddConstants(place, *types);
    return AddAlternatives(place, form, *types);
  }
  return AddTyped(place, *types);
}

Status SchemaCompiler::CheckKeywords(const Place& place) {
  for (const auto& [name, value] : *place.schema->AsObject()) {
    if (IsUnsupported(name, value)) {
      return Refuse(place, StrCat("`", name, "` is not supported; leave it out"));
    }
    // What is below would refer to this schema by "#".
    if (name == "$id" && place.schema != &root_) {
      return Refuse(place, "`$id` is not supported below the root; leave it out");
    }
  }
  return OkStatus();
}

Status SchemaCompiler::CheckBeside(const Place& place, std::string_view form) {
  const bool is_constant = form == "const" || form == "enum";
  for (const auto& [name, value] : *place.schema->AsObject()) {
    if (name == form || (is_constant && (name == "const" || name == "enum"))) continue;
    if (!IsForm(name) && TypesRestrictedBy(name) == 0) continue;
    return Refuse(place, StrCat("`", name, "` beside `", form, "` is not supported"));
  }
  return OkStatus();
}

StatusOr<NodeIdx> SchemaCompiler::AddAlternatives(Place& place, std::string_view form,
                                                  TypeSet types) {
  const Json& value = *place.schema->Find(form);
  if (form == "$ref") return AddReference(place, value, types);
  const Json::Array* alternatives = value.AsArray();
  if (alternatives == nullptr || alternatives->empty()) {
    return Refuse(place, StrCat("`", form, "` must be a list of schemas"));
  }
  if (form == "allOf" && alternatives->size() > 1) {
    return Refuse(place, "`allOf` of several schemas is not supported; write them as one");
  }
  ASSIGN_OR_RETURN(const std::string_view property, DemandedProperty(place, form, *alternatives));
  std::optional<NodeIdx> result;
  for (size_t i = 0; i < alternatives->size(); ++i) {
    const Json* alternative = &(*alternatives)[i];
    RETURN_IF_ERROR(CheckTypes(place, form, *alternative, types));
    const bool is_demanding = !property.empty() && (document_.Types(alternative) & kObject) != 0;
    if (is_demanding) alternative = document_.Follow(alternative);
    const NodeIdx node = Begin(place, PlaceOf(*alternative, &place, StrCat("/", form, "/", i),
                                              is_demanding ? property : std::string_view()));
    result = result ? builder_.Either(*result, node) : node;
  }
  return *result;
}

StatusOr<std::string_view> SchemaCompiler::DemandedProperty(const Place& place,
                                                            std::string_view form,
                                                            const Json::Array& alternatives) {
  if (form != "oneOf") return std::string_view();
  const auto exclusion = document_.Exclude(alternatives);
  if (exclusion) return exclusion->property;
  return Refuse(place,
                "`oneOf` is supported only if its alternatives differ in their types, or in the "
                "`const` or `enum` of a property; use `anyOf`");
}

StatusOr<NodeIdx> SchemaCompiler::AddReference(Place& place, const Json& reference, TypeSet types) {
  if (reference.AsString() == nullptr) return Refuse(place, "`$ref` must be a string");
  const std::string& text = *reference.AsString();
  if (text != "#" && !text.starts_with("#/")) {
    return Refuse(place, StrCat("`$ref` to ", JsonQuote(Shortened(text)),
                                " is not supported, only what begins with #/ or is #"));
  }
  const Json* target = document_.Find(text);
  if (target == nullptr) {
    return Refuse(place, StrCat("`$ref` to ", JsonQuote(Shortened(text)), " finds nothing"));
  }
  RETURN_IF_ERROR(CheckTypes(place, "$ref", *target, types));
  return Begin(place, PlaceOf(*target, nullptr, text));
}

Status SchemaCompiler::CheckTypes(const Place& place, std::string_view form, const Json& inner,
                                  TypeSet types) {
  if ((document_.Types(&inner) & ~types) == 0) return OkStatus();
  return Refuse(
      place, StrCat("`type` beside `", form, "` is not supported; put it into the other schemas"));
}

NodeIdx SchemaCompiler::Begin(Place& place, const Place& inner) {
  place.begins_with.push_back(inner.index);
  return builder_.Call(inner.rule, builder_.Return());
}

Status SchemaCompiler::CheckCycles() {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(places_.size(), Mark::kNew);
  for (size_t start = 0; start < places_.size(); ++start) {
    std::vector<size_t> open = {start};
    while (!open.empty()) {
      const Place& place = places_[open.back()];
      if (std::exchange(marks[place.index], Mark::kOpen) != Mark::kNew) {
        marks[place.index] = Mark::kDone;
        open.pop_back();
        continue;
      }
      for (const size_t next : place.begins_with) {
        if (marks[next] == Mark::kOpen) {
          return Refuse(places_[next],
                        "it refers to itself, with no array or object between that could end");
        }
        if (marks[next] == Mark::kNew) open.push_back(next);
      }
    }
  }
  return OkStatus();
}

StatusOr<Grammar> JsonSchemaGrammar(std::string_view schema) {
  ASSIGN_OR_RETURN(const Json root,
                   Json::Parse(schema, {.max_bytes = wire::kMaxOutputFormatBytes}));
  GrammarBuilder builder;
  JsonText text(builder);
  ASSIGN_OR_RETURN(const NodeIdx start, SchemaCompiler(root, builder, text).AddRule());
  ASSIGN_OR_RETURN(Grammar grammar, builder.Build(start));
  if (!Prune(grammar)) return InvalidArgument("#: no text of finite length is valid under it");
  return grammar;
}

}  // namespace aril::grammar
