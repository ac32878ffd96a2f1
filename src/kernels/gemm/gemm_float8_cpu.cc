// One block of columns whose weights are floats of eight bits: a step is two neighbours along K,
// which become BF16, or floats beside floats, as which they are exact.

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_blocks.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/gemm/gemm_groups.h"
#include "kernels/gemm/gemm_scaled_groups.h"

namespace aril::kernels::ARIL_ISA {
namespace {

constexpr int64_t kGroupSteps = kFloat8GroupSize / 2;
constexpr int64_t kStepBytes = 2 * kTileCols;
// What is asked for while it is computed: some lines, or one every few steps.
constexpr int64_t kStepsPerLine = kStepBytes < 64 ? 64 / kStepBytes : 1;

// A step's products: `w` are pairs of BF16, `x` the words of so many rows, of the first of its two
// inputs and then of the second if they are floats.
struct PairsByBfloat16 {
  static constexpr int64_t kXWords = 1;

  template <int kRows, int kVectors>
  ARIL_INLINE void Multiply(const Vu (&w)[kVectors], const uint32_t* x,
                            Vf (&acc)[kRows][kVectors]) {
    MultiplyWords<Bfloat16>(w, x, acc);
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

template <typename X>
struct Float8Groups {
  static constexpr int64_t kXWords = kGroupSteps * X::kXWords;
  static constexpr int64_t kWWords = kGroupSteps * kStepBytes / 4;
  static constexpr int64_t kNumberWords = kGroupSteps * kTileCols;
  static constexpr int64_t kStepLines = kStepBytes < 64 ? 1 : kStepBytes / 64;
  using FromW = Group<X, FromBytes>;
  using FromNumbers = Group<X, FromPairs>;

  ARIL_INLINE const float* ScalesOf(const GemmBlock& b, int64_t group) {
    return b.group_scales + group * b.group_scales_stride;
  }

  // `to` [kGroupSteps, kTileCols].
  ARIL_INLINE void Unpack(const Chunk& c, uint32_t* to) {
    const char* next = c.prefetch;
    for (int64_t step = 0; step < kGroupSteps; ++step) {
      if (step % kStepsPerLine == 0) next = Prefetch<Nearest::kL2>(next, c.prefetch_lines);
      Vu pairs[kTileVectors];
      FromBytes::Load(c.w, step, pairs);
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        __builtin_memcpy(to + step * kTileCols + v * kLanes, &pairs[v], sizeof(pairs[v]));
      }
    }
  }

  template <int kRows, int kMoreRows>
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
};

}  // namespace

extern const int64_t kGemmFloat8Lanes = kLanes;
void GemmBlockFloat8F32(const GemmBlock& block) {
  RunScaledGroups<Float8Groups<PairsByFloat32>>(block);
}
void GemmBlockFloat8BF16(const GemmBlock& block) {
  RunScaledGroups<Float8Groups<PairsByBfloat16>>(block);
}

}  // namespace aril::kernels::ARIL_ISA
