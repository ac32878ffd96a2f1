// JSON Schema (draft 2020-12, and what pydantic and OpenAI's structured outputs make of it) to a
// grammar of the JSON texts that it allows.
//
// Every text of the grammar is valid under the schema. The converse does not hold, on purpose:
//   - properties come in the order in which the schema names them;
//   - properties that it does not name come only where it says so by `additionalProperties`, or
//     names none at all. They come last, and their names are not escaped where they need not be;
//     so they differ from those that are named, though not always from one another;
//   - without `type`, keywords about values of some types mean that there are no others;
//   - the alternatives of `oneOf` may be told apart by a property, which is there then;
//   - whitespace is what printers of JSON make: none, one space, or a new line and its indentation
//     behind brackets and commas and before closing brackets; none or one space behind colons;
//   - numbers have a bounded number of digits (json_number.h), and whole ones no fraction.
// A keyword that restricts and is not implemented is an error that names its place: leaving it out
// would give texts that the schema does not allow. Unknown keywords are annotations.

#ifndef ARIL_GRAMMAR_JSON_SCHEMA_H_
#define ARIL_GRAMMAR_JSON_SCHEMA_H_

#include <string_view>

#include "base/status.h"
#include "grammar/grammar.h"

namespace aril::grammar {

// InvalidArgument names what is wrong or not supported and where ("#/properties/age: `multipleOf`
// is not supported; leave it out"); ResourceExhausted if the grammar is too large. Every text of
// the grammar can be completed, however it was begun. Thread-safe.
StatusOr<Grammar> JsonSchemaGrammar(std::string_view schema);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_JSON_SCHEMA_H_
