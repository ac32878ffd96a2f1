// The kernels of attention, and their launches. A head_dim is computed as the next larger one of
// 64, 128 and 256, with zeros; where scores are capped, of 128 and 256.

#include "kernels/attention/attention_cuda.h"

#include "kernels/attention/attention_f32_cuda.h"
#include "kernels/attention/attention_narrow_cuda.h"
#include "kernels/attention/attention_wide_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

ARIL_DEVICE void TrapUnlessLaunchedFor(const AttentionArgs& args, const AttentionTables& tables) {
  TrapUnless(tables.num_items <= args.max_items, "attention's items of at most the launch's");
  TrapUnless(tables.num_partials == 0 || tables.num_tiles <= args.max_tiles,
             "attention's tiles of at most the launch's");
  TrapUnless(tables.num_partials <= args.max_partials,
             "attention's partial results of at most the launch's");
}

// Blocks go by items, and by K and V heads within.
ARIL_DEVICE Work WorkOf(const AttentionArgs& args, const AttentionTables& tables) {
  const int kv_heads = args.layer.num_kv_heads;
  const AttentionItem item = tables.items[Quotient(BlockIdx(), kv_heads)];
  return {tables.tiles[item.tile], item.first_split, item.end_split,
          Remainder(BlockIdx(), kv_heads), Quotient(args.num_heads, kv_heads)};
}

// Computes the block's item, if there is one. No kernel of a step writes its tables, so that they
// are read while the last kernel ends.
template <typename Compute>
ARIL_DEVICE void ForItem(const AttentionArgs& args, const Compute& compute) {
  const AttentionTables tables = *args.tables;
  TrapUnlessLaunchedFor(args, tables);
  const bool has_item = BlockIdx() < tables.num_items * args.layer.num_kv_heads;
  Work work = {};
  if (has_item) work = WorkOf(args, tables);
  FollowPreviousKernel();
  if (has_item) compute(work);
}

// As many blocks as have room for what they keep in registers: ptxas 13.0 spills a few words.
template <typename T, int kDim, bool kCapped>
ARIL_KERNEL(kThreads, kDim <= 64 ? 3 : 2)
TileKernel(ARIL_PARAMETER AttentionArgs args) {
  ForItem(args, [&](const Work& work) {
    if (work.tile.is_wide != 0) {
      WideItem<T, kDim, kCapped>(args, work, *SharedMemory<WideShared<kDim>>());
    } else {
      NarrowItem<T, kDim, kCapped>(args, work, *SharedMemory<NarrowShared<kDim>>());
    }
  });
}

// Without wide tiles there is room for more blocks, and less code passes the instruction cache.
template <typename T, int kDim, bool kCapped>
ARIL_KERNEL(kThreads, NarrowBlocks<kDim>())
NarrowKernel(ARIL_PARAMETER AttentionArgs args) {
  ForItem(args, [&](const Work& work) {
    TrapUnless(work.tile.is_wide == 0, "attention's wide tiles only if the launch has any");
    NarrowItem<T, kDim, kCapped>(args, work, *SharedMemory<NarrowShared<kDim>>());
  });
}

ARIL_KERNEL(kThreads)
F32Kernel(ARIL_PARAMETER AttentionArgs args) {
  ForItem(args, [&](const Work& work) { F32Item(args, work, *SharedMemory<F32Shared>()); });
}

// Merges a query's splits, and writes it: a warp, whose lanes have elements lane + 32 e.
template <typename T>
ARIL_DEVICE void MergeQuery(const AttentionArgs& args, const Work& work, int query) {
  constexpr int kElements = kAttentionMaxHeadDim / kWarpSize;
  const int lane = ThreadIdx() % kWarpSize, head_dim = args.layer.head_dim;
  const Keys keys = KeysOf(args, work, query);
  float max = -kInfinity, sum = 0;
  float values[kElements] = {};
#pragma unroll 4
  for (int split = keys.first / kAttentionSplit; split * kAttentionSplit < keys.end; ++split) {
    const float* partial = Partial(args, work, split, query);
    float part[kElements];
    LoadStrided<kWarpSize>(partial + 2, lane, head_dim, part);
    const MergeFactors factors = FactorsOf(max, partial[0]);
    max = factors.max;
    sum = Merged(sum, partial[1], factors);
#pragma unroll
    for (int e = 0; e < kElements; ++e) values[e] = Merged(values[e], part[e], factors);
  }
  auto* out = reinterpret_cast<typename T::Element*>(args.out) +
              QueryOffset(args, work, query, args.out_stride);
  const float factor = FinalFactor(args, work, query, max, sum);
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    const int d = lane + e * kWarpSize;
    if (d < head_dim) out[d] = T::Narrow(values[e] * factor);
  }
}

// A block for each tile, split or not, and K and V head.
template <typename T>
ARIL_KERNEL(kThreads)
MergeKernel(ARIL_PARAMETER AttentionArgs args) {
  const AttentionTables tables = *args.tables;
  const int kv_heads = args.layer.num_kv_heads;
  Work work = {};
  if (BlockIdx() < tables.num_tiles * kv_heads) {
    work = {tables.tiles[Quotient(BlockIdx(), kv_heads)], 0, 0, Remainder(BlockIdx(), kv_heads),
            Quotient(args.num_heads, kv_heads)};
  }
  FollowPreviousKernel();
  if (work.IsWhole()) return;
  for (int q = Warp(); q < work.tile.num_queries; q += kWarps) MergeQuery<T>(args, work, q);
}

template <typename T, int kDim, bool kCapped>
int LaunchTiles(const CudaContext& context, int blocks, const AttentionArgs& args) {
  constexpr size_t kNarrowBytes = sizeof(NarrowShared<kDim>);
  if constexpr (kDim <= kAttentionMaxWideHeadDim) {
    constexpr size_t kWideBytes = sizeof(WideShared<kDim>);
    constexpr size_t kBytes = kNarrowBytes < kWideBytes ? kWideBytes : kNarrowBytes;
    static_assert(kBytes <= 100 << 10);
    if (args.has_wide_tiles) {
      return LaunchKernel(context, {blocks, kThreads, kBytes}, TileKernel<T, kDim, kCapped>, args);
    }
  }
  static_assert(NarrowBlocks<kDim>() * (kNarrowBytes + (1 << 10)) <= 227 << 10);
  return LaunchKernel(context, {blocks, kThreads, kNarrowBytes}, NarrowKernel<T, kDim, kCapped>,
                      args);
}

// The models that cap scores have heads of 128 and 256.
template <typename T>
int LaunchTilesFor(const CudaContext& context, int blocks, const AttentionArgs& args) {
  const int64_t dim = args.layer.head_dim;
  if (args.softcap > 0) {
    return dim <= 128 ? LaunchTiles<T, 128, true>(context, blocks, args)
                      : LaunchTiles<T, 256, true>(context, blocks, args);
  }
  if (dim <= 64) return LaunchTiles<T, 64, false>(context, blocks, args);
  if (dim <= 128) return LaunchTiles<T, 128, false>(context, blocks, args);
  return LaunchTiles<T, 256, false>(context, blocks, args);
}

int LaunchItems(const CudaContext& context, DType dtype, const AttentionArgs& args) {
  const int blocks = args.max_items * args.layer.num_kv_heads;
  if (dtype == DType::kBF16) return LaunchTilesFor<Bf16>(context, blocks, args);
  if (dtype == DType::kF16) return LaunchTilesFor<F16>(context, blocks, args);
  return LaunchKernel(context, {blocks, kThreads, sizeof(F32Shared)}, F32Kernel, args);
}

}  // namespace

int Attention(const CudaContext& context, DType dtype, const AttentionArgs& args) {
  if (args.max_items == 0) return 0;
  const int error = LaunchItems(context, dtype, args);
  if (error != 0 || args.max_tiles == 0) return error;
  return LaunchFor(dtype, context, {args.max_tiles * args.layer.num_kv_heads, kThreads, 0},
                   MergeKernel<F32>, MergeKernel<Bf16>, MergeKernel<F16>, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
