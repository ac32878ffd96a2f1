// The `pattern` of a Split, a Replace, …: a literal string or a regular expression.

#ifndef ARIL_TOKENIZER_PATTERN_H_
#define ARIL_TOKENIZER_PATTERN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/regex.h"
#include "base/status.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/pieces.h"

namespace aril {

// Immutable and thread-safe.
class Pattern {
 public:
  // Reads {"String": "…"} or {"Regex": "…"} from the member `key`.
  static StatusOr<Pattern> Read(const JsonFields& fields, std::string_view key);
  static Pattern Literal(std::string text);
  static StatusOr<Pattern> Expression(std::string_view regex);

  // The literal text, if this is no regular expression.
  const std::string* literal() const { return regex_ ? nullptr : &literal_; }

  // Matches and what lies between, from one end of `text` (valid UTF-8) to the other; stretches
  // between matches are not empty, matches may be. `inverted` swaps the two.
  class Finder {
   public:
    explicit Finder(const Pattern& pattern);
    std::vector<Stretch> Find(std::string_view text, bool inverted = false);

   private:
    std::optional<Regex::Range> Next(std::string_view text, size_t from);
    const Pattern& pattern_;
    std::optional<Regex::Matcher> matcher_;
  };

 private:
  Pattern() = default;
  std::string literal_;
  std::optional<Regex> regex_;
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_PATTERN_H_
