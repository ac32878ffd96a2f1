// Parts of a row of logits in falling order, found without sorting the row.
//
// "Falling order" is the one order used throughout sampling: larger logits first, lower ids first
// among equal logits.

#ifndef ARIL_KERNELS_SAMPLING_SELECTION_H_
#define ARIL_KERNELS_SAMPLING_SELECTION_H_

#include <cstdint>
#include <span>
#include <vector>

namespace aril::kernels {

struct Candidate {
  int32_t token = -1;
  float logit = 0;
  float weight = 0;  // proportional to the probability
};

// True if `a` comes before `b` in falling order. A strict weak order unless a logit is NaN.
inline bool Before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Sets `*selected` to the first `count` ≥ 1 tokens of `logits` in falling order, sorted by id, with
// weight 0. NaN and -inf are left out, so that there may be fewer. Linear in the vocabulary plus
// count·log(count).
void SelectLargest(std::span<const float> logits, int64_t count, std::vector<Candidate>* selected);

// The last candidate of the shortest prefix, in falling order, whose weights sum to at least
// `target`; the very last one if no prefix does. Reorders `candidates`, of which there is at least
// one. Linear.
Candidate PrefixEnd(std::span<Candidate> candidates, double target);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_SAMPLING_SELECTION_H_
