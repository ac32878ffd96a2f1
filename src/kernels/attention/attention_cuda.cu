// A block has one row and up to 8 of the heads that share a K and V, which it then reads once for
// all of them: in decodes that is what the time goes to. For scores, a warp takes a key at a time,
// its lanes the elements; for values, a thread takes one or two elements of a head, for all keys.

#include <math.h>

#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/reduce.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kHeads = 8;  // of a block
constexpr int kLaneElements = kAttentionMaxHeadDim / kWarpSize;
constexpr int kThreadElements = kAttentionMaxHeadDim / kThreads;
constexpr int kTogether = 8;  // tokens whose values are on their way at a time
constexpr float kInfinity = __builtin_inff();

// In shared memory.
struct Shared {
  const std::byte* tokens[kAttentionSplit];  // where those of the split begin, but for their offset
  float q[kHeads][kAttentionMaxHeadDim];
  float weights[kHeads][kAttentionSplit];  // scores, then exp(score - max)
  float max[kHeads];
  float sum[kHeads];
};

// The softmax of some keys of one row: of head h, the largest score, the sum of the weights
// relative to it, and the values so weighted, of elements thread + 128 e. All threads have the same
// max and sum.
struct Softmax {
  float max[kHeads];
  float sum[kHeads];
  float values[kHeads][kThreadElements];
};

ARIL_DEVICE Softmax NoKeys() {
  Softmax none;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    none.max[h] = -kInfinity;
    none.sum[h] = 0;
#pragma unroll
    for (int e = 0; e < kThreadElements; ++e) none.values[h][e] = 0;
  }
  return none;
}

// Adds a later split's part to one head. The one place where splits are merged.
ARIL_DEVICE void Merge(float max, float sum, const float (&values)[kThreadElements], int h,
                       Softmax& total) {
  const float larger = max > total.max[h] ? max : total.max[h];
  const float keep = expf(total.max[h] - larger), take = expf(max - larger);
  total.max[h] = larger;
  total.sum[h] = MultiplyAdd(total.sum[h], keep, sum * take);
#pragma unroll
  for (int e = 0; e < kThreadElements; ++e) {
    total.values[h][e] = MultiplyAdd(total.values[h][e], keep, values[e] * take);
  }
}

// What one block works on.
struct Item {
  int row;
  int kv_head;
  int first_head;
  int num_heads;
  int64_t first_key;  // visible: [first_key, end_key)
  int64_t end_key;
  std::byte* const* pages;
};

ARIL_DEVICE Item MakeItem(const AttentionArgs& args, int row, int chunk) {
  const int group = args.num_heads / args.layer.num_kv_heads;
  const int chunks = (group + kHeads - 1) / kHeads;
  const KvRow at = args.sequence_rows[row];
  Item item;
  item.row = row;
  item.kv_head = chunk / chunks;
  const int first = chunk % chunks * kHeads;
  item.first_head = item.kv_head * group + first;
  item.num_heads = group - first < kHeads ? group - first : kHeads;
  item.end_key = at.position + 1;
  item.first_key = item.end_key > args.window ? item.end_key - args.window : 0;
  item.pages = at.pages;
  return item;
}

template <typename T>
ARIL_DEVICE void LoadQueries(const AttentionArgs& args, const Item& item, Shared& shared) {
  const int head_dim = args.layer.head_dim;
  const auto* q = reinterpret_cast<const typename T::Element*>(args.q) + item.row * args.q_stride +
                  item.first_head * head_dim;
  for (int i = ThreadIdx(); i < item.num_heads * head_dim; i += kThreads) {
    shared.q[i / head_dim][i % head_dim] = T::Widen(q[i]);
  }
}

// Finds the tokens [first, end) of the split that begins at `start`, once for all threads, and for
// keys and values alike.
template <typename T>
ARIL_DEVICE void FindTokens(const AttentionArgs& args, const Item& item, int64_t start, int first,
                            int end, Shared& shared) {
  const KvLayer& layer = args.layer;
  const auto page_tokens = static_cast<uint32_t>(layer.page_tokens);
  for (int i = first + ThreadIdx(); i < end; i += kThreads) {
    const auto token = static_cast<uint32_t>(start + i);  // 64 bits take long to divide
    shared.tokens[i] =
        item.pages[token / page_tokens] + item.kv_head * layer.block_bytes +
        token % page_tokens * static_cast<uint32_t>(layer.head_dim) * sizeof(typename T::Element);
  }
}

// The key, or the value, of token `i` of the split.
template <typename T>
ARIL_DEVICE const typename T::Element* TokenRow(const Shared& shared, int64_t offset, int i) {
  return reinterpret_cast<const typename T::Element*>(shared.tokens[i] + offset);
}

template <typename T>
ARIL_DEVICE void Scores(const AttentionArgs& args, const Item& item, int first, int end,
                        Shared& shared) {
  const int lane = ThreadIdx() % kWarpSize, head_dim = args.layer.head_dim;
  for (int i = first + ThreadIdx() / kWarpSize; i < end; i += kWarps) {
    const auto* key = TokenRow<T>(shared, args.layer.key_offset, i);
    float k[kLaneElements];
#pragma unroll
    for (int e = 0; e < kLaneElements; ++e) {
      const int d = lane + e * kWarpSize;
      k[e] = d < head_dim ? T::Widen(key[d]) : 0;
    }
    for (int h = 0; h < item.num_heads; ++h) {
      float score = 0;
#pragma unroll
      for (int e = 0; e < kLaneElements; ++e) {
        const int d = lane + e * kWarpSize;
        if (d < head_dim) score = MultiplyAdd(shared.q[h][d], k[e], score);
      }
      score = WarpSum(score) * args.scale;
      if (lane == 0) shared.weights[h][i] = score;
    }
  }
}

// Scores become weights, a warp for each head. A key's place in its split decides on which lane it
// is, not where the visible ones begin.
ARIL_DEVICE void Weigh(const Item& item, int first, int end, Shared& shared) {
  const int lane = ThreadIdx() % kWarpSize;
  for (int h = ThreadIdx() / kWarpSize; h < item.num_heads; h += kWarps) {
    float max = -kInfinity;
    for (int i = lane; i < end; i += kWarpSize) {
      if (i >= first && shared.weights[h][i] > max) max = shared.weights[h][i];
    }
    max = WarpMax(max);
    float sum = 0;
    for (int i = lane; i < end; i += kWarpSize) {
      if (i < first) continue;
      const float weight = expf(shared.weights[h][i] - max);
      shared.weights[h][i] = weight;
      sum += weight;
    }
    sum = WarpSum(sum);
    if (lane == 0) {
      shared.max[h] = max;
      shared.sum[h] = sum;
    }
  }
}

// softmax.values += the weighted values of the tokens [first, end), one after the other.
template <typename T>
ARIL_DEVICE void AddValues(const AttentionArgs& args, const Item& item, int first, int end,
                           const Shared& shared, Softmax& softmax) {
  for (int begin = first; begin < end; begin += kTogether) {
    float values[kTogether][kThreadElements];
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
#pragma unroll
      for (int e = 0; e < kThreadElements; ++e) {
        const int d = ThreadIdx() + e * kThreads;
        values[t][e] = 0;
        if (begin + t < end && d < args.layer.head_dim) {
          values[t][e] = T::Widen(TokenRow<T>(shared, args.layer.value_offset, begin + t)[d]);
        }
      }
    }
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      if (begin + t >= end) break;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        if (h >= item.num_heads) continue;
        const float weight = shared.weights[h][begin + t];
#pragma unroll
        for (int e = 0; e < kThreadElements; ++e) {
          softmax.values[h][e] = MultiplyAdd(weight, values[t][e], softmax.values[h][e]);
        }
      }
    }
  }
}

// The softmax of the keys of one split that the row may see.
template <typename T>
ARIL_DEVICE Softmax OneSplit(const AttentionArgs& args, const Item& item, int64_t split,
                             Shared& shared) {
  const int64_t start = split * kAttentionSplit;
  const int first = item.first_key > start ? static_cast<int>(item.first_key - start) : 0;
  const int end = item.end_key < start + kAttentionSplit ? static_cast<int>(item.end_key - start)
                                                         : kAttentionSplit;
  SyncThreads();  // the queries are there; the last split's tokens and weights are no longer needed
  FindTokens<T>(args, item, start, first, end, shared);
  SyncThreads();
  Scores<T>(args, item, first, end, shared);
  SyncThreads();
  Weigh(item, first, end, shared);
  SyncThreads();
  Softmax softmax = NoKeys();
  AddValues<T>(args, item, first, end, shared, softmax);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= item.num_heads) continue;
    softmax.max[h] = shared.max[h];
    softmax.sum[h] = shared.sum[h];
  }
  return softmax;
}

template <typename T>
ARIL_DEVICE void Write(const AttentionArgs& args, const Item& item, const Softmax& total) {
  auto* out = reinterpret_cast<typename T::Element*>(args.out) + item.row * args.out_stride +
              item.first_head * args.layer.head_dim;
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int e = 0; e < kThreadElements; ++e) {
      const int d = ThreadIdx() + e * kThreads;
      if (h < item.num_heads && d < args.layer.head_dim) {
        out[h * args.layer.head_dim + d] = T::Narrow(total.values[h][e] / total.sum[h]);
      }
    }
  }
}

// [max, sum, values] of a head and a split.
ARIL_DEVICE float* Partial(const AttentionArgs& args, const Item& item, int h, int64_t split) {
  const int64_t head = static_cast<int64_t>(item.row) * args.num_heads + item.first_head + h;
  return args.partials + (head * args.max_splits + split) * (args.layer.head_dim + 2);
}

ARIL_DEVICE void TrapUnlessPartialsSuffice(const AttentionArgs& args, const Item& item) {
  TrapUnless((item.end_key - 1) / kAttentionSplit < args.max_splits,
             "contexts of at most the launch's max_splits");
}

ARIL_DEVICE int HeadChunks(const AttentionArgs& args) {
  const int group = args.num_heads / args.layer.num_kv_heads;
  return args.layer.num_kv_heads * ((group + kHeads - 1) / kHeads);
}

// One block for each row and chunk of heads: all splits, in order.
template <typename T>
ARIL_KERNEL(kThreads)
WholeRowKernel(ARIL_PARAMETER AttentionArgs args) {
  WaitForPreviousKernel();
  LetNextKernelStart();
  Shared& shared = *SharedMemory<Shared>();
  const int chunks = HeadChunks(args);
  const Item item = MakeItem(args, BlockIdx() / chunks, BlockIdx() % chunks);
  if (item.pages == nullptr) return;
  LoadQueries<T>(args, item, shared);
  Softmax total = NoKeys();
  for (int64_t split = item.first_key / kAttentionSplit;
       split <= (item.end_key - 1) / kAttentionSplit; ++split) {
    const Softmax part = OneSplit<T>(args, item, split, shared);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h < item.num_heads) Merge(part.max[h], part.sum[h], part.values[h], h, total);
    }
  }
  Write<T>(args, item, total);
}

// One block for each row, chunk of heads and split.
template <typename T>
ARIL_KERNEL(kThreads)
SplitKernel(ARIL_PARAMETER AttentionArgs args) {
  WaitForPreviousKernel();
  LetNextKernelStart();
  Shared& shared = *SharedMemory<Shared>();
  const int chunks = HeadChunks(args);
  const int split = BlockIdx() % args.max_splits;
  const int row_chunk = BlockIdx() / args.max_splits;
  const Item item = MakeItem(args, row_chunk / chunks, row_chunk % chunks);
  if (item.pages == nullptr) return;
  TrapUnlessPartialsSuffice(args, item);
  if (split < item.first_key / kAttentionSplit || split > (item.end_key - 1) / kAttentionSplit) {
    return;
  }
  LoadQueries<T>(args, item, shared);
  const Softmax part = OneSplit<T>(args, item, split, shared);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= item.num_heads) continue;
    float* partial = Partial(args, item, h, split);
    if (ThreadIdx() == 0) {
      partial[0] = part.max[h];
      partial[1] = part.sum[h];
    }
#pragma unroll
    for (int e = 0; e < kThreadElements; ++e) {
      const int d = ThreadIdx() + e * kThreads;
      if (d < args.layer.head_dim) partial[2 + d] = part.values[h][e];
    }
  }
}

// Merges what SplitKernel left. One block for each row and chunk of heads.
template <typename T>
ARIL_KERNEL(kThreads)
MergeKernel(ARIL_PARAMETER AttentionArgs args) {
  WaitForPreviousKernel();
  LetNextKernelStart();
  const int chunks = HeadChunks(args);
  const Item item = MakeItem(args, BlockIdx() / chunks, BlockIdx() % chunks);
  if (item.pages == nullptr) return;
  TrapUnlessPartialsSuffice(args, item);
  Softmax total = NoKeys();
  for (int64_t split = item.first_key / kAttentionSplit;
       split <= (item.end_key - 1) / kAttentionSplit; ++split) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h >= item.num_heads) continue;
      const float* partial = Partial(args, item, h, split);
      float values[kThreadElements];
#pragma unroll
      for (int e = 0; e < kThreadElements; ++e) {
        const int d = ThreadIdx() + e * kThreads;
        values[e] = d < args.layer.head_dim ? partial[2 + d] : 0;
      }
      Merge(partial[0], partial[1], values, h, total);
    }
  }
  Write<T>(args, item, total);
}

}  // namespace

int Attention(const CudaContext& context, DType dtype, const AttentionArgs& args) {
  if (args.rows == 0) return 0;
  const int group = args.num_heads / args.layer.num_kv_heads;
  const int blocks = args.rows * args.layer.num_kv_heads * ((group + kHeads - 1) / kHeads);
  if (args.partials == nullptr) {
    return LaunchFor(dtype, context, {blocks, kThreads, sizeof(Shared)}, WholeRowKernel<F32>,
                     WholeRowKernel<Bf16>, WholeRowKernel<F16>, args);
  }
  const int error = LaunchFor(dtype, context, {blocks * args.max_splits, kThreads, sizeof(Shared)},
                              SplitKernel<F32>, SplitKernel<Bf16>, SplitKernel<F16>, args);
  if (error != 0) return error;
  return LaunchFor(dtype, context, {blocks, kThreads, 0}, MergeKernel<F32>, MergeKernel<Bf16>,
                   MergeKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
