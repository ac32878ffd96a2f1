// The matrix products of attention_lanes_avx512.h with Intel AMX tiles: rows of K are tiles as they
// lie in the cache; the probabilities are turned before they meet V.

#include "kernels/attention/attention_cpu.h"

#include "kernels/attention/attention_lanes_avx512.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/transpose_avx512.h"

namespace aril::kernels::amx {
namespace {

constexpr int kTile = 16;  // queries, rows of a tile, dwords of a row
constexpr long kRowBytes = 64;
static_assert(kTile == kGroupQueries && kTile == kBlockPairs);
// Tiles of sums and of probabilities, 2 and 7, have a row for each query.
constexpr TileConfig kFewQueryTiles = {.rows = {16, 16, kFewQueries, 16, 16, 16, 16, kFewQueries}};

// Whether no value of a block is infinite or no number: their exponents are all ones.
bool AreFinite(const Values& values, int64_t value_tiles) {
  Vu exponents = {};
  for (int64_t tile = 0; tile < value_tiles; ++tile) {
    for (const auto& row : values.tiles[tile]) {
      Vu pair;
      __builtin_memcpy(&pair, row, sizeof(pair));
      exponents |= (Vu)((pair & 0x7F80) == 0x7F80) | (Vu)((pair >> 16 & 0x7F80) == 0x7F80);
    }
  }
  return _mm512_test_epi32_mask((__m512i)exponents, (__m512i)exponents) == 0;
}

// GCC 12 does not know that loading a tile reads memory: what was written must be there by then.
ARIL_INLINE void BeforeTileLoads() { asm volatile("" ::: "memory"); }

// p: BF16 [queries][tokens].
ARIL_INLINE void MultiplyTiles(const uint32_t p[kTile][kTile],
                               const uint32_t values[][kTile][kTile], int64_t value_tiles,
                               float sums[][kTile][kTile]) {
  BeforeTileLoads();
  _tile_loadd(7, p, kRowBytes);
  for (int64_t i = 0; i < value_tiles; ++i) {
    _tile_loadd(2, sums[i], kRowBytes);
    _tile_loadd(3, values[i], kRowBytes);
    _tile_dpbf16ps(2, 7, 3);
    _tile_stored(2, sums[i], kRowBytes);
  }
}

// For a block of which not every query sees every token, and in which something is not finite:
// 0 · inf is no number, so that each query needs a V without what it does not see.
__attribute__((noinline)) void MultiplyVisible(const uint32_t p[kTile][kTile], const Values& values,
                                               int64_t start, int64_t value_tiles,
                                               Queries& queries) {
  Values visible;
  alignas(64) float sums[kMaxValueTiles][kTile][kTile];
  const size_t bytes = (size_t)value_tiles * sizeof(sums[0]);
  for (int query = 0; query < kTile; ++query) {
    const int64_t first = queries.first_token[query] - start,
                  end = queries.end_token[query] - start;
    for (int64_t i = 0; i < value_tiles; ++i) {
      for (int pair = 0; pair < kTile; ++pair) {
        const uint32_t low = 2 * pair >= first && 2 * pair < end ? 0xFFFF : 0;
        const uint32_t high = 2 * pair + 1 >= first && 2 * pair + 1 < end ? 0xFFFF0000 : 0;
        for (int d = 0; d < kTile; ++d) {
          visible.tiles[i][pair][d] = values.tiles[i][pair][d] & (low | high);
        }
      }
    }
    __builtin_memcpy(sums, queries.values, bytes);
    MultiplyTiles(p, visible.tiles, value_tiles, sums);
    for (int64_t i = 0; i < value_tiles; ++i) {
      __builtin_memcpy(queries.values[i][query], sums[i][query], sizeof(sums[i][query]));
    }
  }
}

template <bool kFew>
class TileProducts {
 public:
  explicit TileProducts(const AttentionTile& t) : steps_(NumSteps(t)) {}

  void LoadBlock(const AttentionTile& t, const BlockRows& rows) {
    LoadKeys(t, rows);
    LoadValues(t, rows, values_);
  }

  void MultiplyKeys(const Queries& queries, Scores& scores) const {
    BeforeTileLoads();
    _tile_zero(0);
    _tile_zero(1);
    for (int64_t step = 0; step < steps_; ++step) {
      _tile_loadd(4, queries.q[step], kRowBytes);
      _tile_loadd(5, key_tiles_[0] + step * kRowBytes, key_row_bytes_);
      _tile_dpbf16ps(0, 5, 4);
      _tile_loadd(6, key_tiles_[1] + step * kRowBytes, key_row_bytes_);
      _tile_dpbf16ps(1, 6, 4);
    }
    _tile_stored(0, scores.rows, kRowBytes);
    _tile_stored(1, scores.rows[kTile], kRowBytes);
  }

  void AddValues(const Scores& scores, int64_t start, bool sees_all, Queries& queries) const {
    const int64_t value_tiles = 2 * steps_;
    alignas(64) uint32_t p[kTile][kTile];
    Turn(scores, p);
    if (sees_all || AreFinite(values_, value_tiles)) {
      MultiplyTiles(p, values_.tiles, value_tiles, queries.values);
    } else {
      MultiplyVisible(p, values_, start, value_tiles, queries);
    }
  }

 private:
  void LoadKeys(const AttentionTile& t, const BlockRows& rows) {
    if (KeysAreTiles(t, rows)) {
      for (int half = 0; half < 2; ++half) {
        key_tiles_[half] = rows.rows[half * kTile] + t.key_offset;
      }
      key_row_bytes_ = t.head_dim * (int64_t)sizeof(uint16_t);
      return;
    }
    const int64_t row_elements = NumSteps(t) * kStepElements;
    CopyKeys(t, rows, keys_, row_elements);
    for (int half = 0; half < 2; ++half) {
      key_tiles_[half] = reinterpret_cast<const std::byte*>(keys_ + half * kTile * row_elements);
    }
    key_row_bytes_ = row_elements * (int64_t)sizeof(uint16_t);
  }

  // Whether the tokens of a block are two tiles of K as they lie in their pages.
  static bool KeysAreTiles(const AttentionTile& t, const BlockRows& rows) {
    return rows.tokens == kBlockTokens && t.page_tokens % kTile == 0 &&
           t.head_dim % kStepElements == 0;
  }

  // The probabilities as BF16 [queries][tokens].
  static void Turn(const Scores& scores, uint32_t p[kTile][kTile]) {
    constexpr int kRows = kFew ? kFewQueries : kTile;
    __m512i pairs[kRows];
    for (int i = 0; i < kRows; ++i) pairs[i] = PairProbabilities(scores, i);
    if constexpr (kFew) {
      TransposeHalves(pairs);
    } else {
      Transpose(pairs);
    }
    for (int i = 0; i < kRows; ++i) _mm512_store_si512(p[i], pairs[i]);
  }

  int64_t steps_;
  // K, tokens [0, 16) and [16, 32): in the pages themselves where they lie there as a tile would.
  const std::byte* key_tiles_[2];
  int64_t key_row_bytes_;
  alignas(64) uint16_t keys_[kBlockTokens * kMaxHeadDim];
  Values values_;
};

}  // namespace

void AttentionTileBF16(const AttentionTile& t) {
  if (AreFew(t)) {
    ConfigureTiles(kFewQueryTiles);
    RunLanes<true, TileProducts<true>>(t);
  } else {
    ConfigureTiles();
    RunLanes<false, TileProducts<false>>(t);
  }
  _tile_release();
}

}  // namespace aril::kernels::amx
