#include "gateway/special_text.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "grammar/free_text.h"

namespace aril::gateway {

bool IsEnd(int32_t token, const Tokenizer& tokenizer, std::span<const int32_t> end_tokens) {
  return std::ranges::find(end_tokens, token) != end_tokens.end() ||
         tokenizer.eos_token_id() == token;
}

std::vector<PlacedToken> FindSpecialTokens(std::string_view text, const Tokenizer& tokenizer,
                                           std::span<const int32_t> end_tokens) {
  std::vector<PlacedToken> placed;
  size_t from = 0;
  for (const int32_t token :
       tokenizer.Encode(text, {.add_special_tokens = false, .parse_special_tokens = true})) {
    if (!tokenizer.IsSpecial(token) && !IsEnd(token, tokenizer, end_tokens)) continue;
    std::string bytes =
        tokenizer.TokenBytes(token, /*is_first=*/false, /*skip_special_tokens=*/false);
    const size_t at = bytes.empty() ? std::string_view::npos : text.find(bytes, from);
    if (at == std::string_view::npos) continue;
    from = at + bytes.size();
    placed.push_back({.token = token, .at = at, .text = std::move(bytes)});
  }
  return placed;
}

const int32_t* FindOwn(const std::vector<int32_t>& tokens, const Tokenizer& tokenizer,
                       const Tokenizer& other) {
  if (&tokenizer == &other) return nullptr;
  const auto text = [](const Tokenizer& of, int32_t token) {
    return of.TokenBytes(token, /*is_first=*/false, /*skip_special_tokens=*/false);
  };
  const auto own = std::ranges::find_if(tokens, [&](int32_t token) {
    return tokenizer.IsSpecial(token) != other.IsSpecial(token) ||
           text(tokenizer, token) != text(other, token);
  });
  return own == tokens.end() ? nullptr : &*own;
}

std::string MarkSpecialTokens(std::string_view text, const Tokenizer& tokenizer) {
  std::string marked;
  size_t from = 0;
  for (const PlacedToken& special : FindSpecialTokens(text, tokenizer)) {
    marked += StrCat(text.substr(from, special.at - from), grammar::kSpecialTokenMark, special.text,
                     grammar::kSpecialTokenMark);
    from = special.at + special.text.size();
  }
  return marked + std::string(text.substr(from));
}

}  // namespace aril::gateway
