// What the kernels of attention share: which keys a query sees, how softmaxes of parts of them are
// merged, and where results go. Only attention_cuda.cu includes this.
//
// Scores are in units of ln 2, so that weights are powers of two.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_SOFTMAX_CUDA_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_SOFTMAX_CUDA_H_

#include <math.h>

#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/reduce.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

constexpr int kThreads = 128;  // of a block
constexpr int kWarps = kThreads / kWarpSize;
constexpr float kInfinity = __builtin_inff();
constexpr float kLog2E = 1.44269504f;

ARIL_DEVICE int Min(int a, int b) { return a < b ? a : b; }
ARIL_DEVICE int Max(int a, int b) { return a > b ? a : b; }

// Unsigned, as what may be negative takes several instructions to divide, even by a power of two.
ARIL_DEVICE int Quotient(int a, int b) {
  return static_cast<int>(static_cast<uint32_t>(a) / static_cast<uint32_t>(b));
}
ARIL_DEVICE int Remainder(int a, int b) {
  return static_cast<int>(static_cast<uint32_t>(a) % static_cast<uint32_t>(b));
}
ARIL_DEVICE int Lane() { return Remainder(ThreadIdx(), kWarpSize); }
ARIL_DEVICE int Warp() { return Quotient(ThreadIdx(), kWarpSize); }

// What a block works on: an item of the tables, for one of the K and V heads.
struct Work {
  AttentionDeviceTile tile;
  int first_split;
  int end_split;
  int kv_head;
  int group;  // heads that share it

  ARIL_DEVICE bool IsWhole() const { return tile.first_partial < 0; }
};

// A product of a query and a key, scaled and capped: where there is a cap.
ARIL_DEVICE float CapScore(const AttentionArgs& args, float score) {
  return args.softcap * tanhf(score * (args.scale / args.softcap));
}

// By what scores are still to be multiplied then, or where there is none.
ARIL_DEVICE float ScoreFactor(const AttentionArgs& args) {
  return args.softcap > 0 ? kLog2E : args.scale * kLog2E;
}

// Keys [first, end), at absolute positions or from the beginning of a unit or split.
struct Keys {
  int first;
  int end;

  ARIL_DEVICE bool IsEmpty() const { return first >= end; }
  ARIL_DEVICE bool Has(int key) const { return first <= key && key < end; }
  // The key, or else the nearest to it that is among these, which are not empty.
  ARIL_DEVICE int Nearest(int key) const { return Min(Max(key, first), end - 1); }
  // Counted from `start` on.
  ARIL_DEVICE Keys From(int start) const { return {first - start, end - start}; }
  // Those of the `size` from `start` on, counted from there.
  ARIL_DEVICE Keys Within(int start, int size) const {
    return {Max(first - start, 0), Min(end - start, size)};
  }
};

// What a query of the tile sees.
ARIL_DEVICE Keys KeysOf(const AttentionArgs& args, const Work& work, int query) {
  const int end = static_cast<int>(work.tile.first_position) +
                  Quotient(work.tile.first_query + query, work.group) + 1;
  return {end > args.window ? end - static_cast<int>(args.window) : 0, end};
}

// Of a query, in q or out, its first element's place.
ARIL_DEVICE int64_t QueryOffset(const AttentionArgs& args, const Work& work, int query,
                                int64_t stride) {
  const int number = work.tile.first_query + query;
  return (work.tile.first_row + Quotient(number, work.group)) * stride +
         (work.kv_head * work.group + Remainder(number, work.group)) * args.layer.head_dim;
}

// The token's key or value but for their offset in a page.
template <typename T>
ARIL_DEVICE const std::byte* FindToken(const AttentionArgs& args, const Work& work, int token) {
  const KvLayer& layer = args.layer;
  const int page = Quotient(token, layer.page_tokens);
  const auto row = static_cast<uint32_t>(Remainder(token, layer.page_tokens) * layer.head_dim);
  return work.tile.pages[page] + work.kv_head * layer.block_bytes +
         row * sizeof(typename T::Element);
}

// How two softmaxes become one, whose largest score is `max`.
struct MergeFactors {
  float max;
  float keep;
  float take;
};
ARIL_DEVICE MergeFactors FactorsOf(float total_max, float max) {
  const float larger = fmaxf(total_max, max);
  return {larger, exp2f(total_max - larger), exp2f(max - larger)};
}
// The one place where splits are merged: for sums of weights, and of weighted values.
ARIL_DEVICE float Merged(float total, float of_split, const MergeFactors& factors) {
  return MultiplyAdd(total, factors.keep, of_split * factors.take);
}

// By what a query's values are multiplied at the end: its head's sink joins the weights as a last
// split would, that has no values.
ARIL_DEVICE float FinalFactor(const AttentionArgs& args, const Work& work, int query, float max,
                              float sum) {
  if (args.sinks == nullptr) return 1 / sum;
  const int of_group = Remainder(work.tile.first_query + query, work.group);
  const MergeFactors factors =
      FactorsOf(max, args.sinks[work.kv_head * work.group + of_group] * kLog2E);
  return factors.keep / Merged(sum, 1, factors);
}

// [max, sum, values] of a split and a query.
ARIL_DEVICE float* Partial(const AttentionArgs& args, const Work& work, int split, int query) {
  const AttentionDeviceTile& tile = work.tile;
  const int64_t index = tile.first_partial + (split - tile.first_split) * tile.num_queries + query;
  return args.partials +
         (index * args.layer.num_kv_heads + work.kv_head) * (args.layer.head_dim + 2);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_SOFTMAX_CUDA_H_
