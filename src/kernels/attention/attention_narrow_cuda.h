// A tile of up to 16 queries of one row, which see the same keys: the block's warps take a unit of
// each split, and bring K and V into shared memory for themselves, 16 keys at a time. Only
// attention_cuda.cu includes this.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_NARROW_CUDA_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_NARROW_CUDA_H_

#include "kernels/attention/attention_units_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

static_assert(kWarps == kUnitsOfSplit && kWarpQueries == kAttentionNarrowQueries);

// A unit's keys and its values are a warp's eight loads, so many of which are under way: 24, 48 or
// 64 KB for a block. The latency of a multiprocessor's memory times its bandwidth is about 32 KB,
// but of several blocks some have no loads under way, as they begin or end.
template <int kDim>
ARIL_DEVICE constexpr int LoadsAtATime() {
  return kDim <= 128 ? 3 : 2;
}

// Those for which a multiprocessor has registers and shared memory.
template <int kDim>
ARIL_DEVICE constexpr int NarrowBlocks() {
  return kDim <= 128 ? 4 : 2;
}

// A warp's loads; when they are used up, its unit's values: eight floats more than a row has, so
// that no two lanes of a store share a bank.
template <int kDim>
union WarpLoads {
  alignas(128) std::byte loads[LoadsAtATime<kDim>()][kStep * RowBytes<kDim>()];
  float values[kWarpQueries][kDim + 8];
};

template <int kDim>
struct NarrowShared {
  const std::byte* tokens[kWarps][kUnit];
  // Of each unit and query; keep is for what the split has from the units before.
  float max[kWarps][kWarpQueries];
  float keep[kWarps][kWarpQueries];
  float sum[kWarps][kWarpQueries];
  WarpLoads<kDim> warps[kWarps];
};

// The softmax of a query's keys; a thread has columns thread % 8 + 8 i of query thread / 8.
template <int kDim>
struct QuerySoftmax {
  float max = -kInfinity;
  float sum = 0;
  float values[kDim / 8] = {};
};

// A warp's unit, of which the queries see `keys`, on its way through shared memory.
template <int kDim>
struct UnitLoads {
  const AttentionArgs& args;
  NarrowShared<kDim>& shared;
  Keys keys;

  // Load `i` of the unit: 16 keys, or the values of 16.
  ARIL_DEVICE std::byte* Place(int i) const {
    return shared.warps[Warp()].loads[i % LoadsAtATime<kDim>()];
  }
  ARIL_DEVICE void Begin(int i) const {
    if (i < 2 * kUnitSteps) {
      const KvLayer& layer = args.layer;
      const int first = i % kUnitSteps * kStep;
      CopyRows<kDim, kStep, kWarpSize>(args, shared.tokens[Warp()] + first, keys.From(first),
                                       i < kUnitSteps ? layer.key_offset : layer.value_offset,
                                       Lane(), Place(i));
    }
    CommitCopies();
  }
  ARIL_DEVICE void BeginFirst() const {
#pragma unroll 1  // less code to fetch before the first key is asked for
    for (int i = 0; i < LoadsAtATime<kDim>(); ++i) Begin(i);
  }
  ARIL_DEVICE const std::byte* Wait(int i) const {
    WaitForCopies<LoadsAtATime<kDim>() - 1>();
    SyncWarp();
    return Place(i);
  }
  // Its place is free for another.
  ARIL_DEVICE void End(int i) const {
    SyncWarp();
    Begin(i + LoadsAtATime<kDim>());
  }
};

// Where a query begins in q or out: a tile's are heads of one row, one after the other.
ARIL_DEVICE int64_t RowQueryOffset(const AttentionArgs& args, const Work& work, int query,
                                   int64_t stride) {
  return QueryOffset(args, work, 0, stride) + query * args.layer.head_dim;
}

template <int kDim>
ARIL_DEVICE void LoadRowQueries(const AttentionArgs& args, const Work& work,
                                uint32_t (&q)[kDim / kStep][4]) {
  const int query = Lane() / 4;
  const uint16_t* first =
      reinterpret_cast<const uint16_t*>(args.q) + RowQueryOffset(args, work, query, args.q_stride);
  const uint16_t* const rows[2] = {first, first + 8 * args.layer.head_dim};
  LoadQueries<kDim>(args, rows, {query < work.tile.num_queries, query + 8 < work.tile.num_queries},
                    q);
}

// The scores of the warp's unit, which begins at token `start`.
template <typename T, int kDim, bool kCapped>
ARIL_DEVICE void ScoreUnit(const AttentionArgs& args, const Work& work, int start,
                           const UnitLoads<kDim>& loads, float (&scores)[kUnit / 8][4]) {
  const Keys keys = loads.keys;
  const std::byte* tokens[kUnit / kWarpSize];
#pragma unroll
  for (int i = 0; i < kUnit / kWarpSize; ++i) {
    tokens[i] = FindToken<T>(args, work, start + keys.Nearest(Lane() + i * kWarpSize));
  }
  uint32_t q[kDim / kStep][4];
  LoadRowQueries<kDim>(args, work, q);
#pragma unroll
  for (int i = 0; i < kUnit / kWarpSize; ++i) {
    loads.shared.tokens[Warp()][Lane() + i * kWarpSize] = tokens[i];
  }
  SyncWarp();
  loads.BeginFirst();
#pragma unroll
  for (int step = 0; step < kUnitSteps; ++step) {
    const std::byte* place = loads.Wait(step);
    ScoreKeys<T, kDim>(q, place, scores[2 * step], scores[2 * step + 1]);
    loads.End(step);
  }
  if constexpr (kCapped) CapScores(args, scores);
  if (keys.Has(0) && keys.Has(kUnit - 1)) return;
  HideUnseen({keys, keys}, scores);
}

// Its sums and values, by weights relative to the largest score of the split so far.
template <typename T, int kDim>
ARIL_DEVICE void SumUnit(const Work& work, const UnitLoads<kDim>& loads, float scale,
                         const float (&scores)[kUnit / 8][4]) {
  NarrowShared<kDim>& shared = loads.shared;
  float max[2], sums[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = Lane() / 4 + 8 * r;
    float last = -kInfinity;
#pragma unroll
    for (int w = 0; w + 1 < kWarps; ++w) {
      if (w < Warp()) last = fmaxf(last, shared.max[w][query]);
    }
    max[r] = fmaxf(last, shared.max[Warp()][query]);
    if (Lane() % 4 == 0) shared.keep[Warp()][query] = KeepFactor(last, max[r]);
  }
  uint32_t weights[kUnitSteps][4];
  WeighKeys<T>(scores, scale, max, weights);
  AddWeights<T>(weights, sums);
  if (Lane() % 4 == 0) {
    shared.sum[Warp()][Lane() / 4] = sums[0];
    shared.sum[Warp()][Lane() / 4 + 8] = sums[1];
  }
  float values[kDim / 8][4] = {};
#pragma unroll
  for (int step = 0; step < kUnitSteps; ++step) {
    const std::byte* place = loads.Wait(kUnitSteps + step);
#pragma unroll
    for (int pair = 0; pair < kDim / kStep; ++pair) {
      uint32_t first[2], second[2];
      LoadValues<kDim>(place, pair, first, second);
      T::Mma(values[2 * pair], weights[step], first);
      T::Mma(values[2 * pair + 1], weights[step], second);
    }
    loads.End(kUnitSteps + step);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = Lane() / 4 + 8 * r;
    if (query >= work.tile.num_queries) continue;
    float* row = shared.warps[Warp()].values[query] + Lane() % 4 * 2;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      row[8 * n] = values[n][2 * r];
      row[8 * n + 1] = values[n][2 * r + 1];
    }
  }
}

// The units' parts, in order: of this thread's query and columns.
template <int kDim>
ARIL_DEVICE QuerySoftmax<kDim> AddUnits(const NarrowShared<kDim>& shared, Keys keys) {
  QuerySoftmax<kDim> split;
  const int query = Quotient(ThreadIdx(), 8), col = Remainder(ThreadIdx(), 8);
#pragma unroll 1
  for (int w = 0; w < kWarps; ++w) {
    if (keys.Within(w * kUnit, kUnit).IsEmpty()) continue;
    const float keep = shared.keep[w][query];
    split.max = fmaxf(split.max, shared.max[w][query]);
    split.sum = MultiplyAdd(split.sum, keep, shared.sum[w][query]);
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      split.values[i] =
          MultiplyAdd(split.values[i], keep, shared.warps[w].values[query][col + 8 * i]);
    }
  }
  return split;
}

// Leaves the units of a split, of which the queries see `keys`, in shared memory.
template <typename T, int kDim, bool kCapped>
ARIL_DEVICE void ComputeUnits(const AttentionArgs& args, const Work& work, int split, Keys keys,
                              NarrowShared<kDim>& shared) {
  const int start = Warp() * kUnit;
  const float scale = ScoreFactor(args);
  const UnitLoads<kDim> loads{args, shared, keys.Within(start, kUnit)};
  const bool is_seen = !loads.keys.IsEmpty();
  float scores[kUnit / 8][4] = {};
  float max[2] = {-kInfinity, -kInfinity};
  if (is_seen) {
    ScoreUnit<T, kDim, kCapped>(args, work, split * kAttentionSplit + start, loads, scores);
    FindMax(scores, scale, max);
  }
  if (Lane() % 4 == 0) {
    shared.max[Warp()][Lane() / 4] = max[0];
    shared.max[Warp()][Lane() / 4 + 8] = max[1];
  }
  SyncThreads();
  if (is_seen) SumUnit<T, kDim>(work, loads, scale, scores);
  SyncThreads();
}

template <typename T, int kDim, bool kCapped>
ARIL_DEVICE void NarrowItem(const AttentionArgs& args, const Work& work,
                            NarrowShared<kDim>& shared) {
  const int query = Quotient(ThreadIdx(), 8), col = Remainder(ThreadIdx(), 8),
            head_dim = args.layer.head_dim;
  const bool is_there = query < work.tile.num_queries;
  const Keys keys = KeysOf(args, work, 0);
  QuerySoftmax<kDim> total;
#pragma unroll 1
  for (int split = work.first_split; split < work.end_split; ++split) {
    const Keys of_split = keys.Within(split * kAttentionSplit, kAttentionSplit);
    if (split > work.first_split) SyncThreads();  // the last one's units are no longer needed
    ComputeUnits<T, kDim, kCapped>(args, work, split, of_split, shared);
    if (!is_there) continue;
    const QuerySoftmax<kDim> part = AddUnits<kDim>(shared, of_split);
    if (!work.IsWhole()) {
      float* partial = Partial(args, work, split, query);
      if (col == 0) {
        partial[0] = part.max;
        partial[1] = part.sum;
      }
#pragma unroll
      for (int i = 0; i < kDim / 8; ++i) {
        if (col + 8 * i < head_dim) partial[2 + col + 8 * i] = part.values[i];
      }
      continue;
    }
    const MergeFactors factors = FactorsOf(total.max, part.max);
    total.max = factors.max;
    total.sum = Merged(total.sum, part.sum, factors);
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      total.values[i] = Merged(total.values[i], part.values[i], factors);
    }
  }
  if (!is_there || !work.IsWhole()) return;
  auto* out =
      reinterpret_cast<uint16_t*>(args.out) + RowQueryOffset(args, work, query, args.out_stride);
  const float factor = FinalFactor(args, work, query, total.max, total.sum);
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
    if (col + 8 * i < head_dim) out[col + 8 * i] = T::Narrow(total.values[i] * factor);
  }
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_NARROW_CUDA_H_
