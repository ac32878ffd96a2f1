// A tile of up to 8 queries of one row in F32, without tensor cores, which have not so many bits.
// For scores, a warp takes a key at a time, its lanes the elements; for values, a thread takes one
// or two elements of a query, for all keys. Only attention_cuda.cu includes this.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_F32_CUDA_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_F32_CUDA_H_

#include "kernels/attention/attention_softmax_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

constexpr int kLaneElements = kAttentionMaxHeadDim / kWarpSize;
constexpr int kThreadElements = kAttentionMaxHeadDim / kThreads;
constexpr int kTogether = 8;  // tokens whose values are on their way at a time

struct F32Shared {
  const std::byte* tokens[kAttentionSplit];  // where those of the split begin, but for their offset
  float q[kAttentionF32Queries][kAttentionMaxHeadDim];
  float weights[kAttentionF32Queries][kAttentionSplit];  // scores, then exp(score - max)
  float max[kAttentionF32Queries];
  float sum[kAttentionF32Queries];
};

// The softmax of some keys: of each query, the largest score, the sum of the weights relative to
// it, and the values so weighted, of elements thread + 128 e. All threads have the same max and
// sum.
struct F32Softmax {
  float max[kAttentionF32Queries];
  float sum[kAttentionF32Queries];
  float values[kAttentionF32Queries][kThreadElements];
};

ARIL_DEVICE F32Softmax NoKeys() {
  F32Softmax none;
#pragma unroll
  for (int q = 0; q < kAttentionF32Queries; ++q) {
    none.max[q] = -kInfinity;
    none.sum[q] = 0;
#pragma unroll
    for (int e = 0; e < kThreadElements; ++e) none.values[q][e] = 0;
  }
  return none;
}

// The key, or the value, of token `i` of the split.
ARIL_DEVICE const float* TokenRow(const F32Shared& shared, int64_t offset, int i) {
  return reinterpret_cast<const float*>(shared.tokens[i] + offset);
}

ARIL_DEVICE void ScoreF32(const AttentionArgs& args, const Work& work, Keys keys,
                          F32Shared& shared) {
  const int lane = ThreadIdx() % kWarpSize, head_dim = args.layer.head_dim;
  for (int i = keys.first + ThreadIdx() / kWarpSize; i < keys.end; i += kWarps) {
    float k[kLaneElements];
    LoadStrided<kWarpSize>(TokenRow(shared, args.layer.key_offset, i), lane, head_dim, k);
    for (int q = 0; q < work.tile.num_queries; ++q) {
      float score = 0;
#pragma unroll
      for (int e = 0; e < kLaneElements; ++e) {
        const int d = lane + e * kWarpSize;
        if (d < head_dim) score = MultiplyAdd(shared.q[q][d], k[e], score);
      }
      score = WarpSum(score);
      if (args.softcap > 0) score = CapScore(args, score);
      if (lane == 0) shared.weights[q][i] = score * ScoreFactor(args);
    }
  }
}

// Scores become weights, a warp for each query. A key's place in its split decides on which lane it
// is, not where the visible ones begin.
ARIL_DEVICE void WeighF32(const Work& work, Keys keys, F32Shared& shared) {
  const int lane = ThreadIdx() % kWarpSize;
  for (int q = ThreadIdx() / kWarpSize; q < work.tile.num_queries; q += kWarps) {
    float max = -kInfinity;
    for (int i = lane; i < keys.end; i += kWarpSize) {
      if (i >= keys.first) max = fmaxf(max, shared.weights[q][i]);
    }
    max = WarpMax(max);
    float sum = 0;
    for (int i = lane; i < keys.end; i += kWarpSize) {
      if (i < keys.first) continue;
      const float weight = exp2f(shared.weights[q][i] - max);
      shared.weights[q][i] = weight;
      sum += weight;
    }
    sum = WarpSum(sum);
    if (lane == 0) {
      shared.max[q] = max;
      shared.sum[q] = sum;
    }
  }
}

// softmax.values += the weighted values of the keys, one after the other.
ARIL_DEVICE void AddValuesF32(const AttentionArgs& args, const Work& work, Keys keys,
                              const F32Shared& shared, F32Softmax& softmax) {
  for (int begin = keys.first; begin < keys.end; begin += kTogether) {
    float values[kTogether][kThreadElements];
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      const float* row =
          begin + t < keys.end ? TokenRow(shared, args.layer.value_offset, begin + t) : nullptr;
      LoadStrided<kThreads>(row, ThreadIdx(), row == nullptr ? 0 : args.layer.head_dim, values[t]);
    }
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      if (begin + t >= keys.end) break;
#pragma unroll
      for (int q = 0; q < kAttentionF32Queries; ++q) {
        if (q >= work.tile.num_queries) continue;
        const float weight = shared.weights[q][begin + t];
#pragma unroll
        for (int e = 0; e < kThreadElements; ++e) {
          softmax.values[q][e] = MultiplyAdd(weight, values[t][e], softmax.values[q][e]);
        }
      }
    }
  }
}

// The softmax of one split, of which the queries see `keys`.
ARIL_DEVICE F32Softmax OneSplitF32(const AttentionArgs& args, const Work& work, int split,
                                   Keys keys, F32Shared& shared) {
  SyncThreads();  // the queries are there; the last split's tokens and weights are not needed
  for (int i = keys.first + ThreadIdx(); i < keys.end; i += kThreads) {
    shared.tokens[i] = FindToken<F32>(args, work, split * kAttentionSplit + i);
  }
  SyncThreads();
  ScoreF32(args, work, keys, shared);
  SyncThreads();
  WeighF32(work, keys, shared);
  SyncThreads();
  F32Softmax softmax = NoKeys();
  AddValuesF32(args, work, keys, shared, softmax);
#pragma unroll
  for (int q = 0; q < kAttentionF32Queries; ++q) {
    if (q >= work.tile.num_queries) continue;
    softmax.max[q] = shared.max[q];
    softmax.sum[q] = shared.sum[q];
  }
  return softmax;
}

// Where a query's elements go: to out, divided, or to the partial results with max and sum.
ARIL_DEVICE void WriteF32(const AttentionArgs& args, const Work& work, int split,
                          const F32Softmax& softmax) {
#pragma unroll
  for (int q = 0; q < kAttentionF32Queries; ++q) {
    if (q >= work.tile.num_queries) continue;
    float* to;
    float factor = 1;
    if (work.IsWhole()) {
      to = reinterpret_cast<float*>(args.out) + QueryOffset(args, work, q, args.out_stride);
      factor = FinalFactor(args, work, q, softmax.max[q], softmax.sum[q]);
    } else {
      to = Partial(args, work, split, q) + 2;
      if (ThreadIdx() == 0) {
        to[-2] = softmax.max[q];
        to[-1] = softmax.sum[q];
      }
    }
#pragma unroll
    for (int e = 0; e < kThreadElements; ++e) {
      const int d = ThreadIdx() + e * kThreads;
      if (d < args.layer.head_dim) to[d] = softmax.values[q][e] * factor;
    }
  }
}

ARIL_DEVICE void F32Item(const AttentionArgs& args, const Work& work, F32Shared& shared) {
  const int head_dim = args.layer.head_dim;
  const auto* query = reinterpret_cast<const float*>(args.q);
  for (int i = ThreadIdx(); i < work.tile.num_queries * head_dim; i += kThreads) {
    const int q = i / head_dim, d = i % head_dim;
    shared.q[q][d] = query[QueryOffset(args, work, q, args.q_stride) + d];
  }
  const Keys keys = KeysOf(args, work, 0);
  F32Softmax total = NoKeys();
  for (int split = work.first_split; split < work.end_split; ++split) {
    const F32Softmax part = OneSplitF32(
        args, work, split, keys.Within(split * kAttentionSplit, kAttentionSplit), shared);
    if (!work.IsWhole()) {
      WriteF32(args, work, split, part);
      continue;
    }
#pragma unroll
    for (int q = 0; q < kAttentionF32Queries; ++q) {
      if (q >= work.tile.num_queries) continue;
      const MergeFactors factors = FactorsOf(total.max[q], part.max[q]);
      total.max[q] = factors.max;
      total.sum[q] = Merged(total.sum[q], part.sum[q], factors);
#pragma unroll
      for (int e = 0; e < kThreadElements; ++e) {
        total.values[q][e] = Merged(total.values[q][e], part.values[q][e], factors);
      }
    }
  }
  if (work.IsWhole()) WriteF32(args, work, 0, total);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_F32_CUDA_H_
