// The adapters that apply to one sequence, and how strongly.

#ifndef ARIL_BASE_ADAPTER_MIX_H_
#define ARIL_BASE_ADAPTER_MIX_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace aril {

// y += weight · scale · x Aᵀ Bᵀ
struct AdapterUse {
  AdapterId id;
  float weight = 1;  // finite

  friend auto operator<=>(const AdapterUse&, const AdapterUse&) = default;
};

// No adapter twice; empty: the base model alone. What a sequence computes depends on the order, in
// which contributions are added.
using AdapterMix = std::vector<AdapterUse>;

// A use of an adapter that may begin within a sequence: with this of its tokens. What is before is
// as without it.
struct AdapterFrom {
  AdapterUse use;
  int64_t first_token = 0;

  friend auto operator<=>(const AdapterFrom&, const AdapterFrom&) = default;
};

// One adapter as it is; or the base model.
inline AdapterMix MixOf(AdapterId id) {
  return id == kBaseModel ? AdapterMix() : AdapterMix{{.id = id}};
}

inline bool Uses(const AdapterMix& mix, AdapterId id) {
  return std::ranges::any_of(mix, [id](const AdapterUse& use) { return use.id == id; });
}

}  // namespace aril

#endif  // ARIL_BASE_ADAPTER_MIX_H_
