#include "apps/token_texts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "grammar/token_table.h"

namespace aril {
namespace {

std::string TokenText(const Tokenizer& tokenizer, int32_t token) {
  const std::string text =
      tokenizer.TokenBytes(token, /*is_first=*/false, /*skip_special_tokens=*/false);
  if (text.empty()) return "";
  if (tokenizer.IsSpecial(token)) return grammar::SpecialTokenText(text);
  // Else this one could be taken for a part of a special one.
  const bool is_special_byte =
      text.find(static_cast<char>(grammar::kSpecialTokenByte)) != std::string::npos;
  return is_special_byte ? "" : text;
}

}  // namespace

std::vector<std::string> TokenTexts(const Tokenizer& tokenizer, const ModelSpec& spec) {
  std::vector<std::string> texts(
      static_cast<size_t>(std::max(spec.vocab_size, tokenizer.vocab_size())));
  for (size_t t = 0; t < texts.size(); ++t) {
    texts[t] = TokenText(tokenizer, static_cast<int32_t>(t));
  }
  // Whether or not the tokenizer calls them special.
  std::vector<int32_t> ends = spec.eos_token_ids;
  if (const auto end = tokenizer.eos_token_id()) ends.push_back(*end);
  for (const int32_t end : ends) {
    if (end >= 0 && static_cast<size_t>(end) < texts.size()) {
      texts[static_cast<size_t>(end)].clear();
    }
  }
  return texts;
}

}  // namespace aril
