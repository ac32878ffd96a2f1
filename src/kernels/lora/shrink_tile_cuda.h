// A shrink's tile: products of up to 32 rows of x with up to 16 rows of a matrix, over any chunks
// of `in`, in the order of additions that lora_cuda.h describes. Only .cu files include this.
// How operands lie in registers stands in lora_cuda.cu.

#ifndef ARIL_KERNELS_LORA_SHRINK_TILE_CUDA_H_
#define ARIL_KERNELS_LORA_SHRINK_TILE_CUDA_H_

#include "kernels/cuda/elements.h"
#include "kernels/lora/matrix_rows_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

// Of a block that computes such tiles.
inline constexpr int kThreads = 128;
inline constexpr int kWarps = kThreads / kWarpSize;
static_assert(kWarps * kLoraSlice == kLoraChunk);

inline constexpr int kSlots = kLoraShrinkRows / 8;  // instructions of 8 rows
inline constexpr int kSteps = kLoraSlice / 32;      // two instructions each
// Floats from one row of a tile in shared memory to the next: with 20 no two lanes of a store share
// a bank.
inline constexpr int kTileStride = 20;
inline constexpr int kTileFloats = 8 * kTileStride;

// Where an item's rows of x are: one behind the other, or those that are listed.
template <typename T>
struct RowsBehindOneAnother {
  using Element = T;
  const Element* x;  // the first
  int64_t stride;

  ARIL_DEVICE const Element* Row(int row) const { return x + row * stride; }
};
template <typename T>
struct ListedRows {
  using Element = T;
  const Element* x;
  int64_t stride;
  const int32_t* rows;

  ARIL_DEVICE const Element* Row(int row) const { return x + rows[row] * stride; }
};

// One slice of the products of up to 16 ranks with up to 32 rows.
template <typename Rows>
struct Slice {
  using Element = typename Rows::Element;
  const Element* a[2];  // ranks g and g + 8 of the tile, or null
  Rows x;
  int num_rows;
  int first;  // of `in`
  int in;
  bool aligned;

  ARIL_DEVICE const Element* Row(int row) const { return row < num_rows ? x.Row(row) : nullptr; }
};

// All of A is on its way before the first product. The same arithmetic as below.
template <typename T, typename Rows>
ARIL_DEVICE void MultiplyWholeSlice(const Slice<Rows>& slice, float (&sums)[kSlots][4]) {
  const int lane = ThreadIdx() % kWarpSize;
  const int first = slice.first + lane % 4 * 8;
  Vector16 a[2][kSteps];
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[i][s] = {};
      if (slice.a[i] != nullptr) a[i][s] = LoadWeights16(slice.a[i] + first + 32 * s);
    }
  }
  FollowPreviousKernel();
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    if (slot * 8 >= slice.num_rows) break;
    const uint16_t* row = slice.Row(slot * 8 + lane / 4);
    Vector16 x[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      x[s] = {};
      if (row != nullptr) x[s] = Load16(row + first + 32 * s);
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) TwoInstructions<T>(a[0][s], a[1][s], x[s], sums[slot]);
  }
}

// For the end of `in`, and rows that are not aligned.
template <typename Rows>
ARIL_DEVICE Vector16 LoadRagged(const Slice<Rows>& slice, const uint16_t* row, int first) {
  if (row != nullptr && slice.aligned && first + 8 <= slice.in) return Load16(row + first);
  return LoadEight(row, first, slice.in);
}
template <typename T, typename Rows>
ARIL_DEVICE void MultiplyRaggedSlice(const Slice<Rows>& slice, float (&sums)[kSlots][4]) {
  FollowPreviousKernel();
  const int lane = ThreadIdx() % kWarpSize;
#pragma unroll 1
  for (int s = 0; s < kSteps; ++s) {
    const int first = slice.first + 32 * s + lane % 4 * 8;
    const Vector16 low = LoadRagged(slice, slice.a[0], first);
    const Vector16 high = LoadRagged(slice, slice.a[1], first);
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      if (slot * 8 >= slice.num_rows) break;
      const Vector16 x = LoadRagged(slice, slice.Row(slot * 8 + lane / 4), first);
      TwoInstructions<T>(low, high, x, sums[slot]);
    }
  }
}

template <typename T, typename Rows>
ARIL_DEVICE void Multiply(T, const Slice<Rows>& slice, float (&sums)[kSlots][4]) {
  if (slice.aligned && slice.first + kLoraSlice <= slice.in) {
    MultiplyWholeSlice<T>(slice, sums);
  } else {
    MultiplyRaggedSlice<T>(slice, sums);
  }
}

// In fp32 there is no matrix instruction that keeps all bits; each lane adds up, in order, what it
// would hold after one.
template <typename Rows>
ARIL_DEVICE void Multiply(F32, const Slice<Rows>& slice, float (&sums)[kSlots][4]) {
  FollowPreviousKernel();
  const int lane = ThreadIdx() % kWarpSize;
  const int end = slice.first + kLoraSlice < slice.in ? slice.first + kLoraSlice : slice.in;
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    if (slot * 8 >= slice.num_rows) break;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* a = slice.a[i / 2];
      const float* x = slice.Row(slot * 8 + lane % 4 * 2 + i % 2);
      if (a == nullptr || x == nullptr) continue;
      for (int k = slice.first; k < end; ++k)
        sums[slot][i] = MultiplyAdd(a[k], x[k], sums[slot][i]);
    }
  }
}

// The sums of this warp's slice, as [row, rank] tiles of 8 rows, where the other warps find them.
ARIL_DEVICE void StoreTiles(const float (&sums)[kSlots][4], int num_rows, float* tiles) {
  const int lane = ThreadIdx() % kWarpSize;
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    if (slot * 8 >= num_rows) break;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane % 4 * 2 + i % 2, rank = lane / 4 + i / 2 * 8;
      tiles[slot * kTileFloats + row * kTileStride + rank] = sums[slot][i];
    }
  }
}

// Shared memory of ShrinkTile.
inline constexpr size_t kShrinkTileBytes = kWarps * kSlots * kTileFloats * sizeof(float);

// totals[slot] is this thread's element of the products: row slot · 8 + thread / 16 of x, row
// thread % 16 of the matrix. All threads of the block take part. Follows the previous kernel once
// the matrix's first elements are under way.
template <typename T, typename Rows>
ARIL_DEVICE void ShrinkTile(Slice<Rows>& slice, int first_chunk, int num_chunks, float* tiles,
                            float (&totals)[kSlots]) {
  const int thread = ThreadIdx(), warp = thread / kWarpSize;
  for (int chunk = first_chunk; chunk < first_chunk + num_chunks; ++chunk) {
    float sums[kSlots][4] = {};
    slice.first = chunk * kLoraChunk + warp * kLoraSlice;
    if (slice.first < slice.in) Multiply(T{}, slice, sums);
    StoreTiles(sums, slice.num_rows, tiles + warp * kSlots * kTileFloats);
    SyncThreads();
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      if (slot * 8 >= slice.num_rows) break;
      const float* tile = tiles + slot * kTileFloats + thread / 16 * kTileStride + thread % 16;
      float sum = tile[0];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum += tile[w * kSlots * kTileFloats];
      totals[slot] += sum;
    }
    SyncThreads();
  }
}

// Up to 16 ranks of an item's rows, and where V is: of the first row, rank 0.
struct ShrinkPlace {
  int num_rows;
  int in;
  bool x_aligned16;  // every row begins at a multiple of 16 bytes
  int first_rank;
  int first_chunk;
  int num_chunks;
  float* v;
  int64_t v_stride;
};

// Those of the ranks that the adapter has, at least one. All threads of the block take part; shared
// memory is ShrinkTile's.
template <typename T, typename Rows>
ARIL_DEVICE void ShrinkItem(const ShrinkPlace& place, const LoraDeviceWeights& weights,
                            const Rows& x, float* tiles) {
  using Element = typename T::Element;
  const int rank = weights.rank, thread = ThreadIdx(), group = thread % kWarpSize / 4;
  Slice<Rows> slice = {{RowOf<Element>(weights.a, rank, place.first_rank + group),
                        RowOf<Element>(weights.a, rank, place.first_rank + group + 8)},
                       x,
                       place.num_rows,
                       0,
                       place.in,
                       weights.a.aligned16 != 0 && place.x_aligned16};
  float totals[kSlots] = {};
  ShrinkTile<T>(slice, place.first_chunk, place.num_chunks, tiles, totals);
  const int of_rank = place.first_rank + thread % 16;
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    const int row = slot * 8 + thread / 16;
    if (row < place.num_rows && of_rank < rank) {
      place.v[row * place.v_stride + of_rank] = totals[slot];
    }
  }
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_LORA_SHRINK_TILE_CUDA_H_
