// Marks of a prompt's beginnings, by which it can be told which prompts begin alike without knowing
// their tokens.

#ifndef ARIL_WIRE_PREFIX_MARKS_H_
#define ARIL_WIRE_PREFIX_MARKS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/adapter_mix.h"

namespace aril::wire {

// A hash of a prompt's first tokens, and of what else their K and V depend on: the adapters that
// apply to them. Two that differ have equal marks with a probability of 2^-64, or because somebody
// made them so, which is easy: marks of one tenant mean nothing for another.
using PrefixMark = uint64_t;

// So far reach marks: 131,072 tokens.
inline constexpr size_t kMaxPrefixMarks = 128;

// How many tokens mark `index` (below kMaxPrefixMarks) is of: every 64th up to 2,048, and from
// there on every sixteenth of the power of two below. So what two prompts have in common is known
// to 64 tokens or to a sixteenth.
int64_t PrefixDepth(size_t index);

// Those of `prompt`, from the shortest beginning to the longest that is no longer than it.
std::vector<PrefixMark> MarkPrefixes(std::span<const AdapterFrom> adapters,
                                     std::span<const int32_t> prompt);

}  // namespace aril::wire

#endif  // ARIL_WIRE_PREFIX_MARKS_H_
