// A tile of up to 64 queries of several rows: the block's warps take 16 each, and share a unit's
// keys and values in shared memory. Values come while scores are computed, the next keys while
// values are. Only attention_cuda.cu includes this.
//
// Most units are seen as a whole by all queries of a warp. Of the others (those at the ends of what
// is seen), each query's part has the same bits as alone: what it does not see has no score, and a
// weight of zero; a query that sees nothing of the unit stays as it was; and where zero times a
// value is no number, the unit's values are computed again for each query, without those that it
// does not see.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_WIDE_CUDA_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_WIDE_CUDA_H_

#include "kernels/attention/attention_units_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

static_assert(kWarps * kWarpQueries == kAttentionWideQueries);

template <int kDim>
struct WideShared {
  const std::byte* tokens[2][kUnit];  // of this unit and the next
  alignas(128) std::byte keys[kUnit * RowBytes<kDim>()];
  std::byte values[kUnit * RowBytes<kDim>()];
  // Each thread's own: the values of the splits before, which registers have no room for.
  Float4 totals[kDim / 8][kThreads];
};

// The softmax of the split so far, of queries g and g + 8.
template <int kDim>
struct WarpSoftmax {
  float max[2] = {-kInfinity, -kInfinity};
  float sum[2] = {};
  float values[kDim / 8][4] = {};
};

// A warp's queries, and what they see.
struct WarpRows {
  int first_query;
  Keys seen[2];  // by g and g + 8; nothing, beyond the tile's last query
  Keys by_any;
  Keys by_all;  // of the tile's queries among them
};

ARIL_DEVICE WarpRows MakeWarpRows(const AttentionArgs& args, const Work& work) {
  WarpRows rows;
  rows.first_query = Warp() * kWarpQueries;
  rows.by_any = rows.by_all = {0, 0};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = rows.first_query + Lane() / 4 + 8 * r;
    rows.seen[r] = query < work.tile.num_queries ? KeysOf(args, work, query) : Keys{0, 0};
  }
  if (rows.first_query < work.tile.num_queries) {
    const int last = Min(rows.first_query + kWarpQueries, work.tile.num_queries) - 1;
    const Keys first_seen = KeysOf(args, work, rows.first_query);
    const Keys last_seen = KeysOf(args, work, last);
    rows.by_any = {first_seen.first, last_seen.end};
    rows.by_all = {last_seen.first, first_seen.end};
  }
  return rows;
}

template <int kDim>
ARIL_DEVICE void LoadWarpQueries(const AttentionArgs& args, const Work& work, const WarpRows& rows,
                                 uint32_t (&q)[kDim / kStep][4]) {
  const uint16_t* queries[2];
  bool are_there[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = rows.first_query + Lane() / 4 + 8 * r;
    are_there[r] = query < work.tile.num_queries;
    queries[r] = reinterpret_cast<const uint16_t*>(args.q) +
                 QueryOffset(args, work, are_there[r] ? query : 0, args.q_stride);
  }
  LoadQueries<kDim>(args, queries, are_there, q);
}

// Finds a unit's tokens, a thread one of them; for those beyond the tile's `keys`, another.
template <typename T>
ARIL_DEVICE void FindUnit(const AttentionArgs& args, const Work& work, int unit, Keys keys,
                          const std::byte* (&tokens)[kUnit]) {
  static_assert(kUnit <= kThreads);
  if (ThreadIdx() >= kUnit) return;
  tokens[ThreadIdx()] = FindToken<T>(args, work, keys.Nearest(unit * kUnit + ThreadIdx()));
}

// kPairs times 16 columns of a unit's values from 16 · pair on, weighted and added. What is not in
// `seen` of the unit, if that is not null, is left out.
template <typename T, int kDim, int kPairs>
ARIL_DEVICE void MultiplyValues(const std::byte* values, const uint32_t (&weights)[kUnitSteps][4],
                                int pair, const Keys* seen, float (&sums)[2 * kPairs][4]) {
#pragma unroll
  for (int n = 0; n < 2 * kPairs; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[n][i] = 0;
  }
#pragma unroll
  for (int step = 0; step < kUnitSteps; ++step) {
    uint32_t v[2 * kPairs][2];
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      LoadValues<kDim>(values + step * kStep * RowBytes<kDim>(), pair + p, v[2 * p], v[2 * p + 1]);
    }
#pragma unroll
    for (int n = 0; n < 2 * kPairs; ++n) {
      if (seen != nullptr) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int key = step * kStep + Lane() % 4 * 2 + 8 * i;
          if (!seen->Has(key)) v[n][i] &= 0xFFFF0000u;
          if (!seen->Has(key + 1)) v[n][i] &= 0xFFFFu;
        }
      }
      T::Mma(sums[n], weights[step], v[n]);
    }
  }
}

ARIL_DEVICE bool AreNumbers(const float (&sums)[2][4]) {
  bool all = true;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) all = all && fabsf(sums[n][i]) < kInfinity;
  }
  return all;
}

// Computes again what came out of values that are not finite, query by query.
template <typename T, int kDim>
ARIL_DEVICE void MultiplySeenValues(const AttentionArgs& args, const Work& work,
                                    const WarpRows& rows, int start, const std::byte* values,
                                    const uint32_t (&weights)[kUnitSteps][4], int pair,
                                    float (&sums)[2][4]) {
#pragma unroll 1
  for (int query = 0; query < kWarpQueries; ++query) {
    if (rows.first_query + query >= work.tile.num_queries) break;
    const Keys seen = KeysOf(args, work, rows.first_query + query).Within(start, kUnit);
    float of_query[2][4];
    MultiplyValues<T, kDim, 1>(values, weights, pair, &seen, of_query);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (Lane() / 4 + i / 2 * 8 == query) sums[n][i] = of_query[n][i];
      }
    }
  }
}

// Adds a unit to the split. kWhole: all queries see all of it.
template <typename T, int kDim, bool kWhole>
ARIL_DEVICE void AddUnit(const AttentionArgs& args, const Work& work, const WarpRows& rows,
                         int start, const std::byte* values, float (&scores)[kUnit / 8][4],
                         WarpSoftmax<kDim>& split) {
  const float scale = ScoreFactor(args);
  const Keys seen[2] = {rows.seen[0].Within(start, kUnit), rows.seen[1].Within(start, kUnit)};
  if constexpr (!kWhole) HideUnseen(seen, scores);
  float max[2], keep[2], sums[2];
  FindMax(scores, scale, max);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float last = split.max[r];
    split.max[r] = fmaxf(last, max[r]);
    keep[r] = KeepFactor(last, split.max[r]);
  }
  uint32_t weights[kUnitSteps][4];
  WeighKeys<T>(scores, scale, split.max, weights);
  AddWeights<T>(weights, sums);
  const auto add = [&](int r, float of_unit, float& to) {
    const float sum = MultiplyAdd(to, keep[r], of_unit);
    if (kWhole || !seen[r].IsEmpty()) to = sum;
  };
  add(0, sums[0], split.sum[0]);
  add(1, sums[1], split.sum[1]);
  // Two pairs at a time, where registers suffice: four sums are under way in the tensor core then.
  constexpr int kPairs = kWhole ? 2 : 1;
#pragma unroll
  for (int pair = 0; pair < kDim / kStep; pair += kPairs) {
    float of_unit[2 * kPairs][4];
    MultiplyValues<T, kDim, kPairs>(values, weights, pair, nullptr, of_unit);
    if constexpr (!kWhole) {
      if (AnyInWarp(!AreNumbers(of_unit))) {
        MultiplySeenValues<T, kDim>(args, work, rows, start, values, weights, pair, of_unit);
      }
    }
#pragma unroll
    for (int n = 0; n < 2 * kPairs; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) add(i / 2, of_unit[n][i], split.values[2 * pair + n][i]);
    }
  }
}

// The softmax of the splits before; their values are in shared memory.
struct Totals {
  float max[2] = {-kInfinity, -kInfinity};
  float sum[2] = {};
};

template <int kDim>
ARIL_DEVICE void MergeSplit(const WarpSoftmax<kDim>& part, const bool (&sees)[2], Totals& total,
                            WideShared<kDim>& shared) {
  MergeFactors factors[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    factors[r] = FactorsOf(total.max[r], part.max[r]);
    if (!sees[r]) continue;
    total.max[r] = factors[r].max;
    total.sum[r] = Merged(total.sum[r], part.sum[r], factors[r]);
  }
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) {
    Float4& values = shared.totals[n][ThreadIdx()];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float merged = Merged(values.values[i], part.values[n][i], factors[i / 2]);
      if (sees[i / 2]) values.values[i] = merged;
    }
  }
}

template <int kDim>
ARIL_DEVICE void WritePartials(const AttentionArgs& args, const Work& work, int split,
                               const WarpRows& rows, const WarpSoftmax<kDim>& part,
                               const bool (&sees)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (!sees[r]) continue;
    float* partial = Partial(args, work, split, rows.first_query + Lane() / 4 + 8 * r);
    if (Lane() % 4 == 0) {
      partial[0] = part.max[r];
      partial[1] = part.sum[r];
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const int d = 8 * n + Lane() % 4 * 2;
      if (d >= args.layer.head_dim) continue;
      partial[2 + d] = part.values[n][2 * r];
      partial[3 + d] = part.values[n][2 * r + 1];
    }
  }
}

template <typename T, int kDim>
ARIL_DEVICE void WriteOut(const AttentionArgs& args, const Work& work, const WarpRows& rows,
                          const Totals& total, const WideShared<kDim>& shared) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = rows.first_query + Lane() / 4 + 8 * r;
    if (query >= work.tile.num_queries) continue;
    auto* out = reinterpret_cast<uint32_t*>(reinterpret_cast<uint16_t*>(args.out) +
                                            QueryOffset(args, work, query, args.out_stride));
    const float factor = FinalFactor(args, work, query, total.max[r], total.sum[r]);
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const int d = 8 * n + Lane() % 4 * 2;
      if (d >= args.layer.head_dim) continue;
      const float* values = shared.totals[n][ThreadIdx()].values + 2 * r;
      out[d / 2] = T::Narrow(values[0] * factor) |
                   static_cast<uint32_t>(T::Narrow(values[1] * factor)) << 16;
    }
  }
}

template <typename T, int kDim, bool kCapped>
ARIL_DEVICE void WideItem(const AttentionArgs& args, const Work& work, WideShared<kDim>& shared) {
  const WarpRows rows = MakeWarpRows(args, work);
  const Keys keys = {KeysOf(args, work, 0).first,
                     KeysOf(args, work, work.tile.num_queries - 1).end};
  const int first_unit = Max(work.first_split * kUnitsOfSplit, keys.first / kUnit);
  const int end_unit = Min(work.end_split * kUnitsOfSplit, (keys.end + kUnit - 1) / kUnit);
  const auto load = [&](int unit, int64_t offset, std::byte* to) {
    CopyRows<kDim, kUnit, kThreads>(args, shared.tokens[unit % 2], keys.From(unit * kUnit), offset,
                                    ThreadIdx(), to);
    CommitCopies();
  };
  uint32_t q[kDim / kStep][4];
  LoadWarpQueries<kDim>(args, work, rows, q);
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) shared.totals[n][ThreadIdx()] = {};
  FindUnit<T>(args, work, first_unit, keys, shared.tokens[first_unit % 2]);
  SyncThreads();
  load(first_unit, args.layer.key_offset, shared.keys);
  Totals total;
  WarpSoftmax<kDim> split;
#pragma unroll 1
  for (int unit = first_unit; unit < end_unit; ++unit) {
    const int start = unit * kUnit;
    const bool is_seen = !rows.by_any.Within(start, kUnit).IsEmpty();
    WaitForCopies<0>();
    SyncThreads();  // the keys are there; the last unit's values are no longer needed
    load(unit, args.layer.value_offset, shared.values);
    if (unit + 1 < end_unit) {
      FindUnit<T>(args, work, unit + 1, keys, shared.tokens[(unit + 1) % 2]);
    }
    float scores[kUnit / 8][4] = {};
    if (is_seen) {
#pragma unroll
      for (int step = 0; step < kUnitSteps; ++step) {
        ScoreKeys<T, kDim>(q, shared.keys + step * kStep * RowBytes<kDim>(), scores[2 * step],
                           scores[2 * step + 1]);
      }
      if constexpr (kCapped) CapScores(args, scores);
    }
    WaitForCopies<0>();
    SyncThreads();  // the values are there; the keys are no longer needed
    if (unit + 1 < end_unit) load(unit + 1, args.layer.key_offset, shared.keys);
    if (is_seen && rows.by_all.first <= start && start + kUnit <= rows.by_all.end) {
      AddUnit<T, kDim, true>(args, work, rows, start, shared.values, scores, split);
    } else if (is_seen) {
      AddUnit<T, kDim, false>(args, work, rows, start, shared.values, scores, split);
    }
    if (unit % kUnitsOfSplit + 1 < kUnitsOfSplit && unit + 1 < end_unit) continue;
    const int at = unit / kUnitsOfSplit;
    const bool sees[2] = {!rows.seen[0].Within(at * kAttentionSplit, kAttentionSplit).IsEmpty(),
                          !rows.seen[1].Within(at * kAttentionSplit, kAttentionSplit).IsEmpty()};
    if (work.IsWhole()) {
      MergeSplit<kDim>(split, sees, total, shared);
    } else {
      WritePartials<kDim>(args, work, at, rows, split, sees);
    }
    split = {};
  }
  if (work.IsWhole()) WriteOut<T, kDim>(args, work, rows, total, shared);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_WIDE_CUDA_H_
