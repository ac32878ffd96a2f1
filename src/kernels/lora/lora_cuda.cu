// The LoRA kernels. Both are bound by memory: what counts is how many bytes of the adapters are
// under way, so that weights go from global memory straight into the registers of the matrix
// instructions, 16 bytes for each load, without shared memory or a barrier between.
//
// That is possible because a matrix instruction does not care which k or column it is given, as
// long as its operands agree. Shrink: a lane's 8 neighbours of `in` in one row of A stand for its
// columns 2t, 2t+1, 2t+8, 2t+9 of two instructions; x is loaded alike. Expand: a lane's 8
// neighbours in one row of Bᵀ are column g of eight instructions.
//
// No block waits for another. A grid is a few blocks for each multiprocessor, which take the items
// of the tables in turn: one captured launch fits every batch. What a reference leads to is read
// again after every store and barrier: of an entry and of B's description loops have copies; of
// items, too, and ptxas 13.0 would spill registers.
//
// Each load that waits for another one takes half a microsecond, which is what a decode of few rows
// consists of. So nothing waits for the previous kernel but what reads x or V, or writes: tables
// and adapters were copied before the first kernel of the step, and the first weights are under way
// when that one ends.

#include "kernels/lora/lora_cuda.h"

#include "kernels/lora/expand_tile_cuda.h"
#include "kernels/lora/shrink_tile_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

// Registers allow four blocks of either kernel on a multiprocessor, which makes 64 KB of loads that
// are under way there: the latency of the memory times its bandwidth is about 25 KB.
constexpr int kBlocksPerMultiprocessor = 4;

// --- Shrink ---

template <typename T>
ARIL_DEVICE void ShrinkItemOf(const LoraShrinkArgs& args, const LoraShrinkItem& item,
                              float* tiles) {
  using Element = typename T::Element;
  const LoraDeviceWeights& weights = item.weights[args.weights_offset];
  TrapUnless(weights.rank <= item.v_stride, "a rank of at most the plan's");
  if (item.first_rank >= weights.rank) return;  // the same for all threads of the block
  const Element* x = reinterpret_cast<const Element*>(args.x) + item.first_row * args.x_stride;
  const ShrinkPlace place = {item.num_rows,
                             args.in,
                             IsAligned16(x) && args.x_stride * sizeof(Element) % 16 == 0,
                             item.first_rank,
                             item.first_chunk,
                             item.num_chunks,
                             args.v + item.v_offset,
                             item.v_stride};
  ShrinkItem<T>(place, weights, RowsBehindOneAnother<Element>{x, args.x_stride}, tiles);
}

template <typename T>
ARIL_KERNEL(kThreads)
ShrinkKernel(ARIL_PARAMETER LoraShrinkArgs args) {
  const auto* items = reinterpret_cast<const LoraShrinkItem*>(args.tables + 1);
  const int num_items = args.tables->num_shrink_items;
  float* tiles = SharedMemory<float>();
  for (int i = BlockIdx(); i < num_items; i += GridDim()) ShrinkItemOf<T>(args, items[i], tiles);
  FollowPreviousKernel();
}

// --- Expand ---

template <typename T>
ARIL_KERNEL(kThreads, kBlocksPerMultiprocessor)
ExpandKernel(ARIL_PARAMETER LoraExpandArgs args) {
  const auto* base = reinterpret_cast<const std::byte*>(args.tables);
  const LoraTables tables = *args.tables;
  TrapUnless(tables.max_rank <= args.max_rank, "ranks of at most the launch's max_rank");
  const auto* items = reinterpret_cast<const LoraExpandItem*>(base + tables.expand_items_offset);
  const auto* entries = reinterpret_cast<const LoraExpandEntry*>(base + tables.entries_offset);
  float* staged = SharedMemory<float>();
  for (int i = BlockIdx(); i < tables.num_expand_items; i += GridDim()) {
    const LoraExpandItem& item = items[i];
    const LoraExpandTarget& target = args.targets[item.target];
    const ExpandPlace place = {
        args.y + item.first_row * args.y_stride + target.first_col + item.block_col, args.y_stride,
        target.bias == nullptr ? nullptr : target.bias + item.block_col, args.v};
    ExpandItem<T>(
        place, item,
        [&](int e) {
          LoraExpandEntry entry = entries[item.first_entry + e];
          entry.weights += args.weights_offset + item.block;
          return entry;
        },
        staged);
  }
  FollowPreviousKernel();
}

}  // namespace

int LoraShrink(const CudaContext& context, DType dtype, const LoraShrinkArgs& args) {
  const LaunchShape shape = {context.num_multiprocessors * kBlocksPerMultiprocessor, kThreads,
                             kShrinkTileBytes};
  return LaunchFor(dtype, context, shape, ShrinkKernel<F32>, ShrinkKernel<Bf16>, ShrinkKernel<F16>,
                   args);
}

int LoraExpand(const CudaContext& context, DType dtype, const LoraExpandArgs& args) {
  const LaunchShape shape = {context.num_multiprocessors * kBlocksPerMultiprocessor, kThreads,
                             ExpandItemBytes(args.max_rank)};
  return LaunchFor(dtype, context, shape, ExpandKernel<F32>, ExpandKernel<Bf16>, ExpandKernel<F16>,
                   args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
