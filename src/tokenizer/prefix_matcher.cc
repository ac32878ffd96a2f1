#include "tokenizer/prefix_matcher.h"

#include <algorithm>

namespace aril {

PrefixMatcher::PrefixMatcher(std::vector<std::pair<std::string, int32_t>> words)
    : words_(std::move(words)) {
  std::erase_if(words_, [](const auto& word) { return word.first.empty(); });
  std::stable_sort(words_.begin(), words_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  words_.erase(std::unique(words_.begin(), words_.end(), same), words_.end());
  for (const auto& [word, value] : words_) is_first_byte_[static_cast<uint8_t>(word[0])] = true;
}

PrefixMatcher::Match PrefixMatcher::LongestAt(std::string_view text, size_t pos) const {
  if (pos >= text.size() || !is_first_byte_[static_cast<uint8_t>(text[pos])]) return {};
  Match longest;
  auto low = words_.begin();
  auto high = words_.end();
  for (size_t depth = 0; pos + depth < text.size(); ++depth) {
    // All of [low, high) share the first `depth` bytes; a word that ends there sorts first.
    const int wanted = static_cast<uint8_t>(text[pos + depth]);
    const auto byte_of = [depth](const auto& word) {
      return word.first.size() == depth ? -1 : static_cast<int>(uint8_t(word.first[depth]));
    };
    low = std::partition_point(low, high, [&](const auto& w) { return byte_of(w) < wanted; });
    high = std::partition_point(low, high, [&](const auto& w) { return byte_of(w) == wanted; });
    if (low == high) break;
    if (low->first.size() == depth + 1) longest = {depth + 1, low->second};
  }
  return longest;
}

}  // namespace aril
