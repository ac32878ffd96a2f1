// The keyword `format` of JSON Schema: which strings it means.

#ifndef ARIL_GRAMMAR_JSON_FORMAT_H_
#define ARIL_GRAMMAR_JSON_FORMAT_H_

#include <string_view>

namespace aril::grammar {

// A regular expression (regex.h) whose matches, from end to end, are of the format, though it may
// have others too. Empty for a format that is not known here, which is an annotation then.
std::string_view FormatExpression(std::string_view format);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_JSON_FORMAT_H_
