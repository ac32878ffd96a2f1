// How a block of columns is walked whose weights become numbers a group along K at a time, and have
// a scale for each group: FP8 and codes.
//
// Sums of a group begin at zero, and are added to those of the groups before times the group's
// scale. So the order of additions does not depend on the batch.
//
// A single tile of rows makes what it multiplies with in registers; so do two at once, half of the
// columns after half, where there are registers for it. More meet a group that was made once, while
// it is in L1.

#ifndef ARIL_KERNELS_GEMM_GEMM_SCALED_GROUPS_H_
#define ARIL_KERNELS_GEMM_GEMM_SCALED_GROUPS_H_

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_blocks.h"
#include "kernels/gemm/gemm_groups.h"

namespace aril::kernels::ARIL_ISA {

// Adds the sums of a group, of columns from `col` on.
template <int kRows, int kVectors>
ARIL_INLINE void AddGroup(const Vf (&acc)[kRows][kVectors], const Chunk& c, int64_t col) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = col + v * kLanes;
    const Vf scale = Load(c.scales + at);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      float* const sums = c.sums + r * kTileCols + at;
      Store(sums, Fma(acc[r][v], scale, c.first ? Zero() : Load(sums)));
    }
  }
}

constexpr bool kHasRoomForTwoTiles = kTileVectors == 4;

// Two tiles of 7 to 12 rows.
template <typename T>
ARIL_INLINE void RunTwoTilesOf(int64_t rows, const Chunk& c, const Chunk& more) {
  switch (rows) {
    case 7:
      return T::template RunTwoTiles<4, 3>(c, more);
    case 8:
      return T::template RunTwoTiles<4, 4>(c, more);
    case 9:
      return T::template RunTwoTiles<5, 4>(c, more);
    case 10:
      return T::template RunTwoTiles<5, 5>(c, more);
    case 11:
      return T::template RunTwoTiles<6, 5>(c, more);
    default:
      return T::template RunTwoTiles<6, 6>(c, more);
  }
}

ARIL_INLINE int64_t RowsOf(const GemmBlock& b, int64_t tile) {
  return GemmTileFirstRow(b.rows, tile + 1) - GemmTileFirstRow(b.rows, tile);
}

// T has, of a group, kXWords of a row, kWWords of the block and kNumberWords of what Unpack makes
// of these; ScalesOf; FromW and FromNumbers, whose RunTile multiplies with the former or the
// latter; RunTwoTiles; and how many lines of the next group a step of FromW asks for, kStepLines.
template <typename T>
ARIL_INLINE void RunScaledGroups(const GemmBlock& b) {
  alignas(64) uint32_t numbers[T::kNumberWords];
  const int64_t tiles = GemmNumTiles(b.rows);
  for (int64_t group = 0; group < b.x_words / T::kXWords; ++group) {
    const uint32_t* const w = b.w + group * T::kWWords;
    const auto chunk_of = [&](int64_t tile) __attribute__((always_inline)) {
      const int64_t first = GemmTileFirstRow(b.rows, tile);
      return Chunk{.w = w,
                   .x = b.x + first * b.x_words + group * T::kXWords * RowsOf(b, tile),
                   .sums = b.sums + first * kTileCols,
                   .first = b.begins && group == 0,
                   .prefetch = (const char*)(w + T::kWWords),
                   .prefetch_lines = T::kStepLines,
                   .scales = T::ScalesOf(b, group),
                   .codebook = b.codebook,
                   .codebook_bf16 = b.codebook_bf16};
    };
    if (tiles == 1) {
      RunTileOf<typename T::FromW, Nearest::kL1>(b.rows, chunk_of(0));
      continue;
    }
    if constexpr (kHasRoomForTwoTiles) {
      if (tiles == 2) {
        RunTwoTilesOf<T>(b.rows, chunk_of(0), chunk_of(1));
        continue;
      }
    }
    T::Unpack(chunk_of(0), numbers);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      Chunk chunk = chunk_of(tile);
      chunk.w = numbers;
      chunk.prefetch_lines = 0;
      RunTileOf<typename T::FromNumbers, Nearest::kL2>(RowsOf(b, tile), chunk);
    }
  }
  for (int64_t r = 0; b.ends && r < b.rows; ++r) WriteRow(b, b.sums + r * kTileCols, r);
}

}  // namespace aril::kernels::ARIL_ISA

#endif  // ARIL_KERNELS_GEMM_GEMM_SCALED_GROUPS_H_
