// Arguments of calls that are written one by one, as elements of XML are, and not as a JSON object.

#ifndef ARIL_GRAMMAR_ARGUMENT_SYNTAX_H_
#define ARIL_GRAMMAR_ARGUMENT_SYNTAX_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "grammar/schema_keywords.h"

namespace aril::grammar {

// Each is `begin` NAME `middle` VALUE `end`. A value that may be a string is written as it is,
// whatever it is; any other as JSON. So `end` is in no string, and not to be in JSON.
struct ArgumentSyntax {
  std::string begin;
  std::string middle;
  std::string end;

  bool operator==(const ArgumentSyntax&) const = default;
};

// What one argument may be.
struct ArgumentType {
  TypeSet types = kAllTypes;  // or fewer
  // Strings that `const` and `enum` name, where it may be something else than a string; not all of
  // thousands.
  std::set<std::string> words;
};

// What the arguments of one tool may be. Thread-safe.
class ArgumentTypes {
 public:
  // Anything.
  ArgumentTypes() = default;
  // As the schema of a tool's arguments says. What is no schema of an object allows anything.
  explicit ArgumentTypes(const Json& parameters);

  const ArgumentType& Of(std::string_view name) const;

 private:
  std::map<std::string, ArgumentType, std::less<>> of_;
  ArgumentType others_;
};

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_ARGUMENT_SYNTAX_H_
