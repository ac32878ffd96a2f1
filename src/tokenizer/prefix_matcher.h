// Finds the longest of a fixed set of words at a position of a text.

#ifndef ARIL_TOKENIZER_PREFIX_MATCHER_H_
#define ARIL_TOKENIZER_PREFIX_MATCHER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace aril {

// Immutable. The words are kept sorted, and a search narrows the range of words that share the
// prefix read so far: no nodes, no pointers, O(length · log words) per position; most positions end
// at the table of first bytes.
class PrefixMatcher {
 public:
  struct Match {
    size_t size_bytes = 0;  // 0: no word stands here
    int32_t value = -1;
  };

  PrefixMatcher() = default;
  // Of equal words the first one wins; empty words are left out.
  explicit PrefixMatcher(std::vector<std::pair<std::string, int32_t>> words);

  bool empty() const { return words_.empty(); }

  // The longest word that text[pos…] begins with.
  Match LongestAt(std::string_view text, size_t pos) const;

 private:
  std::vector<std::pair<std::string, int32_t>> words_;  // sorted, distinct, not empty
  std::array<bool, 256> is_first_byte_{};
};

}  // namespace aril

#endif  // ARIL_TOKENIZER_PREFIX_MATCHER_H_
