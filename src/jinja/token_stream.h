// The parser's view of the tokens: one at a time, with one of look-ahead.

#ifndef ARIL_JINJA_TOKEN_STREAM_H_
#define ARIL_JINJA_TOKEN_STREAM_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "jinja/token.h"

namespace aril::jinja {

class TokenStream {
 public:
  // The last token must be kEnd.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[pos_]; }
  const Token& next() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  int line() const { return current().line; }

  bool Is(Token::Kind kind) const { return current().kind == kind; }
  bool IsOperator(std::string_view text) const { return Matches(current(), text, kOperator); }
  bool IsName(std::string_view text) const { return Matches(current(), text, kName); }
  bool IsAnyName(std::initializer_list<std::string_view> texts) const;
  bool NextIsOperator(std::string_view text) const { return Matches(next(), text, kOperator); }
  bool NextIsName(std::string_view text) const { return Matches(next(), text, kName); }

  // Moves on; the end stays.
  Token Take();
  void Skip(int count = 1);
  // Moves on if the current token is this one.
  bool SkipOperator(std::string_view text);
  bool SkipName(std::string_view text);

  Status ExpectOperator(std::string_view text);
  Status ExpectName(std::string_view text);
  Status Expect(Token::Kind kind);
  StatusOr<std::string> ExpectAnyName();

  // "line 3: expected token 'end of statement block', got 'x'".
  Status Unexpected(std::string_view expected) const;
  // How errors name the current token.
  std::string Describe() const;

 private:
  static constexpr Token::Kind kOperator = Token::Kind::kOperator;
  static constexpr Token::Kind kName = Token::Kind::kName;
  static bool Matches(const Token& token, std::string_view text, Token::Kind kind) {
    return token.kind == kind && token.text == text;
  }

  std::vector<Token> tokens_;
  size_t pos_ = 0;
};

}  // namespace aril::jinja

#endif  // ARIL_JINJA_TOKEN_STREAM_H_
