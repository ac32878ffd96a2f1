// How a query's softmax ends. Included by the per-instruction-set code of attention only (see
// cpu/simd.h).

#ifndef ARIL_KERNELS_ATTENTION_FINAL_FACTOR_H_
#define ARIL_KERNELS_ATTENTION_FINAL_FACTOR_H_

#include "kernels/attention/attention_tile.h"
#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

// By what the values of query `number` are multiplied, whose weights, relative to the score `max`,
// have this sum. Its head's sink joins them here, whatever the order of the keys was.
ARIL_INLINE float FinalFactor(const AttentionTile& t, int64_t number, float max, float sum) {
  if (t.sinks == nullptr) return 1.0f / sum;
  const float sink = t.sinks[number % t.group];
  const float larger = sink > max ? sink : max;
  const float keep = Exp(Set(max - larger))[0];
  return keep / (sum * keep + Exp(Set(sink - larger))[0]);
}

}  // namespace
}  // namespace aril::kernels::ARIL_ISA

#endif  // ARIL_KERNELS_ATTENTION_FINAL_FACTOR_H_
