// How a block of columns is walked, whatever its weights are but FP8 and codes: for the *_cpu.cc
// files that say how a register tile of up to 6 rows is computed.
//
// K is walked in chunks so that a chunk of W stays near while all row tiles pass over it; the
// accumulators of the other tiles wait in `sums`. Meanwhile the next chunk is prefetched, a few
// lines per step, so that W streams from memory once: by a single tile, which comes to it soon,
// into L1; else into L2, as what L1 can wait for at a time is less than memory can give (on a Zen 4
// at 16 rows, 350 GFLOP/s became 420 of 450).

#ifndef ARIL_KERNELS_GEMM_GEMM_BLOCKS_H_
#define ARIL_KERNELS_GEMM_GEMM_BLOCKS_H_

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_tile.h"

namespace aril::kernels::ARIL_ISA {

enum class Nearest { kL1 = 3, kL2 = 2 };  // as __builtin_prefetch counts

// What a tile of rows meets of a block of W.
struct Chunk {
  const uint32_t* w;
  const uint32_t* x;
  int64_t steps;
  float* sums;  // [rows of the tile, T::kCols]
  bool first;   // sums start at zero
  const char* prefetch;
  int64_t prefetch_lines;  // per step
  // Of FP8 and codes: what a chunk's sums are multiplied by, [T::kCols]; and what codes stand for.
  const float* scales = nullptr;
  const float* codebook = nullptr;
  const uint16_t* codebook_bf16 = nullptr;
};

template <Nearest kNearest>
ARIL_INLINE const char* Prefetch(const char* from, int64_t lines) {
  for (int64_t line = 0; line < lines; ++line, from += 64) {
    __builtin_prefetch(from, 0, (int)kNearest);
  }
  return from;
}

template <typename T, Nearest kNearest>
ARIL_INLINE void RunTileOf(int64_t rows, const Chunk& chunk) {
  switch (rows) {
    case 1:
      return T::template RunTile<kNearest, 1>(chunk);
    case 2:
      return T::template RunTile<kNearest, 2>(chunk);
    case 3:
      return T::template RunTile<kNearest, 3>(chunk);
    case 4:
      return T::template RunTile<kNearest, 4>(chunk);
    case 5:
      return T::template RunTile<kNearest, 5>(chunk);
    default:
      return T::template RunTile<kNearest, 6>(chunk);
  }
}

// The sums of b. T has, of a step along K, kXWords and kWWords (the latter of the whole block);
// kCols, those of a block; LooksAhead, whether so many rows that are a single tile, which no other
// prefetches for meanwhile, ask for what is kAheadSteps ahead, and else for the next chunk;
// ChunkSteps, by the number of tiles; and RunTile.
template <typename T>
ARIL_INLINE void SumBlock(const GemmBlock& b) {
  constexpr int64_t kStepLines = (T::kWWords * 4 + 63) / 64;
  const int64_t tiles = GemmNumTiles(b.rows);
  const bool looks_ahead = tiles == 1 && T::LooksAhead(b.rows);
  // With several tiles, each prefetches its share of the next chunk.
  const int64_t share = (kStepLines + tiles - 1) / tiles;
  const int64_t chunk_steps = T::ChunkSteps(tiles);
  const int64_t all_steps = b.x_words / T::kXWords;
  for (int64_t step = 0; step < all_steps; step += chunk_steps) {
    const int64_t steps = Min(chunk_steps, all_steps - step);
    const uint32_t* w = b.w + step * T::kWWords;
    const char* next = (const char*)(w + (looks_ahead ? T::kAheadSteps : steps) * T::kWWords);
    int64_t lines_left = kStepLines;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t first = GemmTileFirstRow(b.rows, tile);
      const int64_t rows = GemmTileFirstRow(b.rows, tile + 1) - first;
      const int64_t lines = Min(share, lines_left);
      const Chunk chunk{.w = w,
                        .x = b.x + first * b.x_words + step * T::kXWords * rows,
                        .steps = steps,
                        .sums = b.sums + first * T::kCols,
                        .first = step == 0 && b.begins,
                        .prefetch = next,
                        .prefetch_lines = lines};
      if (looks_ahead) {
        RunTileOf<T, Nearest::kL1>(rows, chunk);
      } else {
        RunTileOf<T, Nearest::kL2>(rows, chunk);
      }
      next += lines * steps * 64;
      lines_left -= lines;
    }
  }
}

ARIL_INLINE Vu LoadWords(const uint32_t* p) {
  Vu v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

// n < kLanes: so many elements of the vector; others are zero, and not written.
ARIL_INLINE Vf LoadUpTo(const float* p, int64_t n) {
  return n >= kLanes ? Load(p) : LoadPartial(p, n);
}
ARIL_INLINE Vf LoadUpTo(const uint16_t* p, int64_t n) {
  return n >= kLanes ? LoadBf16(p) : LoadBf16Partial(p, n);
}
ARIL_INLINE void StoreUpTo(float* p, Vf v, int64_t n) {
  n >= kLanes ? Store(p, v) : StorePartial(p, v, n);
}

// Writes a row of y; the sums are floats.
ARIL_INLINE void WriteRow(const GemmBlock& b, const float* sums, int64_t row) {
  float* y = b.y + row * b.y_stride;
  for (int64_t col = 0; col < b.cols; col += kLanes) {
    const int64_t n = Min(kLanes, b.cols - col);
    Vf v = Load(sums + col);
    if (b.col_scales != nullptr) v = v * LoadUpTo(b.col_scales + col, n);
    if (b.bias != nullptr) v = v + LoadUpTo(b.bias + col, n);
    StoreUpTo(y + col, v, n);
  }
}

// What rounding values to bytes needs to know of them.
struct ByteRange {
  float scale;    // the largest magnitude over 127; not finite if a value is not
  float inverse;  // 0 if there is nothing that can be rounded: zeros, or so small that it overflows
};

template <typename T>
ARIL_INLINE ByteRange RangeOf(const T* x, int64_t size) {
  Vf largest = Zero();
  Vi has_nan = {};
  for (int64_t i = 0; i < size; i += kLanes) {
    const Vf v = LoadUpTo(x + i, size - i);
    has_nan |= (Vi)(v != v);
    largest = MaxLanes(v < 0.0f ? -v : v, largest);
  }
  float absmax = HorizontalMax(largest);
  for (int lane = 0; lane < kLanes; ++lane) {
    if (has_nan[lane] != 0) absmax = __builtin_nanf("");
  }
  // Nothing that is not finite is converted: its product would be whatever the instruction gives.
  const float inverse = 127.0f / absmax;
  const bool is_usable = absmax <= __FLT_MAX__ && inverse <= __FLT_MAX__;
  return {absmax / 127.0f, is_usable ? inverse : 0.0f};
}

// Integers nearest to `n` values times the inverse; zeros if that is 0.
template <typename T>
ARIL_INLINE Vi RoundedBytes(const T* x, int64_t n, const ByteRange& range) {
  const Vf shifter = Set(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
  const Vf v = range.inverse > 0.0f ? LoadUpTo(x, n) : Zero();
  return (Vi)(v * Set(range.inverse) + shifter) - (Vi)shifter;
}

}  // namespace aril::kernels::ARIL_ISA

#endif  // ARIL_KERNELS_GEMM_GEMM_BLOCKS_H_
