// One compilation of a JSON Schema (json_schema.h).
//
// Every schema in the document becomes a rule, once; those that are met wait in a list, so that no
// chain of references goes deep.

#ifndef ARIL_GRAMMAR_SCHEMA_COMPILER_H_
#define ARIL_GRAMMAR_SCHEMA_COMPILER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "grammar/argument_syntax.h"
#include "grammar/grammar.h"
#include "grammar/json_text.h"
#include "grammar/schema_document.h"
#include "grammar/schema_keywords.h"

namespace aril::grammar {

// A text for an error to quote: its beginning, if it is long.
std::string Shortened(std::string_view text);
// A name as a part of a JSON pointer.
std::string PointerToken(std::string_view name);

// How arguments are written one by one.
struct ArgumentForm {
  const ArgumentSyntax& syntax;  // with the marks of special tokens
  // Rules of any text up to these, and with them.
  NodeIdx text_until_middle;
  NodeIdx text_until_end;
  // Nothing that the schema says may be passed over.
  bool is_strict = false;
};

// Used once. Not thread-safe.
class SchemaCompiler {
 public:
  // All outlive it; `text` adds to `builder`.
  SchemaCompiler(const Json& root, GrammarBuilder& builder, JsonText& text)
      : root_(root), document_(root), builder_(builder), text_(text) {}

  // The rule of the texts that are valid under the schema; there may be none. Errors as
  // JsonSchemaGrammar.
  StatusOr<NodeIdx> AddRule();
  // The rule of arguments of which the root is the schema. What it says of the text of strings that
  // are arguments is passed over, but for `const` and `enum`.
  StatusOr<NodeIdx> AddArgumentsRule(const ArgumentForm& form);

 private:
  // Where a schema stands. Its rule ends in Return.
  struct Place {
    const Json* schema;
    const Place* parent;
    std::string token;  // of the pointer to it, behind the parent's
    // A property that is taken for required.
    std::string_view demanded;
    NodeIdx rule;
    // Other rules that its own begins with.
    std::vector<size_t> begins_with = {};
    size_t index = 0;
  };

  // The one of this schema, added if it is new. Without a parent the token is the whole pointer.
  Place& PlaceOf(const Json& schema, const Place* parent, std::string token,
                 std::string_view demanded = {});
  // One for errors and for other places to be in, which gets no rule.
  const Place& UnlistedPlaceOf(const Json& schema, const Place* parent, std::string token);
  // A value that is valid under `schema`, which stands at `token` in `parent`.
  NodeIdx Inner(const Json& schema, const Place& parent, std::string token, NodeIdx next);
  // The error that something at the place is not as it should be.
  static Status Refuse(const Place& place, const std::string& message);
  // Of all places, and of those that are met on the way.
  Status AddBodies();
  StatusOr<NodeIdx> Body(Place& place);
  Status CheckKeywords(const Place& place);
  // Nothing that restricts may stand beside a form, but for `type`, and const beside enum.
  Status CheckBeside(const Place& place, std::string_view form);

  // Schemas that are made of others.
  StatusOr<NodeIdx> AddAlternatives(Place& place, std::string_view form, TypeSet types);
  // The property that the alternatives of `oneOf` must have (SchemaDocument::Exclusion), or none.
  StatusOr<std::string_view> DemandedProperty(const Place& place, std::string_view form,
                                              const Json::Array& alternatives);
  StatusOr<NodeIdx> AddReference(Place& place, const Json& reference, TypeSet types);
  // `type` beside another form may only say what that says anyway.
  Status CheckTypes(const Place& place, std::string_view form, const Json& inner, TypeSet types);
  // The rule of `inner`, as the whole of `place`.
  NodeIdx Begin(Place& place, const Place& inner);
  // A rule that begins with itself would be read without end.
  Status CheckCycles();

  // Schemas of values (schema_values.cc).
  StatusOr<NodeIdx> AddConstants(const Place& place, TypeSet types);
  // Without `type` its keywords say what is meant: `properties` an object, and so on.
  StatusOr<NodeIdx> AddTyped(const Place& place, TypeSet types);
  StatusOr<NodeIdx> AddNumeric(const Place& place);
  StatusOr<NodeIdx> AddString(const Place& place);
  // The expression of its `format`, which is an annotation where that is not known.
  static std::string_view Format(const Place& place);
  // A keyword that counts something.
  static StatusOr<std::optional<int64_t>> Count(const Place& place, const char* name);
  StatusOr<NodeIdx> AddArray(const Place& place);
  // The item of this index.
  NodeIdx Item(const Place& place, size_t index, NodeIdx next);
  StatusOr<NodeIdx> AddObject(const Place& place);
  // None if nothing is said of them.
  static StatusOr<const Json::Object*> PropertiesOf(const Place& place);
  // A member that `properties` does not name, or that of an object without `properties`.
  NodeIdx OtherMember(const Place& place, const Json::Object& properties, const Json* schema,
                      NodeIdx next);
  static StatusOr<std::set<std::string_view>> Required(const Place& place,
                                                       const Json::Object& properties);

  // Schemas of arguments (schema_arguments.cc).
  StatusOr<NodeIdx> Arguments(const Place& root, const ArgumentForm& form);
  // The value and the end of an argument, which `schema` at `token` in `parent` is about, in so
  // many alternatives.
  StatusOr<NodeIdx> Argument(const Json& schema, const Place& parent, const std::string& token,
                             const ArgumentForm& form, NodeIdx next, int depth = 0);
  StatusOr<NodeIdx> JsonArgument(const Json& schema, const Place& parent, const std::string& token,
                                 const ArgumentForm& form, NodeIdx next);
  StatusOr<NodeIdx> Words(const Place& place, TypeSet types, const ArgumentForm& form,
                          NodeIdx next);
  StatusOr<NodeIdx> TextAlternatives(const Place& place, std::string_view keyword,
                                     const ArgumentForm& form, NodeIdx next, int depth);
  // Nothing is said of the text of a string, and what may be one is nothing else, but for null.
  static Status CheckTextsAreKept(const Place& place, TypeSet types);

  const Json& root_;
  SchemaDocument document_;
  GrammarBuilder& builder_;
  JsonText& text_;
  std::deque<Place> places_;
  std::deque<Place> unlisted_places_;
  std::map<std::pair<const Json*, std::string_view>, size_t> index_of_;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_SCHEMA_COMPILER_H_
