// One block of columns whose weights are codes of four bits: floats of a codebook, which a register
// or two hold. A step is the eight neighbours along K whose codes are one word; x is floats.
// (Products of BF16 would take two for each, as the codebook has more bits than it.)

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_blocks.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/gemm/gemm_groups.h"
#include "kernels/gemm/gemm_scaled_groups.h"

namespace aril::kernels::ARIL_ISA {
namespace {

constexpr int kPerWord = 8;
constexpr int64_t kGroupSteps = kCodebook4GroupSize / kPerWord;

template <int kRows, int kVectors>
ARIL_INLINE void Multiply(const Vf (&w)[kVectors], const uint32_t* x, Vf (&acc)[kRows][kVectors]) {
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[r][v] = Float32::Multiply((Vu)w[v], x[r], acc[r][v]);
  }
}

// The weights of the step's `place`, of columns from those of `words` on.
template <int kVectors>
ARIL_INLINE void LookUpPlace(const Table& table, const uint32_t* words, int place,
                             Vf (&w)[kVectors]) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    w[v] = LookUp(table, LoadWords(words + v * kLanes) >> (4 * place));
  }
}

// A chunk is a group.
struct Codebook4Groups {
  static constexpr int64_t kXWords = kCodebook4GroupSize;
  static constexpr int64_t kWWords = kTileCols * kCodebook4GroupBytes / 4;
  static constexpr int64_t kNumberWords = kCodebook4GroupSize * kTileCols;
  static constexpr int64_t kStepLines = (kTileCols * 4 + 63) / 64;

  ARIL_INLINE const float* ScalesOf(const GemmBlock& b, int64_t group) {
    return (const float*)(b.w + group * kWWords + kGroupSteps * kTileCols);
  }

  struct FromW {
    template <Nearest kNearest, int kRows>
    ARIL_INLINE void RunTile(const Chunk& c) {
      const Table table = LoadTable(c.codebook);
      Vf acc[kRows][kTileVectors] = {};
      const char* prefetch = c.prefetch;
      for (int64_t step = 0; step < kGroupSteps; ++step) {
        prefetch = Prefetch<kNearest>(prefetch, c.prefetch_lines);
#pragma GCC unroll 8
        for (int place = 0; place < kPerWord; ++place) {
          Vf w[kTileVectors];
          LookUpPlace(table, c.w + step * kTileCols, place, w);
          Multiply(w, c.x + (step * kPerWord + place) * kRows, acc);
        }
      }
      Prefetch<kNearest>(prefetch, c.prefetch_lines);  // the scales
      AddGroup(acc, c, 0);
    }
  };

  // `numbers` [kCodebook4GroupSize, kTileCols].
  struct FromNumbers {
    template <Nearest kNearest, int kRows>
    ARIL_INLINE void RunTile(const Chunk& c) {
      Vf acc[kRows][kTileVectors] = {};
      for (int64_t k = 0; k < kCodebook4GroupSize; ++k) {
        Vf w[kTileVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) {
          w[v] = (Vf)LoadWords(c.w + k * kTileCols + v * kLanes);
        }
        Multiply(w, c.x + k * kRows, acc);
      }
      AddGroup(acc, c, 0);
    }
  };

  ARIL_INLINE void Unpack(const Chunk& c, uint32_t* numbers) {
    const Table table = LoadTable(c.codebook);
    const char* prefetch = c.prefetch;
    for (int64_t step = 0; step < kGroupSteps; ++step) {
      prefetch = Prefetch<Nearest::kL2>(prefetch, c.prefetch_lines);
#pragma GCC unroll 8
      for (int place = 0; place < kPerWord; ++place) {
        Vf w[kTileVectors];
        LookUpPlace(table, c.w + step * kTileCols, place, w);
        auto* const to = (float*)numbers + (step * kPerWord + place) * kTileCols;
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) Store(to + v * kLanes, w[v]);
      }
    }
    Prefetch<Nearest::kL2>(prefetch, c.prefetch_lines);
  }

  template <int kRows, int kMoreRows>
  ARIL_INLINE void RunTwoTiles(const Chunk& c, const Chunk& more) {
    const Table table = LoadTable(c.codebook);
    for (int64_t col = 0; col < kTileCols; col += 2 * kLanes) {
      const char* prefetch = c.prefetch + col * 4;
      Vf acc[kRows][2] = {}, more_acc[kMoreRows][2] = {};
      for (int64_t step = 0; step < kGroupSteps; ++step) {
        Prefetch<Nearest::kL1>(prefetch + step * kTileCols * 4, 2);
#pragma GCC unroll 8
        for (int place = 0; place < kPerWord; ++place) {
          Vf w[2];
          LookUpPlace(table, c.w + step * kTileCols + col, place, w);
          Multiply(w, c.x + (step * kPerWord + place) * kRows, acc);
          Multiply(w, more.x + (step * kPerWord + place) * kMoreRows, more_acc);
        }
      }
      Prefetch<Nearest::kL1>(prefetch + kGroupSteps * kTileCols * 4, 2);
      AddGroup(acc, c, col);
      AddGroup(more_acc, more, col);
    }
  }
};

}  // namespace

void GemmBlockCodebook4(const GemmBlock& block) { RunScaledGroups<Codebook4Groups>(block); }

}  // namespace aril::kernels::ARIL_ISA
