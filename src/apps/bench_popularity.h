// Which adapter each request of a load asks for: the four distributions of Punica's evaluation
// (Chen et al., MLSys 2024, section 7), S-LoRA's power law (Sheng et al., MLSys 2024, section 7.1),
// and the base model alone.

#ifndef ARIL_APPS_BENCH_POPULARITY_H_
#define ARIL_APPS_BENCH_POPULARITY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace aril {

enum class PopularityKind { kBase, kIdentical, kUniform, kSkewed, kDistinct, kPower };

struct Popularity {
  PopularityKind kind = PopularityKind::kBase;
  double alpha = 1;  // of kPower
};

// "base", "identical", "uniform", "skewed", "distinct", "power:0.3".
StatusOr<Popularity> ParsePopularity(const std::string& name);
std::string Name(const Popularity& popularity);
// Alpha is within what can be drawn.
Status Validate(const Popularity& popularity);

// How many of `num_in_flight` requests use each adapter, most popular first; empty for kBase, and
// for kPower, which promises no shares.
//   identical: one adapter.
//   uniform: ⌈√n⌉ adapters, as equally as n divides.
//   skewed: ⌊1.5^i⌋ requests for the i-th least popular, until there are n; the most popular takes
//     what is left.
//   distinct: n adapters.
std::vector<int64_t> AdapterShares(const Popularity& popularity, int64_t num_in_flight);

// For each request, the index of its adapter, or -1 for the base model. Every `num_in_flight`
// successive requests, from the first, hold the shares above, in an order drawn from `seed`.
// kDistinct goes round all adapters, so that no two of as many successive requests share one.
// kPower draws each request's adapter by itself, as S-LoRA's code does (benchmarks/trace.py): the
// index ⌊n·x⌋ with x of the density αx^(α-1) in [0, 1]. So α = 1 is uniform, and the smaller it is,
// the more requests go to the first adapters.
// InvalidArgument if there are fewer adapters than the distribution needs.
StatusOr<std::vector<int64_t>> AssignAdapters(const Popularity& popularity, int64_t num_requests,
                                              int64_t num_in_flight, int64_t num_adapters,
                                              uint64_t seed);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_POPULARITY_H_
