// Arguments of calls that are written one by one, as elements of XML are, and not as a JSON object.

#ifndef ARIL_GRAMMAR_ARGUMENT_SYNTAX_H_
#define ARIL_GRAMMAR_ARGUMENT_SYNTAX_H_

#include <map>
#include <string>
#include <string_view>

#include "base/json.h"
#include "grammar/schema_keywords.h"

namespace aril::grammar {

// Each is `begin` NAME `middle` VALUE `end`. A value that may be a string is written as it is,
// whatever it is; any other as JSON. So `end` is in no string.
struct ArgumentSyntax {
  std::string begin;
  std::string middle;
  std::string end;

  bool operator==(const ArgumentSyntax&) const = default;
};

// What the arguments of one tool may be. Thread-safe.
class ArgumentTypes {
 public:
  // Anything.
  ArgumentTypes() = default;
  // As the schema of a tool's arguments says. What is no schema of an object allows anything.
  explicit ArgumentTypes(const Json& parameters);

  // Of one, by its name; there may be more than it can be.
  TypeSet Of(std::string_view name) const;

 private:
  std::map<std::string, TypeSet, std::less<>> of_;
  TypeSet others_ = kAllTypes;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_ARGUMENT_SYNTAX_H_
