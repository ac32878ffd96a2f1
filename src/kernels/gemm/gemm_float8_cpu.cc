// One block of columns whose weights are floats of eight bits: a step is two neighbours along K,
// which become BF16, or floats beside floats, as which they are exact.
//
// Sums of a group of kFloat8GroupSize along K begin at zero, and are added to those of the groups
// before times the group's scale. So the order of additions does not depend on the batch.
//
// A single tile of rows makes what it multiplies with in registers. Several meet a group that was
// made once, while it is in L1.

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

  template <int kRows>
  ARIL_INLINE void Multiply(const Vu (&w)[kTileVectors], const uint32_t* x,
                            Vf (&acc)[kRows][kTileVectors]) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) acc[r][v] = Bfloat16::Multiply(w[v], x[r], acc[r][v]);
    }
  }
};

struct PairsByFloat32 {
  static constexpr int64_t kXWords = 2;

  template <int kRows>
  ARIL_INLINE void Multiply(const Vu (&w)[kTileVectors], const uint32_t* x,
                            Vf (&acc)[kRows][kTileVectors]) {
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        acc[r][v] = Float32::Multiply(w[v] << 16, x[r], acc[r][v]);
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
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
      X::template Multiply<kRows>(pairs, c.x + step * X::kXWords * kRows, acc);
    }
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) {
      const Vf scale = Load(c.scales + v * kLanes);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        float* const sums = c.sums + r * kTileCols + v * kLanes;
        Store(sums, Fma(acc[r][v], scale, c.first ? Zero() : Load(sums)));
      }
    }
  }
};

template <typename X>
void RunBlock(const GemmBlock& b) {
  constexpr int64_t kGroupXWords = kGroupSteps * X::kXWords;
  alignas(64) uint32_t unpacked[kGroupSteps * kTileCols];
  const int64_t tiles = GemmNumTiles(b.rows);
  for (int64_t group = 0; group < b.x_words / kGroupXWords; ++group) {
    const uint32_t* const w = b.w + group * kGroupSteps * kStepBytes / 4;
    if (tiles > 1) Unpack(w, unpacked);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t first = GemmTileFirstRow(b.rows, tile);
      const int64_t rows = GemmTileFirstRow(b.rows, tile + 1) - first;
      Chunk chunk{.w = w,
                  .x = b.x + first * b.x_words + group * kGroupXWords * rows,
                  .sums = b.sums + first * kTileCols,
                  .first = b.begins && group == 0,
                  .prefetch = (const char*)w + kGroupSteps * kStepBytes,
                  .prefetch_lines = kStepLines,
                  .scales = b.group_scales + group * b.group_scales_stride};
      if (tiles == 1) {
        RunTileOf<Group<X, FromBytes>, Nearest::kL1>(rows, chunk);
      } else {
        chunk.w = unpacked;
        chunk.prefetch_lines = 0;
        RunTileOf<Group<X, FromPairs>, Nearest::kL2>(rows, chunk);
      }
    }
  }
  for (int64_t r = 0; b.ends && r < b.rows; ++r) WriteRow(b, b.sums + r * kTileCols, r);
}

}  // namespace

extern const int64_t kGemmFloat8Lanes = kLanes;
void GemmBlockFloat8F32(const GemmBlock& block) { RunBlock<PairsByFloat32>(block); }
void GemmBlockFloat8BF16(const GemmBlock& block) { RunBlock<PairsByBfloat16>(block); }

}  // namespace aril::kernels::ARIL_ISA
