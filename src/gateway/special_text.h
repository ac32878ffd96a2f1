// Special tokens in the text of a template.

#ifndef ARIL_GATEWAY_SPECIAL_TEXT_H_
#define ARIL_GATEWAY_SPECIAL_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace aril::gateway {

// All functions here are thread-safe.

// Whether an id ends texts, by the model or the tokenizer.
bool IsEnd(int32_t token, const Tokenizer& tokenizer, std::span<const int32_t> end_tokens);

// A special token, or one that ends texts, with the place of its own text.
struct PlacedToken {
  int32_t token;
  size_t at;
  std::string text;
};
std::vector<PlacedToken> FindSpecialTokens(std::string_view text, const Tokenizer& tokenizer,
                                           std::span<const int32_t> end_tokens = {});

// The first of these that one tokenizer knows and the other does not, or calls otherwise: null if
// there is none.
const int32_t* FindOwn(const std::vector<int32_t>& tokens, const Tokenizer& tokenizer,
                       const Tokenizer& other);

// With grammar::kSpecialTokenMark around each, as a grammar wants it.
std::string MarkSpecialTokens(std::string_view text, const Tokenizer& tokenizer);

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_SPECIAL_TEXT_H_
