#include "jinja/tag_lexer.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "base/utf8.h"
#include "jinja/literals.h"
#include "jinja/text.h"

namespace aril::jinja {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

int TagLexer::LineAt(size_t pos) {
  const auto begin = source_.begin() + static_cast<ptrdiff_t>(line_pos_);
  const auto end = source_.begin() + static_cast<ptrdiff_t>(std::max(pos, line_pos_));
  line_ += static_cast<int>(std::count(begin, end, '\n'));
  line_pos_ = std::max(pos, line_pos_);
  return line_;
}

size_t TagLexer::SkipSpace(size_t pos) const {
  return source_.size() - StripLeft(source_.substr(pos)).size();
}

size_t TagLexer::SkipAfterTag(size_t end, char sign, bool trims_newline) const {
  if (sign == '-') return SkipSpace(end);
  const bool trims = trims_newline && sign != '+' && end < source_.size() && source_[end] == '\n';
  return trims ? end + 1 : end;
}

std::optional<size_t> TagLexer::MatchEnd(size_t pos, bool is_block) const {
  const std::string_view rest = source_.substr(pos);
  const std::string_view bracket = is_block ? "%}" : "}}";
  if (rest.starts_with(bracket)) return SkipAfterTag(pos + 2, 0, is_block);
  const bool has_sign = rest.starts_with('-') || (is_block && rest.starts_with('+'));
  if (!has_sign || !rest.substr(1).starts_with(bracket)) return std::nullopt;
  return SkipAfterTag(pos + 3, rest[0], is_block);
}

// "{%", a sign perhaps, the keyword, and the end of the tag.
std::optional<size_t> TagLexer::MatchKeyword(size_t tag, std::string_view keyword,
                                             bool trims_newline) const {
  size_t pos = tag + 2;
  if (pos < source_.size() && (source_[pos] == '-' || source_[pos] == '+')) ++pos;
  pos = SkipSpace(pos);
  if (source_.substr(pos, keyword.size()) != keyword) return std::nullopt;
  pos = SkipSpace(pos + keyword.size());
  const char sign = pos < source_.size() ? source_[pos] : 0;
  const bool has_sign = sign == '-' || (sign == '+' && trims_newline);
  if (source_.substr(has_sign ? pos + 1 : pos, 2) != "%}") return std::nullopt;
  return SkipAfterTag(pos + (has_sign ? 3 : 2), has_sign ? sign : 0, trims_newline);
}

std::optional<size_t> TagLexer::MatchRawBegin(size_t tag) const {
  return MatchKeyword(tag, "raw", /*trims_newline=*/false);
}

std::optional<size_t> TagLexer::MatchRawEnd(size_t tag) const {
  return MatchKeyword(tag, "endraw", /*trims_newline=*/true);
}

StatusOr<size_t> TagLexer::Lex(size_t begin, bool is_block, std::vector<Token>* tokens) {
  open_brackets_.clear();
  size_t pos = begin;
  while (pos < source_.size()) {
    if (open_brackets_.empty()) {
      if (const auto after = MatchEnd(pos, is_block)) {
        tokens->push_back({.kind = is_block ? Token::Kind::kBlockEnd : Token::Kind::kVariableEnd,
                           .line = LineAt(pos)});
        return *after;
      }
    }
    const size_t text = SkipSpace(pos);
    if (text > pos) {
      pos = text;
      continue;
    }
    ASSIGN_OR_RETURN(pos, LexToken(pos, tokens));
  }
  return pos;
}

StatusOr<size_t> TagLexer::LexToken(size_t pos, std::vector<Token>* tokens) {
  Token token{.kind = Token::Kind::kName, .line = LineAt(pos)};
  const char c = source_[pos];
  StatusOr<size_t> end = pos;
  if (IsDigit(c)) {
    end = LexNumber(pos, &token);
  } else if (c == '\'' || c == '"') {
    end = LexString(pos, &token);
  } else if (const size_t name_end = NameEnd(pos); name_end > pos) {
    token.text = source_.substr(pos, name_end - pos);
    end = name_end;
  } else {
    end = LexOperator(pos, &token);
  }
  tokens->push_back(std::move(token));
  return end;
}

size_t TagLexer::NameEnd(size_t pos) const {
  while (pos < source_.size()) {
    size_t next = pos;
    if (!IsIdentifierPart(NextCodePoint(source_, &next))) break;
    pos = next;
  }
  return pos;
}

StatusOr<size_t> TagLexer::LexNumber(size_t pos, Token* token) const {
  const bool after_dot = pos > 0 && source_[pos - 1] == '.';
  const NumberSpan span = MatchNumber(source_.substr(pos), /*may_be_float=*/!after_dot);
  const std::string_view text = source_.substr(pos, span.size);
  token->kind = span.is_float ? Token::Kind::kFloat : Token::Kind::kInteger;
  if (span.is_float) {
    token->real = FloatOfLiteral(text);
    return pos + span.size;
  }
  const auto integer = IntegerOfLiteral(text);
  if (!integer) {
    return SyntaxError(token->line,
                       StrCat("the integer ", text.substr(0, 40), " does not fit 64 bits"));
  }
  token->integer = *integer;
  return pos + span.size;
}

StatusOr<size_t> TagLexer::LexString(size_t pos, Token* token) const {
  const char quote = source_[pos];
  size_t end = pos + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) {
    return SyntaxError(token->line, StrCat("unexpected char ", quote == '"' ? "'\"'" : "\"'\"",
                                           ": the string that begins here does not end"));
  }
  token->kind = Token::Kind::kString;
  auto value = UnescapeString(source_.substr(pos + 1, end - pos - 1));
  if (!value.ok()) return SyntaxError(token->line, Message(value.status()));
  token->text = *std::move(value);
  return end + 1;
}

StatusOr<size_t> TagLexer::LexOperator(size_t pos, Token* token) {
  static constexpr std::array<std::string_view, 26> kOperators = {
      "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
      "]",  "(",  ")",  "{",  "}",  "=",  ">", "<", ".", ":", "|", ",", ";"};
  const std::string_view rest = source_.substr(pos);
  const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                   [&](std::string_view op) { return rest.starts_with(op); });
  if (found == kOperators.end()) {
    size_t end = pos;
    NextCodePoint(source_, &end);
    return SyntaxError(token->line,
                       StrCat("unexpected char '", source_.substr(pos, end - pos), "'"));
  }
  token->kind = Token::Kind::kOperator;
  token->text = *found;
  const size_t opens = std::string_view("([{").find(token->text);
  if (opens != std::string_view::npos) open_brackets_.push_back(")]}"[opens]);
  if (token->text == ")" || token->text == "]" || token->text == "}") {
    if (open_brackets_.empty()) {
      return SyntaxError(token->line, StrCat("unexpected '", token->text, "'"));
    }
    const char expected = open_brackets_.back();
    open_brackets_.pop_back();
    if (token->text[0] != expected) {
      return SyntaxError(token->line,
                         StrCat("unexpected '", token->text, "', expected '", expected, "'"));
    }
  }
  return pos + found->size();
}

}  // namespace aril::jinja
