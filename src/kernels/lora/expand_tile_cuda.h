// An expand's item: up to 16 rows of y, and columns of one target, for the segments that these rows
// have, in the order of additions that lora_cuda.h describes. Only .cu files include this.
// How operands lie in registers stands in lora_cuda.cu.

#ifndef ARIL_KERNELS_LORA_EXPAND_TILE_CUDA_H_
#define ARIL_KERNELS_LORA_EXPAND_TILE_CUDA_H_

#include "kernels/cuda/elements.h"
#include "kernels/lora/matrix_rows_cuda.h"
#include "kernels/lora/shrink_tile_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

static_assert(kLoraExpandRows == 16);  // of y, in one matrix instruction
inline constexpr int kTileCols = 64;   // of y, in eight
inline constexpr int kTileInstructions = kTileCols / 8;

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
#pragma unroll 4
      for (int k = 0; k < entry.num_partials; ++k) sum += p[k * entry.v_partial_stride];
    }
    staged[i] = sum * scale;
  }
}

// Of B, what a warp multiplies at once: 16 ranks and 64 columns.
struct TileOfB {
  Vector16 rows[4];  // of Bᵀ, ranks 2t, 2t+1, 2t+8, 2t+9, columns 8g … 8g + 7
};

// A warp's way through its columns of B: the ranks of 64 columns, then of its next 64. The next
// tiles are on their way before there is anything to multiply.
inline constexpr int kTilesUnderWay = 2;
struct ReaderOfB {
  LoraDeviceMatrix b;
  int rank;
  int end;  // of the item's columns
  // Of the tile to be loaded next.
  int col;
  int first_rank = 0;
  const uint16_t* rows[4] = {};  // null where there is none
  TileOfB tiles[kTilesUnderWay] = {};

  ARIL_DEVICE void Begin() {
    FindRows();
#pragma unroll
    for (TileOfB& tile : tiles) LoadNext(tile);
  }
  ARIL_DEVICE void FindRows() {
    const int t = ThreadIdx() % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      rows[i] = RowOf<uint16_t>(b, rank, first_rank + 2 * t + i % 2 + i / 2 * 8);
    }
  }
  ARIL_DEVICE void LoadNext(TileOfB& tile) {
    const int first = col + ThreadIdx() % kWarpSize / 4 * 8;
    const bool whole = b.aligned16 != 0 && first + 8 <= end;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      tile.rows[i] = {};
      if (rows[i] == nullptr || first >= end) continue;
      tile.rows[i] = whole ? LoadWeights16(rows[i] + first) : LoadEight(rows[i], first, end);
    }
    first_rank += kLoraRankTile;
    if (first_rank >= rank) {
      first_rank = 0;
      col += kWarps * kTileCols;
    }
    if (rank > kLoraRankTile) FindRows();  // of one tile of ranks they stay
  }
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

// Sums of a tile of 16 rows and 64 columns: [i][0] is row g, column 16t + i, [i][1] row g, column
// 16t + 8 + i; [2] and [3] the same of row g + 8.
using TileSums = float[kTileInstructions][4];

// Adds V · B for 16 ranks. That begins from zero, and is added outside of the tensor core, which
// does not round: every instruction would cut off half an ulp of the whole sum on average, always
// towards zero, and there are three or six for each 16 ranks.
template <typename T>
ARIL_DEVICE void MultiplyTile(T, const uint32_t (&terms)[3][4], const TileOfB& tile,
                              TileSums& sums) {
  const Vector16(&rows)[4] = tile.rows;
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

// In F32, all ranks of the 64 columns from `col` on.
ARIL_DEVICE void MultiplyColumns(const LoraDeviceMatrix& b, int rank, int col, int end,
                                 const float* staged, TileSums& sums) {
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

// What a lane has of y in every tile: of rows g, g, g + 8 and g + 8 of the item, eight columns
// each. Those of row g are on their way while the tile is multiplied: a decode has no others.
struct LaneOfY {
  float* y;  // of the item's first row, the block's first column
  int64_t stride;
  int num_rows;
  int end;         // of the item's columns
  bool aligned16;  // every eight of a tile
  struct Eight {
    Float4 low, high;
  } ahead[2] = {};

  ARIL_DEVICE int Row(int i) const { return ThreadIdx() % kWarpSize / 4 + i / 2 * 8; }
  ARIL_DEVICE int Col(int tile_col, int i) const {
    return tile_col + ThreadIdx() % 4 * 16 + i % 2 * 8;
  }
  ARIL_DEVICE float* At(int tile_col, int i) const {
    return y + Row(i) * stride + Col(tile_col, i);
  }
  // How many of the eight there are.
  ARIL_DEVICE int Count(int tile_col, int i) const {
    return Row(i) < num_rows ? end - Col(tile_col, i) : 0;
  }
  ARIL_DEVICE bool IsWhole(int tile_col, int i) const {
    return aligned16 && Count(tile_col, i) >= 8;
  }
  ARIL_DEVICE static Eight Load(const float* at) {
    const auto* vectors = reinterpret_cast<const Float4*>(at);
    return {vectors[0], vectors[1]};
  }
  ARIL_DEVICE void LoadAhead(int tile_col) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (IsWhole(tile_col, i)) ahead[i] = Load(At(tile_col, i));
    }
  }
  // Each element is one lane's, for all entries of the item: they need no barrier between them.
  ARIL_DEVICE void Add(int tile_col, const TileSums& sums) {
    AddRow<0>(tile_col, sums);
    if (num_rows > 8) AddRow<2>(tile_col, sums);
  }
  template <int kFirst>
  ARIL_DEVICE void AddRow(int tile_col, const TileSums& sums) {
#pragma unroll
    for (int i = kFirst; i < kFirst + 2; ++i) {
      float* at = At(tile_col, i);
      if (IsWhole(tile_col, i)) {
        Eight eight = kFirst == 0 ? ahead[i % 2] : Load(at);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          eight.low.values[k] += sums[k][i];
          eight.high.values[k] += sums[4 + k][i];
        }
        auto* vectors = reinterpret_cast<Float4*>(at);
        vectors[0] = eight.low;
        vectors[1] = eight.high;
        continue;
      }
      const int count = Count(tile_col, i);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        if (k < count) at[k] += sums[k][i];
      }
    }
  }
};

// What an adapter multiplies the sum by, column by column, after its part was added: where it lies,
// not in registers, which are the product's. Few adapters have gains (DoRA).
template <typename T>
struct Gain {
  const typename T::Element* high;
  const typename T::Element* low;
  const float* bias;  // which it does not multiply; null: zeros

  ARIL_DEVICE void Apply(const LaneOfY& y, int tile_col) const {
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      const int count = y.Count(tile_col, i), first = y.Col(tile_col, i);
      float* at = y.At(tile_col, i);
#pragma unroll 1
      for (int k = 0; k < 8 && k < count; ++k) {
        const int col = first + k;
        const float of_bias = bias == nullptr ? 0.0f : bias[col];
        at[k] = MultiplyAdd(T::Widen(high[col]) + T::Widen(low[col]), at[k] - of_bias, of_bias);
      }
    }
  }
};
template <typename T>
ARIL_DEVICE Gain<T> GainOf(const LoraDeviceWeights& weights, const float* bias) {
  using Element = typename T::Element;
  return {RowOf<Element>(weights.gain, 2, 0), RowOf<Element>(weights.gain, 2, 1), bias};
}

// A segment's part of an item, before what has to wait for V, and after.
template <typename T>
struct Entry {
  ReaderOfB b;

  ARIL_DEVICE void Begin() { b.Begin(); }
  // From the warp's first column on.
  template <typename OnTile>
  ARIL_DEVICE void Multiply(int col, const float* staged, const OnTile& on_tile) {
    TileSums sums = {};
    uint32_t terms[3][4];
    const int stride = StagedStride(b.rank);
    LoadTerms(staged, stride, 0, terms);
    int first_rank = 0;
#pragma unroll 1
    while (col < b.end) {
#pragma unroll
      for (TileOfB& tile : b.tiles) {
        if (col >= b.end) break;
        if (b.rank > kLoraRankTile) LoadTerms(staged, stride, first_rank, terms);
        MultiplyTile(T{}, terms, tile, sums);
        b.LoadNext(tile);
        first_rank += kLoraRankTile;
        if (first_rank < b.rank) continue;
        on_tile(col, sums);
        first_rank = 0;
        col += kWarps * kTileCols;
        for (auto& of_instruction : sums) {
          for (float& sum : of_instruction) sum = 0;
        }
      }
    }
  }
};
template <>
struct Entry<F32> {
  ReaderOfB b;  // of which the matrix only is used

  ARIL_DEVICE void Begin() {}
  template <typename OnTile>
  ARIL_DEVICE void Multiply(int col, const float* staged, const OnTile& on_tile) {
    for (; col < b.end; col += kWarps * kTileCols) {
      TileSums sums = {};
      MultiplyColumns(b.b, b.rank, col, b.end, staged, sums);
      on_tile(col, sums);
    }
  }
};

// Shared memory of ExpandItem, for ranks of up to `max_rank`.
inline size_t ExpandItemBytes(int max_rank) {
  const int rank_tiles = (max_rank + kLoraRankTile - 1) / kLoraRankTile;
  return static_cast<size_t>(kLoraExpandRows * (rank_tiles * kLoraRankTile + 8)) * sizeof(float);
}

// Where an item's results go, and come from.
struct ExpandPlace {
  float* y;  // of the item's first row, the block's first column
  int64_t y_stride;
  const float* bias;  // of the block's first column, or null
  const float* v;
};

// `entry_of(e)` is the LoraExpandEntry of an item's e-th segment, whose weights are those of the
// item's block. All threads of the block take part.
template <typename T, typename EntryOf>
ARIL_DEVICE void ExpandItem(const ExpandPlace& place, const LoraExpandItem& item,
                            const EntryOf& entry_of, float* staged) {
  // Of this warp; kWarps * kTileCols further on is its next one.
  const int first_col = item.first_col + ThreadIdx() / kWarpSize * kTileCols;
  LaneOfY y = {place.y, place.y_stride, item.num_rows, item.first_col + item.num_cols,
               IsAligned16(place.y) && place.y_stride % 4 == 0};
  for (int e = 0; e < item.num_entries; ++e) {
    const LoraExpandEntry entry = entry_of(e);
    const LoraDeviceWeights& weights = *entry.weights;
    TrapUnless(weights.rank <= entry.v_stride, "a rank of at most the plan's");
    if (weights.rank == 0) continue;
    Entry<T> of_segment = {{weights.b, weights.rank, y.end, first_col}};
    of_segment.Begin();
    const bool gains = weights.gain.num_runs > 0;
    FollowPreviousKernel();
    y.LoadAhead(first_col);
    StageV(place.v, entry, entry.weight * weights.scale, of_segment.b.rank, y.num_rows, staged);
    SyncThreads();
    of_segment.Multiply(first_col, staged, [&](int col, const TileSums& sums) {
      y.Add(col, sums);
      if (gains) GainOf<T>(weights, place.bias).Apply(y, col);
      y.LoadAhead(col + kWarps * kTileCols);
    });
    SyncThreads();
  }
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_LORA_EXPAND_TILE_CUDA_H_
