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
#include "kernels/lora/shrink_tile_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

// Registers allow four blocks of either kernel on a multiprocessor, which makes 64 KB of loads that
// are under way there: the latency of the memory times its bandwidth is about 25 KB.
constexpr int kBlocksPerMultiprocessor = 4;

// --- Shrink ---

template <typename T>
ARIL_DEVICE void ShrinkItem(const LoraShrinkArgs& args, const LoraShrinkItem& item, float* tiles) {
  using Element = typename T::Element;
  const LoraDeviceWeights& weights = item.weights[args.weights_offset];
  const int rank = weights.rank;
  TrapUnless(rank <= item.v_stride, "a rank of at most the plan's");
  if (item.first_rank >= rank) return;  // the same for all threads of the block
  const int thread = ThreadIdx(), group = thread % kWarpSize / 4;
  const Element* x = reinterpret_cast<const Element*>(args.x) + item.first_row * args.x_stride;
  Slice<Element> slice = {
      {RowOf<Element>(weights.a, rank, item.first_rank + group),
       RowOf<Element>(weights.a, rank, item.first_rank + group + 8)},
      x,
      args.x_stride,
      item.num_rows,
      0,
      args.in,
      weights.a.aligned16 != 0 && IsAligned16(x) && args.x_stride * sizeof(Element) % 16 == 0};
  float totals[kSlots] = {};
  ShrinkTile<T>(slice, item.first_chunk, item.num_chunks, tiles, totals);
  const int of_rank = item.first_rank + thread % 16;
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    const int row = slot * 8 + thread / 16;
    if (row < item.num_rows && of_rank < rank) {
      args.v[item.v_offset + static_cast<int64_t>(row) * item.v_stride + of_rank] = totals[slot];
    }
  }
}

template <typename T>
ARIL_KERNEL(kThreads)
ShrinkKernel(ARIL_PARAMETER LoraShrinkArgs args) {
  const auto* items = reinterpret_cast<const LoraShrinkItem*>(args.tables + 1);
  const int num_items = args.tables->num_shrink_items;
  float* tiles = SharedMemory<float>();
  for (int i = BlockIdx(); i < num_items; i += GridDim()) ShrinkItem<T>(args, items[i], tiles);
  FollowPreviousKernel();
}

// --- Expand ---

static_assert(kLoraExpandRows == 16);  // of y, in one matrix instruction
constexpr int kTileCols = 64;          // of y, in eight
constexpr int kTileInstructions = kTileCols / 8;

// Floats from one row of V in shared memory to the next: 8 more than a multiple of 16, so that the
// lanes' pairs lie in different banks.
ARIL_DEVICE int StagedStride(int rank) {
  return (rank + kLoraRankTile - 1) / kLoraRankTile * kLoraRankTile + 8;
}

// An item's rows of V, all partials added, times the scale; zeros where there is no row or rank.
ARIL_DEVICE void StageV(const float* v, const LoraExpandEntry& entry, float scale, int rank,
                        int num_rows, float* staged) {
  const int stride = StagedStride(rank);
  for (int i = ThreadIdx(); i < kLoraExpandRows * stride; i += kThreads) {
    const int row = i / stride, j = i % stride;
    float sum = 0;
    if (row < num_rows && j < rank) {
      const float* p = v + entry.v_offset + static_cast<int64_t>(row) * entry.v_stride + j;
      for (int k = 0; k < entry.num_partials; ++k) sum += p[k * entry.v_partial_stride];
    }
    staged[i] = sum * scale;
  }
}

// Of B, 16 ranks and the 64 columns of a warp: on its way before that has anything to multiply.
template <typename T>
struct TileOfB {
  Vector16 rows[4];  // of Bᵀ, ranks 2t, 2t+1, 2t+8, 2t+9, columns 8g … 8g + 7

  ARIL_DEVICE void Load(const LoraDeviceMatrix& b, int rank, int first_rank, int first_col,
                        int end) {
    const int t = ThreadIdx() % 4, col = first_col + ThreadIdx() % kWarpSize / 4 * 8;
    const bool whole = b.aligned16 != 0 && col + 8 <= end;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint16_t* row = RowOf<uint16_t>(b, rank, first_rank + 2 * t + i % 2 + i / 2 * 8);
      rows[i] = {};
      if (row != nullptr) rows[i] = whole ? LoadWeights16(row + col) : LoadEight(row, col, end);
    }
  }
};
template <>
struct TileOfB<F32> {  // is read where it is multiplied
  ARIL_DEVICE void Load(const LoraDeviceMatrix&, int, int, int, int) {}
};

// Two floats as three words of two BF16, which add up to all their bits: eight of the 24 each.
ARIL_DEVICE void SplitInThree(float first, float second, uint32_t (&terms)[3]) {
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const uint32_t low = BitCast<uint32_t>(first) & 0xFFFF0000u;
    const uint32_t high = BitCast<uint32_t>(second) & 0xFFFF0000u;
    terms[i] = UpperHalves(low, high);
    first -= BitCast<float>(low);
    second -= BitCast<float>(high);
  }
}

// V's operand for 16 ranks: of each of the three terms, smallest last.
ARIL_DEVICE void LoadTerms(const float* staged, int stride, int first_rank,
                           uint32_t (&terms)[3][4]) {
  const int lane = ThreadIdx() % kWarpSize;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* p =
        staged + (lane / 4 + i % 2 * 8) * stride + first_rank + lane % 4 * 2 + i / 2 * 8;
    uint32_t words[3];
    SplitInThree(p[0], p[1], words);
#pragma unroll
    for (int k = 0; k < 3; ++k) terms[k][i] = words[k];
  }
}

// F16 as a sum of two BF16: eight bits of its eleven, and the rest.
ARIL_DEVICE void SplitF16(uint32_t word, uint32_t& high, uint32_t& low) {
  const float first = F16ToFloat(static_cast<uint16_t>(word));
  const float second = F16ToFloat(static_cast<uint16_t>(word >> 16));
  uint32_t terms[3];
  SplitInThree(first, second, terms);
  high = terms[0];
  low = terms[1];
}

ARIL_DEVICE void MultiplyTerms(Bf16, const uint32_t (&v)[3][4], const uint32_t (&b)[2],
                               float (&sum)[4]) {
#pragma unroll
  for (int k = 2; k >= 0; --k) MmaBf16(sum, v[k], b);
}
ARIL_DEVICE void MultiplyTerms(F16, const uint32_t (&v)[3][4], const uint32_t (&b)[2],
                               float (&sum)[4]) {
  uint32_t high[2], low[2];
  SplitF16(b[0], high[0], low[0]);
  SplitF16(b[1], high[1], low[1]);
#pragma unroll
  for (int k = 2; k >= 0; --k) {
    MmaBf16(sum, v[k], low);
    MmaBf16(sum, v[k], high);
  }
}

// sums += V · B for a tile of 16 rows and 64 columns from `col` on, whose first ranks of B are in
// `tile`. sums[i][0] is row g, column 16t + i, sums[i][1] row g, column 16t + 8 + i; [2] and [3]
// the same of row g + 8.
//
// Each rank tile begins from zero, and is added outside of the tensor core, which does not round:
// every instruction would cut off half an ulp of the whole sum on average, always towards zero, and
// there are three or six for each tile.
template <typename T>
ARIL_DEVICE void MultiplyTile(T, const LoraDeviceMatrix& b, int rank, const float* staged, int col,
                              int end, TileOfB<T>& tile, float (&sums)[kTileInstructions][4]) {
  const int stride = StagedStride(rank);
  const Vector16(&rows)[4] = tile.rows;
#pragma unroll 1
  for (int first = 0; first < rank; first += kLoraRankTile) {
    if (first > 0) tile.Load(b, rank, first, col, end);
    uint32_t terms[3][4];
    LoadTerms(staged, stride, first, terms);
#pragma unroll
    for (int i = 0; i < kTileInstructions; ++i) {
      const uint32_t w[4] = {rows[0].words[i / 2], rows[1].words[i / 2], rows[2].words[i / 2],
                             rows[3].words[i / 2]};
      const uint32_t pairs[2] = {i % 2 == 0 ? LowerHalves(w[0], w[1]) : UpperHalves(w[0], w[1]),
                                 i % 2 == 0 ? LowerHalves(w[2], w[3]) : UpperHalves(w[2], w[3])};
      float of_tile[4] = {};
      MultiplyTerms(T{}, terms, pairs, of_tile);
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[i][k] += of_tile[k];
    }
  }
}
ARIL_DEVICE void MultiplyTile(F32, const LoraDeviceMatrix& b, int rank, const float* staged,
                              int col, int end, TileOfB<F32>&,
                              float (&sums)[kTileInstructions][4]) {
  const int lane = ThreadIdx() % kWarpSize, stride = StagedStride(rank);
  for (int j = 0; j < rank; ++j) {
    const float* row = RowOf<float>(b, rank, j);
    const float v[2] = {staged[lane / 4 * stride + j], staged[(lane / 4 + 8) * stride + j]};
#pragma unroll
    for (int i = 0; i < kTileInstructions; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int c = col + lane % 4 * 16 + half * 8 + i;
        const float value = c < end ? row[c] : 0;
        sums[i][half] = MultiplyAdd(v[0], value, sums[i][half]);
        sums[i][2 + half] = MultiplyAdd(v[1], value, sums[i][2 + half]);
      }
    }
  }
}

// y += sum, and the gain if there is one, for 8 neighbours of a row. `col` counts in the block.
template <typename T>
struct Gain {
  const typename T::Element* high;  // null: none
  const typename T::Element* low;
  const float* bias;
  const LoraExpandItem& item;

  ARIL_DEVICE float Apply(float y, int col) const {
    if (high == nullptr) return y;
    const float of_bias = bias == nullptr ? 0.0f : bias[item.block_col + col];
    return MultiplyAdd(T::Widen(high[col]) + T::Widen(low[col]), y - of_bias, of_bias);
  }
};

template <typename T>
ARIL_DEVICE void AddEight(const float (&sums)[8], const Gain<T>& gain, int col, int end, float* y) {
  if (col + 8 <= end && IsAligned16(y)) {
    auto* vectors = reinterpret_cast<Float4*>(y);
    Float4 halves[2] = {vectors[0], vectors[1]};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& value = halves[i / 4].values[i % 4];
      value = gain.Apply(value + sums[i], col + i);
    }
    vectors[0] = halves[0];
    vectors[1] = halves[1];
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (col + i < end) y[i] = gain.Apply(y[i] + sums[i], col + i);
  }
}

// The first column of this warp in an item; kWarps * kTileCols further on is its next one.
ARIL_DEVICE int FirstCol(const LoraExpandItem& item) {
  return item.first_col + ThreadIdx() / kWarpSize * kTileCols;
}

// Adds one segment's part to the item's rows and columns. Each element of y is one thread's, for
// all segments of the item: they need no barrier between them. `tile`: what comes first of B.
template <typename T>
ARIL_DEVICE void AddEntry(const LoraExpandArgs& args, const LoraExpandItem& item,
                          const LoraDeviceWeights& weights, const float* staged, TileOfB<T>& tile) {
  using Element = typename T::Element;
  const int lane = ThreadIdx() % kWarpSize;
  const LoraExpandTarget& target = args.targets[item.target];
  const bool gains = weights.gain.num_runs > 0;
  const Gain<T> gain = {gains ? RowOf<Element>(weights.gain, 2, 0) : nullptr,
                        gains ? RowOf<Element>(weights.gain, 2, 1) : nullptr, target.bias, item};
  const LoraDeviceMatrix b = weights.b;
  const int rank = weights.rank, end = item.first_col + item.num_cols;
  for (int col = FirstCol(item); col < end; col += kWarps * kTileCols) {
    float sums[kTileInstructions][4] = {};
    MultiplyTile(T{}, b, rank, staged, col, end, tile, sums);
    tile.Load(b, rank, 0, col + kWarps * kTileCols, end);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8;
      if (row >= item.num_rows) continue;
      const int first = col + lane % 4 * 16 + i % 2 * 8;
      const float eight[8] = {sums[0][i], sums[1][i], sums[2][i], sums[3][i],
                              sums[4][i], sums[5][i], sums[6][i], sums[7][i]};
      AddEight<T>(eight, gain, first, end,
                  args.y + (item.first_row + row) * args.y_stride + target.first_col +
                      item.block_col + first);
    }
  }
}

template <typename T>
ARIL_DEVICE void ExpandItem(const LoraExpandArgs& args, const LoraExpandItem& item,
                            const LoraExpandEntry* entries, float* staged) {
  for (int e = 0; e < item.num_entries; ++e) {
    const LoraExpandEntry entry = entries[item.first_entry + e];
    const LoraDeviceWeights& weights = entry.weights[args.weights_offset + item.block];
    TrapUnless(weights.rank <= entry.v_stride, "a rank of at most the plan's");
    if (weights.rank == 0) continue;
    TileOfB<T> tile;
    tile.Load(weights.b, weights.rank, 0, FirstCol(item), item.first_col + item.num_cols);
    FollowPreviousKernel();
    StageV(args.v, entry, entry.weight * weights.scale, weights.rank, item.num_rows, staged);
    SyncThreads();
    AddEntry<T>(args, item, weights, staged, tile);
    SyncThreads();
  }
}

template <typename T>
ARIL_KERNEL(kThreads)
ExpandKernel(ARIL_PARAMETER LoraExpandArgs args) {
  const auto* base = reinterpret_cast<const std::byte*>(args.tables);
  const LoraTables tables = *args.tables;
  TrapUnless(tables.max_rank <= args.max_rank, "ranks of at most the launch's max_rank");
  const auto* items = reinterpret_cast<const LoraExpandItem*>(base + tables.expand_items_offset);
  const auto* entries = reinterpret_cast<const LoraExpandEntry*>(base + tables.entries_offset);
  float* staged = SharedMemory<float>();
  for (int i = BlockIdx(); i < tables.num_expand_items; i += GridDim()) {
    ExpandItem<T>(args, items[i], entries, staged);
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
  const int rank_tiles = (args.max_rank + kLoraRankTile - 1) / kLoraRankTile;
  const LaunchShape shape = {
      context.num_multiprocessors * kBlocksPerMultiprocessor, kThreads,
      static_cast<size_t>(kLoraExpandRows * (rank_tiles * kLoraRankTile + 8)) * sizeof(float)};
  return LaunchFor(dtype, context, shape, ExpandKernel<F32>, ExpandKernel<Bf16>, ExpandKernel<F16>,
                   args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
