// Register tiles of up to 6 rows × kTileVectors vectors of columns, where a step is a k group: in
// order, as many loads of W meet one broadcast of x per row. Each output therefore sums its
// products in the order of k, with one accumulator, whatever the number of rows: results do not
// depend on the batch.

#ifndef ARIL_KERNELS_GEMM_GEMM_GROUPS_H_
#define ARIL_KERNELS_GEMM_GEMM_GROUPS_H_

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_blocks.h"

namespace aril::kernels::ARIL_ISA {

#if defined(__AVX512BF16__)
inline constexpr int kTileVectors = 4;
#else
inline constexpr int kTileVectors = 2;
#endif
inline constexpr int kTileCols = kTileVectors * kLanes;
// 16 KiB with AVX-512 are in L1 for a few tiles; for many it costs more that sums are stored and
// loaded again with each chunk than that W comes from L2 (512 rows on a Zen 4: 0.97 of the time).
inline constexpr int64_t kManyTiles = 7;

struct Float32 {
  static constexpr bool kIsInteger = false;
  ARIL_INLINE Vf Multiply(Vu w, uint32_t x, Vf acc) {
    return Fma((Vf)w, Set(__builtin_bit_cast(float, x)), acc);
  }
};

// The accumulators are integers, in the bits of floats.
struct Bytes {
  static constexpr bool kIsInteger = true;
  ARIL_INLINE Vf Multiply(Vu w, uint32_t x, Vf acc) { return DotBytes(x - Vu{}, w, acc); }
};

struct Bfloat16 {
  static constexpr bool kIsInteger = false;
  ARIL_INLINE Vf Multiply(Vu w, uint32_t x, Vf acc) { return DotPairs(w, x - Vu{}, acc); }
};

// Adds the products of vectors of columns with the words of so many rows.
template <typename T, int kRows, int kVectors>
ARIL_INLINE void MultiplyWords(const Vu (&w)[kVectors], const uint32_t* x,
                               Vf (&acc)[kRows][kVectors]) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[r][v] = T::Multiply(w[v], x[r], acc[r][v]);
  }
}

// A step is a k group.
template <typename T>
struct Groups {
  static constexpr int64_t kCols = kTileCols;
  static constexpr int64_t kXWords = 1;
  static constexpr int64_t kWWords = kTileCols;
  static constexpr int64_t kAheadSteps = 16;  // 4 KiB with AVX-512
  ARIL_INLINE bool LooksAhead(int64_t) { return true; }
  ARIL_INLINE int64_t ChunkSteps(int64_t tiles) { return tiles < kManyTiles ? 64 : 128; }

  template <Nearest kNearest, int kRows>
  ARIL_INLINE void RunTile(const Chunk& c) {
    Vf acc[kRows][kTileVectors];
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        acc[r][v] = c.first ? Zero() : Load(c.sums + r * kTileCols + v * kLanes);
      }
    }
    const uint32_t* w = c.w;
    const uint32_t* x = c.x;
    const char* prefetch = c.prefetch;
    for (int64_t step = 0; step < c.steps; ++step) {
      prefetch = Prefetch<kNearest>(prefetch, c.prefetch_lines);
      Vu weights[kTileVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) weights[v] = LoadWords(w + v * kLanes);
      MultiplyWords<T>(weights, x, acc);
      w += kTileCols;
      x += kRows;
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) Store(c.sums + r * kTileCols + v * kLanes, acc[r][v]);
    }
  }
};

}  // namespace aril::kernels::ARIL_ISA

#endif  // ARIL_KERNELS_GEMM_GEMM_GROUPS_H_
