#include "jinja/token_stream.h"

#include <algorithm>

#include "base/strings.h"

namespace aril::jinja {
namespace {

// As Jinja names them.
std::string_view NameOf(Token::Kind kind) {
  switch (kind) {
    case Token::Kind::kData:
      return "template data / text";
    case Token::Kind::kVariableBegin:
      return "begin of print statement";
    case Token::Kind::kVariableEnd:
      return "end of print statement";
    case Token::Kind::kBlockBegin:
      return "begin of statement block";
    case Token::Kind::kBlockEnd:
      return "end of statement block";
    case Token::Kind::kName:
      return "name";
    case Token::Kind::kString:
      return "string";
    case Token::Kind::kInteger:
      return "integer";
    case Token::Kind::kFloat:
      return "float";
    case Token::Kind::kOperator:
      return "operator";
    case Token::Kind::kEnd:
      break;
  }
  return "end of template";
}

}  // namespace

bool TokenStream::IsAnyName(std::initializer_list<std::string_view> texts) const {
  return Is(kName) && std::find(texts.begin(), texts.end(), current().text) != texts.end();
}

Token TokenStream::Take() {
  if (pos_ + 1 == tokens_.size()) return tokens_[pos_];
  return std::move(tokens_[pos_++]);
}

void TokenStream::Skip(int count) {
  for (int i = 0; i < count; ++i) Take();
}

bool TokenStream::SkipOperator(std::string_view text) {
  if (!IsOperator(text)) return false;
  Skip();
  return true;
}

bool TokenStream::SkipName(std::string_view text) {
  if (!IsName(text)) return false;
  Skip();
  return true;
}

Status TokenStream::ExpectOperator(std::string_view text) {
  return SkipOperator(text) ? OkStatus() : Unexpected(text);
}

Status TokenStream::ExpectName(std::string_view text) {
  return SkipName(text) ? OkStatus() : Unexpected(text);
}

Status TokenStream::Expect(Token::Kind kind) {
  if (!Is(kind)) return Unexpected(NameOf(kind));
  Skip();
  return OkStatus();
}

StatusOr<std::string> TokenStream::ExpectAnyName() {
  if (!Is(kName)) return Unexpected(NameOf(kName));
  return Take().text;
}

std::string TokenStream::Describe() const {
  const bool has_text = Is(kName) || Is(kOperator);
  return has_text ? current().text : std::string(NameOf(current().kind));
}

Status TokenStream::Unexpected(std::string_view expected) const {
  if (Is(Token::Kind::kEnd)) {
    return SyntaxError(line(), StrCat("unexpected end of template, expected '", expected, "'"));
  }
  return SyntaxError(line(), StrCat("expected token '", expected, "', got '", Describe(), "'"));
}

}  // namespace aril::jinja
