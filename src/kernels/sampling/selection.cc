#include "kernels/sampling/selection.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace aril::kernels {

void SelectLargest(std::span<const float> logits, int64_t count, std::vector<Candidate>* selected) {
  CHECK_GE(count, 1);
  selected->clear();
  const size_t keep = std::min(static_cast<size_t>(count), logits.size());
  // Candidates gather in a buffer of twice the wanted size, which is cut in half whenever it is
  // full. Each cut is linear and makes room for `keep` more, so that all cuts together are linear.
  const auto cut = [&] {
    std::nth_element(selected->begin(), selected->begin() + static_cast<int64_t>(keep) - 1,
                     selected->end(), Before);
    selected->resize(keep);
  };
  // A logit equal to the threshold belongs to a higher id than those already kept: it comes later.
  float threshold = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > threshold)) continue;
    selected->push_back({.token = static_cast<int32_t>(i), .logit = logits[i]});
    if (selected->size() < 2 * keep) continue;
    cut();
    threshold = selected->back().logit;
  }
  if (selected->size() > keep) cut();
  std::sort(selected->begin(), selected->end(),
            [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
}

Candidate PrefixEnd(std::span<Candidate> candidates, double target) {
  CHECK(!candidates.empty());
  // A binary search over the falling order that puts in order only what it looks at: n + n/2 + …
  while (candidates.size() > 1) {
    const size_t middle = candidates.size() / 2;
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<int64_t>(middle),
                     candidates.end(), Before);
    double sum = 0;
    for (const Candidate& candidate : candidates.first(middle)) sum += candidate.weight;
    if (sum >= target) {
      candidates = candidates.first(middle);
    } else {
      target -= sum;
      candidates = candidates.subspan(middle);
    }
  }
  return candidates[0];
}

}  // namespace aril::kernels
