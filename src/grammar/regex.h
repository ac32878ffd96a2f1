// Regular expressions to grammars: what pattern languages have in common, and a regular language
// can express. Where they differ it is ECMA-262's, as JSON Schema wants it.
//
// Literals; escapes \t \n \r \f \v \0 \cX \xHH \uHHHH \u{H…}, \d \D \w \W \s \S, and escaped
// punctuation; `.` (anything but the end of a line); classes [a-z^…]; groups (…), (?:…),
// (?<name>…); alternation; * + ? {m} {m,} {m,n}, lazy ones too (they match the same texts); ^ and $
// where the expression, or an alternative that is not in a group, begins and ends. What is more
// (look-around, back references, \b, flags, possessive quantifiers) is refused.

#ifndef ARIL_GRAMMAR_REGEX_H_
#define ARIL_GRAMMAR_REGEX_H_

#include <functional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/code_points.h"
#include "grammar/grammar.h"

namespace aril::grammar {

// Adds one character out of the given ranges, which are sorted and apart from one another, in the
// way that it stands in the text.
using AddCharacter = std::function<NodeIdx(const std::vector<CodePointRange>&, NodeIdx next)>;

// As it stands in UTF-8. Surrogates among the ranges are left out; none at all: a node that nothing
// passes.
NodeIdx AddUtf8(GrammarBuilder& builder, const std::vector<CodePointRange>& characters,
                NodeIdx next);

struct RegexOptions {
  // What is not held by ^ and $ may stand anywhere in the text, as in the keyword `pattern` of JSON
  // Schema. Else the expression matches from end to end.
  bool searches = false;
  AddCharacter add_character;
};

// What the expression (valid UTF-8) matches, then `next`. InvalidArgument says what is wrong or not
// supported, and at which byte.
StatusOr<NodeIdx> AddRegex(GrammarBuilder& builder, std::string_view expression,
                           const RegexOptions& options, NodeIdx next);

// The same of a whole text in UTF-8.
StatusOr<NodeIdx> AddWholeRegex(GrammarBuilder& builder, std::string_view expression);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_REGEX_H_
