// A JSON Schema as a document: references in it, and what can be said of its parts at a glance.

#ifndef ARIL_GRAMMAR_SCHEMA_DOCUMENT_H_
#define ARIL_GRAMMAR_SCHEMA_DOCUMENT_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "grammar/schema_keywords.h"

namespace aril::grammar {

// Of alternatives in one another that are looked into.
inline constexpr int kMaxNestedAlternatives = 8;

// Whether two values are the same under JSON Schema, by which 1 is 1.0. False also for objects
// whose members come in another order.
bool IsSame(const Json& one, const Json& other);

// Not thread-safe.
class SchemaDocument {
 public:
  // `root` outlives it.
  explicit SchemaDocument(const Json& root) : root_(root) {}

  // What a `$ref` points to; nullptr if to nothing. Only references into the document are known:
  // "#" and what follows it is a JSON pointer (RFC 6901).
  const Json* Find(const std::string& reference);
  // The schema itself or, while it is a reference and nothing more, what it points to.
  const Json* Follow(const Json* schema);
  // The types that what is valid under the schema may have, or more.
  TypeSet Types(const Json* schema) { return Types(schema, 0); }
  // Those of what a grammar of the schema allows, or more: without `type`, the ones that its
  // keywords are about.
  TypeSet CompiledTypes(const Json* schema);
  // The strings that it, or any of its alternatives, names as constants; not all of them once it
  // has looked at very many for this document.
  std::set<std::string> Words(const Json* schema);
  // The values of `const` or `enum`; nothing is known of other schemas.
  std::optional<std::vector<const Json*>> Values(const Json* schema);

  struct Exclusion {
    // A property that each of the alternatives which allow objects gives other values; empty if
    // there is no need for one. They exclude one another only where it is present.
    std::string_view property;
  };
  // How no value is valid under two of the alternatives, if that can be seen.
  std::optional<Exclusion> Exclude(const Json::Array& alternatives);

 private:
  // In so many others.
  TypeSet Types(const Json* schema, int depth);
  // False if that is too much.
  bool Look(size_t count);
  bool AreDistinct(const std::vector<const Json*>& schemas);
  std::optional<std::string_view> DistinctProperty(const std::vector<const Json*>& schemas);

  const Json& root_;
  std::map<std::string, const Json*> found_;
  std::map<const Json*, TypeSet> types_;
  // Names and values that may yet be looked at, so that no schema takes long; when they are used
  // up, nothing is seen.
  size_t looks_left_ = 1'000'000;
  // Schemas and strings that Words may yet look at: each caller keeps its own.
  size_t words_left_ = 4'000;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_SCHEMA_DOCUMENT_H_
