// The keywords of JSON Schema: what each is about, and which are not implemented.

#ifndef ARIL_GRAMMAR_SCHEMA_KEYWORDS_H_
#define ARIL_GRAMMAR_SCHEMA_KEYWORDS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace aril::grammar {

// A set of the types that JSON Schema has; its "number" is kInteger and kFraction.
using TypeSet = uint8_t;
inline constexpr TypeSet kNull = 1;
inline constexpr TypeSet kBoolean = 2;
inline constexpr TypeSet kInteger = 4;   // 1.0 too
inline constexpr TypeSet kFraction = 8;  // a number that is not whole
inline constexpr TypeSet kNumber = kInteger | kFraction;
inline constexpr TypeSet kString = 16;
inline constexpr TypeSet kArray = 32;
inline constexpr TypeSet kObject = 64;
inline constexpr TypeSet kAllTypes = 127;

TypeSet TypeOf(const Json& value);
// Of the keyword `type`; kAllTypes if there is none. InvalidArgument without a place.
StatusOr<TypeSet> TypesNamed(const Json& schema);

// What says the whole of a schema; what may stand beside it is checked where it is used.
inline constexpr std::array<std::string_view, 6> kForms = {"$ref",  "allOf", "anyOf",
                                                           "oneOf", "const", "enum"};
bool IsForm(std::string_view keyword);
// The types that a keyword restricts; none for those that are about no type in particular.
TypeSet TypesRestrictedBy(std::string_view keyword);
// Whether the keyword, with this value, restricts in a way that is not implemented.
bool IsUnsupported(std::string_view keyword, const Json& value);

// The schema without what only people and models read: `description`, `examples` and their like.
Json WithoutAnnotations(const Json& schema);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_SCHEMA_KEYWORDS_H_
