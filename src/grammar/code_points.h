// Sets of code points, as sorted ranges.

#ifndef ARIL_GRAMMAR_CODE_POINTS_H_
#define ARIL_GRAMMAR_CODE_POINTS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace aril::grammar {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// Code points [first, last].
using CodePointRange = std::pair<uint32_t, uint32_t>;

// Sorts the ranges, and joins those that touch.
inline std::vector<CodePointRange> Normalized(std::vector<CodePointRange> ranges) {
  std::ranges::sort(ranges);
  std::vector<CodePointRange> joined;
  for (const auto& [first, last] : ranges) {
    if (!joined.empty() && first <= joined.back().second + 1) {
      joined.back().second = std::max(joined.back().second, last);
    } else {
      joined.emplace_back(first, last);
    }
  }
  return joined;
}

// All other code points. `ranges` are normalized, and so is what is returned.
inline std::vector<CodePointRange> Complement(const std::vector<CodePointRange>& ranges) {
  std::vector<CodePointRange> others;
  uint32_t from = 0;
  for (const auto& [first, last] : ranges) {
    if (first > from) others.emplace_back(from, first - 1);
    from = last + 1;
  }
  if (from <= kMaxCodePoint) others.emplace_back(from, kMaxCodePoint);
  return others;
}

}  // namespace aril::grammar

#endif  // ARIL_GRAMMAR_CODE_POINTS_H_
