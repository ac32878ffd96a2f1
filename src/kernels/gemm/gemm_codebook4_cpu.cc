// One block of columns whose weights are codes of four bits, of which an instruction looks up those
// of a vector of columns: floats beside x in floats, pairs of BF16 beside pairs. A step is the
// eight neighbours along K whose codes are one word.

#include "kernels/cpu/simd.h"
#include "kernels/gemm/gemm_blocks.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/gemm/gemm_groups.h"
#include "kernels/gemm/gemm_scaled_groups.h"

namespace aril::kernels::ARIL_ISA {
namespace {

constexpr int kPerWord = 8;

// One input's weights at a time, at as many places of a step.
struct Singles {
  using Product = Float32;
  using Codebook = Table;
  static constexpr int kPlaces = kPerWord;

  ARIL_INLINE Table Load(const Chunk& c) { return LoadTable(c.codebook); }
  ARIL_INLINE Vu At(const Table& codebook, Vu words, int place) {
    return (Vu)LookUp(codebook, words >> (4 * (place / 2) + 16 * (place % 2)));
  }
};

#if defined(__AVX512BF16__)
// Two inputs' weights.
struct Pairs {
  using Product = Bfloat16;
  using Codebook = Vu;
  static constexpr int kPlaces = kPerWord / 2;

  ARIL_INLINE Vu Load(const Chunk& c) { return LoadPairs(c.codebook_bf16); }
  ARIL_INLINE Vu At(Vu codebook, Vu words, int place) {
    return LookUpPairs(codebook, words >> (4 * place));
  }
};
#endif

// A chunk is a group, of so many along K.
template <typename X, int64_t kGroupSize>
struct Codebook4Groups {
  static constexpr int64_t kGroupSteps = kGroupSize / kPerWord;
  static constexpr int64_t kXWords = kGroupSteps * X::kPlaces;
  static constexpr int64_t kWWords = kTileCols * Codebook4GroupBytes(kGroupSize) / 4;
  static constexpr int64_t kNumberWords = kXWords * kTileCols;
  static constexpr int64_t kStepLines = (kTileCols * 4 + 63) / 64;

  ARIL_INLINE const float* ScalesOf(const GemmBlock& b, int64_t group) {
    return (const float*)(b.w + group * kWWords + kGroupSteps * kTileCols);
  }

  // The weights at a step's place, of columns from those of `words` on.
  template <int kVectors>
  ARIL_INLINE void WeightsAt(const typename X::Codebook& codebook, const uint32_t* words, int place,
                             Vu (&w)[kVectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      w[v] = X::At(codebook, LoadWords(words + v * kLanes), place);
    }
  }

  struct FromW {
    template <Nearest kNearest, int kRows>
    ARIL_INLINE void RunTile(const Chunk& c) {
      const typename X::Codebook codebook = X::Load(c);
      Vf acc[kRows][kTileVectors] = {};
      const char* prefetch = c.prefetch;
      for (int64_t step = 0; step < kGroupSteps; ++step) {
        prefetch = Prefetch<kNearest>(prefetch, c.prefetch_lines);
#pragma GCC unroll 8
        for (int place = 0; place < X::kPlaces; ++place) {
          Vu w[kTileVectors];
          WeightsAt(codebook, c.w + step * kTileCols, place, w);
          MultiplyWords<typename X::Product>(w, c.x + (step * X::kPlaces + place) * kRows, acc);
        }
      }
      Prefetch<kNearest>(prefetch, c.prefetch_lines);  // the scales
      AddGroup(acc, c, 0);
    }
  };

  // Of what Unpack made.
  struct FromNumbers {
    template <Nearest kNearest, int kRows>
    ARIL_INLINE void RunTile(const Chunk& c) {
      Vf acc[kRows][kTileVectors] = {};
      for (int64_t i = 0; i < kXWords; ++i) {
        Vu w[kTileVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) w[v] = LoadWords(c.w + i * kTileCols + v * kLanes);
        MultiplyWords<typename X::Product>(w, c.x + i * kRows, acc);
      }
      AddGroup(acc, c, 0);
    }
  };

  // `numbers` [kXWords, kTileCols].
  ARIL_INLINE void Unpack(const Chunk& c, uint32_t* numbers) {
    const typename X::Codebook codebook = X::Load(c);
    const char* prefetch = c.prefetch;
    for (int64_t step = 0; step < kGroupSteps; ++step) {
      prefetch = Prefetch<Nearest::kL2>(prefetch, c.prefetch_lines);
#pragma GCC unroll 8
      for (int place = 0; place < X::kPlaces; ++place) {
        Vu w[kTileVectors];
        WeightsAt(codebook, c.w + step * kTileCols, place, w);
        uint32_t* const to = numbers + (step * X::kPlaces + place) * kTileCols;
#pragma GCC unroll 4
        for (int v = 0; v < kTileVectors; ++v) __builtin_memcpy(to + v * kLanes, &w[v], sizeof(Vu));
      }
    }
    Prefetch<Nearest::kL2>(prefetch, c.prefetch_lines);
  }

  template <int kRows, int kMoreRows>
  ARIL_INLINE void RunTwoTiles(const Chunk& c, const Chunk& more) {
    const typename X::Codebook codebook = X::Load(c);
    for (int64_t col = 0; col < kTileCols; col += 2 * kLanes) {
      const char* prefetch = c.prefetch + col * 4;
      Vf acc[kRows][2] = {}, more_acc[kMoreRows][2] = {};
      for (int64_t step = 0; step < kGroupSteps; ++step) {
        Prefetch<Nearest::kL1>(prefetch + step * kTileCols * 4, 2);
#pragma GCC unroll 8
        for (int place = 0; place < X::kPlaces; ++place) {
          Vu w[2];
          WeightsAt(codebook, c.w + step * kTileCols + col, place, w);
          MultiplyWords<typename X::Product>(w, c.x + (step * X::kPlaces + place) * kRows, acc);
          MultiplyWords<typename X::Product>(w, more.x + (step * X::kPlaces + place) * kMoreRows,
                                             more_acc);
        }
      }
      Prefetch<Nearest::kL1>(prefetch + kGroupSteps * kTileCols * 4, 2);
      AddGroup(acc, c, col);
      AddGroup(more_acc, more, col);
    }
  }
};

}  // namespace

void GemmBlockCodebook4F32(const GemmBlock& block) {
  RunScaledGroups<Codebook4Groups<Singles, kCodebook4GroupSize>>(block);
}
void GemmBlockCodebook4By32F32(const GemmBlock& block) {
  RunScaledGroups<Codebook4Groups<Singles, kCodebook4SmallGroupSize>>(block);
}

#if defined(__AVX512BF16__)
extern const bool kGemmCodebook4HasPairs = true;
void GemmBlockCodebook4BF16(const GemmBlock& block) {
  RunScaledGroups<Codebook4Groups<Pairs, kCodebook4GroupSize>>(block);
}
void GemmBlockCodebook4By32BF16(const GemmBlock& block) {
  RunScaledGroups<Codebook4Groups<Pairs, kCodebook4SmallGroupSize>>(block);
}
#else
extern const bool kGemmCodebook4HasPairs = false;
void GemmBlockCodebook4BF16(const GemmBlock& block) { GemmBlockCodebook4F32(block); }
void GemmBlockCodebook4By32BF16(const GemmBlock& block) { GemmBlockCodebook4By32F32(block); }
#endif

}  // namespace aril::kernels::ARIL_ISA
