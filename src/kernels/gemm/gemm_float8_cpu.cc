// One block of columns whose weights are floats of eight bits: a step is two neighbours along K,
// which become BF16, or floats beside floats, as which they are exact.
//
// Sums of a group of kFloat8GroupSize along K begin at zero, and are added to those of the groups
// before times the group's scale. So the order of additions does not depend on the batch.
//
// A single tile of rows makes what it multiplies with in registers; so do two at once, half of the
// columns after half, where there are registers for it. More meet a group that was made once, while
// it is in L1.

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_blocks.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/gemm/gemm_groups.h"

namespace aril::kernels::ARIL_ISA {
namespace {

constexpr int64_t kGroupSteps = kFloat8GroupSize / 2;
constexpr int64_t kStepBytes = 2 * kTileCols;
// What is asked for while it is computed: some lines, or one every few steps.
constexpr int64_t kStepLines = kStepBytes < 64 ? 1 : kStepBytes / 64;
constexpr int64_t kStepsPerLine = kStepBytes < 64 ? 64 / kStepBytes : 1;

// A step's products: `w` are pairs of BF16, `x` the words of so many rows, of the first of its two
// inputs and then of the second if they are floats.
struct PairsByBfloat16 {
  static constexpr int64_t kXWords = 1;

  template <int kRows, int kVectors>
  ARIL_INLINE void Multiply(const Vu (&w)[kVectors], const uint32_t* x,
                            Vf (&acc)[kRows][kVectors]) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = Bfloat16::Multiply(w[v], x[r], acc[r][v]);
    }
  }
};

struct PairsByFloat32 {
  static constexpr int64_t kXWords = 2;

  template <int kRows, int kVectors>
  ARIL_INLINE void Multiply(const Vu (&w)[kVectors], const uint32_t* x,
                            Vf (&acc)[kRows][kVectors]) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        acc[r][v] = Float32::Multiply(w[v] << 16, x[r], acc[r][v]);
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        acc[r][v] = Float32::Multiply(w[v] & 0xFFFF0000u, x[kRows + r], acc[r][v]);
      }
    }
  }
};

// A step's pairs, from bytes or from what Unpack made of them.
struct FromBytes {
  ARIL_INLINE void Load(const uint32_t* w, int64_t step, Vu (&pairs)[kTileVectors]) {
    const uint8_t* const bytes = (const uint8_t*)w + step * kStepBytes;
#pragma GCC unroll 2
    for (int v = 0; v < kTileVectors; v += 2) {
      const TwoVectors two = LoadFloat8(bytes + 2 * v * kLanes);
      pairs[v] = two.first;
      pairs[v + 1] = two.second;
    }
  }
};

struct FromPairs {
  ARIL_INLINE void Load(const uint32_t* w, int64_t step, Vu (&pairs)[kTileVectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      pairs[v] = LoadWords(w + step * kTileCols + v * kLanes);
    }
  }
};

// `to` [kGroupSteps, kTileCols]. What comes after the group is asked for.
void Unpack(const uint32_t* w, uint32_t* to) {
  const char* next = (const char*)w + kGroupSteps * kStepBytes;
  for (int64_t step = 0; step < kGroupSteps; ++step) {
    if (step % kStepsPerLine == 0) next = Prefetch<Nearest::kL2>(next, kStepLines);
    Vu pairs[kTileVectors];
    FromBytes::Load(w, step, pairs);
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      __builtin_memcpy(to + step * kTileCols + v * kLanes, &pairs[v], sizeof(pairs[v]));
    }
  }
}

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

// A chunk is a group.
template <typename X, typename W>
struct Group {
  template <Nearest kNearest, int kRows>
  ARIL_INLINE void RunTile(const Chunk& c) {
    Vf acc[kRows][kTileVectors] = {};
    const char* prefetch = c.prefetch;
    for (int64_t step = 0; step < kGroupSteps; ++step) {
      if (step % kStepsPerLine == 0) prefetch = Prefetch<kNearest>(prefetch, c.prefetch_lines);
      Vu pairs[kTileVectors];
      W::Load(c.w, step, pairs);
      X::Multiply(pairs, c.x + step * X::kXWords * kRows, acc);
    }
    AddGroup(acc, c, 0);
  }
};

// Two tiles of 7 to 12 rows.
constexpr bool kHasRoomForTwoTiles = kTileVectors == 4;
template <typename X, int kRows, int kMoreRows>
ARIL_INLINE void RunTwoTiles(const Chunk& c, const Chunk& more) {
  const auto* const bytes = (const uint8_t*)c.w;
  for (int64_t col = 0; col < kTileCols; col += 2 * kLanes) {
    const char* prefetch = c.prefetch + 2 * col;
    Vf acc[kRows][2] = {}, more_acc[kMoreRows][2] = {};
    for (int64_t step = 0; step < kGroupSteps; ++step) {
      __builtin_prefetch(prefetch + step * kStepBytes, 0, (int)Nearest::kL1);
      const TwoVectors two = LoadFloat8(bytes + step * kStepBytes + 2 * col);
      const Vu pairs[2] = {two.first, two.second};
      X::Multiply(pairs, c.x + step * X::kXWords * kRows, acc);
      X::Multiply(pairs, more.x + step * X::kXWords * kMoreRows, more_acc);
    }
    AddGroup(acc, c, col);
    AddGroup(more_acc, more, col);
  }
}

template <typename X>
ARIL_INLINE void RunTwoTilesOf(int64_t rows, const Chunk& c, const Chunk& more) {
  switch (rows) {
    case 7:
      return RunTwoTiles<X, 4, 3>(c, more);
    case 8:
      return RunTwoTiles<X, 4, 4>(c, more);
    case 9:
      return RunTwoTiles<X, 5, 4>(c, more);
    case 10:
      return RunTwoTiles<X, 5, 5>(c, more);
    case 11:
      return RunTwoTiles<X, 6, 5>(c, more);
    default:
      return RunTwoTiles<X, 6, 6>(c, more);
  }
}

int64_t RowsOf(const GemmBlock& b, int64_t tile) {
  return GemmTileFirstRow(b.rows, tile + 1) - GemmTileFirstRow(b.rows, tile);
}

template <typename X>
void RunBlock(const GemmBlock& b) {
  constexpr int64_t kGroupXWords = kGroupSteps * X::kXWords;
  alignas(64) uint32_t unpacked[kGroupSteps * kTileCols];
  const int64_t tiles = GemmNumTiles(b.rows);
  for (int64_t group = 0; group < b.x_words / kGroupXWords; ++group) {
    const uint32_t* const w = b.w + group * kGroupSteps * kStepBytes / 4;
    const auto chunk_of = [&](int64_t tile) {
      const int64_t first = GemmTileFirstRow(b.rows, tile);
      return Chunk{.w = w,
                   .x = b.x + first * b.x_words + group * kGroupXWords * RowsOf(b, tile),
                   .sums = b.sums + first * kTileCols,
                   .first = b.begins && group == 0,
                   .prefetch = (const char*)w + kGroupSteps * kStepBytes,
                   .prefetch_lines = kStepLines,
                   .scales = b.group_scales + group * b.group_scales_stride};
    };
    if (tiles == 1) {
      RunTileOf<Group<X, FromBytes>, Nearest::kL1>(b.rows, chunk_of(0));
      continue;
    }
    if constexpr (kHasRoomForTwoTiles) {
      if (tiles == 2) {
        RunTwoTilesOf<X>(b.rows, chunk_of(0), chunk_of(1));
        continue;
      }
    }
    Unpack(w, unpacked);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      Chunk chunk = chunk_of(tile);
      chunk.w = unpacked;
      chunk.prefetch_lines = 0;
      RunTileOf<Group<X, FromPairs>, Nearest::kL2>(RowsOf(b, tile), chunk);
    }
  }
  for (int64_t r = 0; b.ends && r < b.rows; ++r) WriteRow(b, b.sums + r * kTileCols, r);
}

}  // namespace

extern const int64_t kGemmFloat8Lanes = kLanes;
void GemmBlockFloat8F32(const GemmBlock& block) { RunBlock<PairsByFloat32>(block); }
void GemmBlockFloat8BF16(const GemmBlock& block) { RunBlock<PairsByBfloat16>(block); }

}  // namespace aril::kernels::ARIL_ISA
