// The syntax of regular expressions (regex.h says which).

#ifndef ARIL_GRAMMAR_REGEX_PARSER_H_
#define ARIL_GRAMMAR_REGEX_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "grammar/code_points.h"

namespace aril::grammar {

// A part of an expression, by its index.
using RegexIdx = size_t;

struct RegexPart {
  enum class Kind : uint8_t { kCharacter, kSequence, kAlternatives, kRepeat };
  static constexpr int64_t kUnbounded = -1;

  Kind kind = Kind::kSequence;
  std::vector<CodePointRange> characters = {};  // kCharacter: sorted, apart from one another
  std::vector<RegexIdx> parts = {};             // of the others; kRepeat has one
  int64_t min = 0;                              // kRepeat
  int64_t max = kUnbounded;
};

// An alternative of the whole expression.
struct RegexAlternative {
  RegexIdx part = 0;
  bool is_held_at_start = false;  // ^
  bool is_held_at_end = false;    // $
};

struct ParsedRegex {
  std::vector<RegexPart> parts;
  std::vector<RegexAlternative> alternatives;
};

// InvalidArgument says what is wrong or not supported, and at which byte.
StatusOr<ParsedRegex> ParseRegex(std::string_view expression);

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_REGEX_PARSER_H_
