// The inside of tags: names, numbers, strings, operators, up to the end of the tag.

#ifndef ARIL_JINJA_TAG_LEXER_H_
#define ARIL_JINJA_TAG_LEXER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "jinja/token.h"

namespace aril::jinja {

class TagLexer {
 public:
  // `source` must outlive this.
  explicit TagLexer(std::string_view source) : source_(source) {}

  // Adds the tokens from `begin` to the end of the tag, that one included, and returns where the
  // text behind it goes on. An unfinished tag ends with the source: the parser knows what is amiss.
  StatusOr<size_t> Lex(size_t begin, bool is_block, std::vector<Token>* tokens);

  // Where the contents begin if there is a {% raw %} at `tag`, and where the text goes on if there
  // is an {% endraw %}.
  std::optional<size_t> MatchRawBegin(size_t tag) const;
  std::optional<size_t> MatchRawEnd(size_t tag) const;

  // What follows a tag that ends at `end` with this sign before its bracket, without the space that
  // the sign, or trim_blocks, removes.
  size_t SkipAfterTag(size_t end, char sign, bool trims_newline) const;

  // The number of the line at `pos`. Positions must not decrease from call to call.
  int LineAt(size_t pos);

 private:
  std::optional<size_t> MatchKeyword(size_t tag, std::string_view keyword,
                                     bool trims_newline) const;
  std::optional<size_t> MatchEnd(size_t pos, bool is_block) const;
  size_t SkipSpace(size_t pos) const;
  StatusOr<size_t> LexToken(size_t pos, std::vector<Token>* tokens);
  StatusOr<size_t> LexNumber(size_t pos, Token* token) const;
  StatusOr<size_t> LexString(size_t pos, Token* token) const;
  StatusOr<size_t> LexOperator(size_t pos, Token* token);
  size_t NameEnd(size_t pos) const;

  const std::string_view source_;
  std::string open_brackets_;  // the closing brackets that are due, innermost last
  size_t line_pos_ = 0;
  int line_ = 1;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_TAG_LEXER_H_
