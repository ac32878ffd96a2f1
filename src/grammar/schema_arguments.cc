// Schemas of arguments that are written one by one (argument_syntax.h).

#include "grammar/argument_syntax.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "grammar/free_text.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_document.h"

namespace aril::grammar {
namespace {

// Of GrammarBuilder::kMaxWork.
constexpr size_t kWorkOfArgument = 100;

constexpr const char* kWhereTexts =
    "where this model writes strings as they are, without quotes around them";

// What could not be told from what comes behind it, or is no text.
bool Holds(const std::string& text, const std::string& end) {
  const std::string shown = WithoutSpecialMarks(end);
  return (text + shown).find(shown) != text.size() ||
         text.find(kSpecialTokenMark) != std::string::npos;
}

}  // namespace

ArgumentTypes::ArgumentTypes(const Json& parameters) {
  SchemaDocument document(parameters);
  const auto type_of = [&](const Json& schema) {
    ArgumentType type = {.types = document.CompiledTypes(&schema), .words = {}};
    const bool is_mixed = (type.types & kString) != 0 && type.types != kString;
    if (is_mixed) type.words = document.Words(&schema);
    return type;
  };
  if (const Json* others = parameters.Find("additionalProperties")) others_ = type_of(*others);
  const Json* properties = parameters.Find("properties");
  if (properties == nullptr || properties->AsObject() == nullptr) return;
  for (const auto& [name, schema] : *properties->AsObject()) of_[name] = type_of(schema);
}

const ArgumentType& ArgumentTypes::Of(std::string_view name) const {
  const auto found = of_.find(name);
  return found == of_.end() ? others_ : found->second;
}

StatusOr<NodeIdx> SchemaCompiler::AddArgumentsRule(const ArgumentForm& form) {
  // No place of the list: a reference to the root means an object in JSON.
  const Place& root = UnlistedPlaceOf(root_, nullptr, "#");
  RETURN_IF_ERROR(CheckKeywords(root));
  for (const std::string_view keyword : kForms) {
    if (root_.Find(keyword) != nullptr) {
      return Refuse(root, StrCat("`", keyword, "` is not supported for all arguments together ",
                                 "where this model writes them one by one"));
    }
  }
  ASSIGN_OR_RETURN(const NodeIdx arguments, Arguments(root, form));
  RETURN_IF_ERROR(AddBodies());
  return arguments;
}

StatusOr<NodeIdx> SchemaCompiler::Arguments(const Place& root, const ArgumentForm& form) {
  ASSIGN_OR_RETURN(const Json::Object* properties, PropertiesOf(root));
  ASSIGN_OR_RETURN(const auto required, Required(root, *properties));
  NodeIdx behind = builder_.Return();
  const Json* others = root_.Find("additionalProperties");
  const bool is_closed = others == nullptr ? root_.Find("properties") != nullptr
                                           : others->AsBool() != nullptr && !*others->AsBool();
  if (!is_closed) {
    if (form.is_strict) {
      return Refuse(
          root, StrCat("`additionalProperties` must be false, beside `properties`, ", kWhereTexts));
    }
    // Not told apart from the names of properties: whoever reads the object takes the last one.
    const NodeIdx loop = builder_.Later();
    static const Json kAnything(true);
    ASSIGN_OR_RETURN(const NodeIdx value, Argument(others == nullptr ? kAnything : *others, root,
                                                   "/additionalProperties", form, loop));
    const NodeIdx here = builder_.Literal(WithSpecialBytes(form.syntax.begin),
                                          builder_.Call(form.text_until_middle, value));
    builder_.Become(loop, builder_.Either(here, behind));
    behind = loop;
  }
  for (auto at = properties->rbegin(); at != properties->rend() && !builder_.is_full(); ++at) {
    const auto& [name, schema] = *at;
    const std::string token = StrCat("/properties/", PointerToken(name));
    if (Holds(name, form.syntax.middle)) {
      return Refuse(root, StrCat(JsonQuote(Shortened(name)),
                                 " cannot be the name of an argument for this model"));
    }
    ASSIGN_OR_RETURN(const NodeIdx value, Argument(schema, root, token, form, behind));
    const NodeIdx here = builder_.Literal(
        StrCat(WithSpecialBytes(form.syntax.begin), name, WithSpecialBytes(form.syntax.middle)),
        value);
    behind = required.contains(name) ? here : builder_.Either(here, behind);
  }
  return behind;
}

// The value and the end of an argument.
StatusOr<NodeIdx> SchemaCompiler::Argument(const Json& schema, const Place& parent,
                                           const std::string& token, const ArgumentForm& form,
                                           NodeIdx next, int depth) {
  // Alternatives of alternatives may be many more than there are schemas.
  builder_.Charge(kWorkOfArgument);
  if (builder_.is_full()) return builder_.Nothing();
  const TypeSet types = document_.CompiledTypes(&schema);
  const bool is_never = schema.AsBool() != nullptr && !*schema.AsBool();
  if ((types & kString) == 0 || is_never) return JsonArgument(schema, parent, token, form, next);
  const Place& place = UnlistedPlaceOf(*document_.Follow(&schema), &parent, token);
  if (place.schema->Find("$ref") != nullptr) {
    return Refuse(place, "`$ref` must be the path of a schema below #/, and stand alone");
  }
  if (form.is_strict) RETURN_IF_ERROR(CheckTextsAreKept(place, types));
  for (const std::string_view keyword : kForms) {
    if (place.schema->Find(keyword) == nullptr) continue;
    RETURN_IF_ERROR(CheckBeside(place, keyword));
    if (keyword == "const" || keyword == "enum") return Words(place, types, form, next);
    return TextAlternatives(place, keyword, form, next, depth);
  }
  return builder_.Call(form.text_until_end, next);
}

// A value that is no string. Some templates write what is not in quotes as Python does.
StatusOr<NodeIdx> SchemaCompiler::JsonArgument(const Json& schema, const Place& parent,
                                               const std::string& token, const ArgumentForm& form,
                                               NodeIdx next) {
  const NodeIdx end = builder_.Literal(WithSpecialBytes(form.syntax.end), next);
  NodeIdx result = Inner(schema, parent, token, end);
  const Json& meant = *document_.Follow(&schema);
  const bool is_plain =
      meant.AsObject() != nullptr && std::ranges::none_of(kForms, [&](auto form_name) {
        return meant.Find(form_name) != nullptr;
      });
  if (!is_plain) return result;
  const TypeSet types = document_.CompiledTypes(&schema);
  for (const auto& [type, word] :
       {std::pair(kBoolean, "True"), std::pair(kBoolean, "False"), std::pair(kNull, "None")}) {
    if ((types & type) != 0) result = builder_.Either(result, builder_.Literal(word, end));
  }
  return result;
}

// Constants, strings among them.
StatusOr<NodeIdx> SchemaCompiler::Words(const Place& place, TypeSet types, const ArgumentForm& form,
                                        NodeIdx next) {
  const Json* list = place.schema->Find("enum");
  const Json* only = place.schema->Find("const");
  if (list != nullptr && list->AsArray() == nullptr) {
    return Refuse(place, "`enum` must be a list of values");
  }
  std::optional<NodeIdx> result;
  const NodeIdx end = builder_.Literal(WithSpecialBytes(form.syntax.end), next);
  const Json::Array values = list != nullptr ? *list->AsArray() : Json::Array{*only};
  for (const Json& value : values) {
    if ((TypeOf(value) & types) == 0 || (only != nullptr && !IsSame(value, *only))) continue;
    const std::string text = value.AsString() != nullptr ? *value.AsString() : value.Dump();
    if (Holds(text, form.syntax.end)) {
      return Refuse(place, StrCat(JsonQuote(Shortened(text)),
                                  " cannot be the value of an argument for this model"));
    }
    const NodeIdx node = builder_.Literal(text, end);
    result = result ? builder_.Either(*result, node) : node;
  }
  return result ? StatusOr<NodeIdx>(*result) : Refuse(place, "none of its values is allowed");
}

StatusOr<NodeIdx> SchemaCompiler::TextAlternatives(const Place& place, std::string_view keyword,
                                                   const ArgumentForm& form, NodeIdx next,
                                                   int depth) {
  const Json::Array* list = place.schema->Find(keyword)->AsArray();
  if (list == nullptr || list->empty() || depth == kMaxNestedAlternatives ||
      (keyword == "allOf" && list->size() > 1)) {
    return Refuse(place, StrCat("`", keyword, "` must be a list of schemas, of one for `allOf`, ",
                                "and not in too many others"));
  }
  RETURN_IF_ERROR(DemandedProperty(place, keyword, *list).status());
  const TypeSet named = TypesNamed(*place.schema).value_or(kAllTypes);
  std::optional<NodeIdx> result;
  for (size_t i = 0; i < list->size() && !builder_.is_full(); ++i) {
    const Json& alternative = (*list)[i];
    RETURN_IF_ERROR(CheckTypes(place, keyword, alternative, named));
    // Beside strings it could have in one of its own what ends the argument.
    if ((document_.CompiledTypes(&alternative) & (kArray | kObject)) != 0) {
      result = builder_.Call(form.text_until_end, next);
      break;
    }
    ASSIGN_OR_RETURN(const NodeIdx node, Argument(alternative, place, StrCat("/", keyword, "/", i),
                                                  form, next, depth + 1));
    result = result ? builder_.Either(*result, node) : node;
  }
  return result ? *result : builder_.Nothing();
}

Status SchemaCompiler::CheckTextsAreKept(const Place& place, TypeSet types) {
  if ((types & ~(kString | kNull)) != 0) {
    return Refuse(place, StrCat("what is a string or something else cannot be told apart ",
                                kWhereTexts, "; give it one `type`"));
  }
  if (place.schema->AsObject() == nullptr) return OkStatus();
  for (const auto& [name, value] : *place.schema->AsObject()) {
    const bool is_restriction = (TypesRestrictedBy(name) & kString) != 0 || name == "format";
    if (is_restriction || IsUnsupported(name, value)) {
      return Refuse(place,
                    StrCat("`", name, "` cannot be kept to ", kWhereTexts, "; leave it out"));
    }
  }
  return OkStatus();
}

}  // namespace aril::grammar
