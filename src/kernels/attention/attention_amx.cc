// Up to 64 queries over the whole context of a sequence, in BF16, with Intel AMX tiles: 16 queries
// × 32 tokens at a time, with an online softmax (Milakov and Gimelshein, 2018).
//
// Scores are computed transposed, Sᵀ = K · Qᵀ [tokens, queries]: rows of K are tiles as they lie in
// the cache, and the softmax of 16 queries is arithmetic between vectors that have a lane for each.
// The probabilities, rounded to BF16, are turned and multiplied with V.
//
// Every step of a query's arithmetic depends on its own position only: the blocks it meets, the
// tokens of a block that it may see, and the order of additions. A block of which a query sees
// nothing leaves its state as it was, bit for bit.

#include "kernels/attention/attention_cpu.h"

#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/simd.h"
#include "kernels/rope/rope_tile.h"

namespace aril::kernels::amx {
namespace {

constexpr int kTile = 16;          // queries, rows of a tile, dwords of a row
constexpr int kBlockTokens = 32;   // two tiles of scores
constexpr int kStepElements = 32;  // along head_dim
constexpr int kMaxSteps = kMaxHeadDim / kStepElements;
constexpr int kMaxValueTiles = kMaxHeadDim / kTile;
constexpr int kMaxQueryTiles = kAttentionAmxQueries / kTile;
constexpr long kRowBytes = 64;
constexpr float kInfinity = __builtin_inff();

// K and V of a block as tiles; tokens and dimensions that do not exist are zero.
struct Block {
  alignas(64) uint16_t keys[kMaxSteps][kBlockTokens][kStepElements];
  alignas(64) uint32_t values[kMaxValueTiles][kTile][kTile];  // [pair of tokens][dimension]
  bool is_finite;                                             // V
};

// 16 queries, those after the last like the first, and their running softmax.
struct Queries {
  alignas(64) uint32_t q[kMaxSteps][kTile][kTile];         // Qᵀ: [pair along head_dim][query]
  alignas(64) float values[kMaxValueTiles][kTile][kTile];  // Σ p · V so far: [query][dimension]
  Vf max;
  Vf sum;
  Vi first_token;  // visible: [first_token, end_token)
  Vi end_token;
  // Over the 16: what one of them sees, and what all of them see.
  int64_t begin, end, all_begin, all_end;
};

ARIL_INLINE int64_t NumSteps(const AttentionTile& t) {
  return (t.head_dim + kStepElements - 1) / kStepElements;
}
ARIL_INLINE int64_t NumValueTiles(const AttentionTile& t) {
  return (t.head_dim + kTile - 1) / kTile;
}

ARIL_INLINE int64_t ElementOffset(const AttentionTile& t, int64_t number) {
  return number / t.group * t.row_stride + number % t.group * t.head_dim;
}

// A token's row of keys or values, by the offset of theirs in a page.
ARIL_INLINE const uint16_t* TokenRow(const AttentionTile& t, int64_t token, int64_t offset) {
  const std::byte* page = t.pages[token / t.page_tokens];
  return reinterpret_cast<const uint16_t*>(page + offset) + token % t.page_tokens * t.head_dim;
}

// The elements [first, first + 32) of a row of head_dim, zeros after its end.
ARIL_INLINE Vu LoadRowPart(const uint16_t* row, int64_t first, int64_t head_dim) {
  const int64_t left = head_dim - first;
  return left >= kPairLanes ? LoadPairs(row + first) : LoadPairsPartial(row + first, left);
}

void LoadBlock(const AttentionTile& t, int64_t start, int64_t tokens, Block& block) {
  const int64_t steps = NumSteps(t);
  Vu exponents = {};  // all ones where a value is infinite or no number
  for (int64_t pair = 0; pair < kTile; ++pair) {
    const uint16_t* value_rows[2];
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t token = 2 * pair + i;
      const bool exists = token < tokens;
      const uint16_t* keys = exists ? TokenRow(t, start + token, t.key_offset) : nullptr;
      value_rows[i] = exists ? TokenRow(t, start + token, t.value_offset) : nullptr;
      for (int64_t step = 0; step < steps; ++step) {
        const Vu part = exists ? LoadRowPart(keys, step * kStepElements, t.head_dim) : Vu{};
        __builtin_memcpy(block.keys[step][token], &part, sizeof(part));
      }
    }
    for (int64_t step = 0; step < steps; ++step) {
      Vu rows[2];
      for (int i = 0; i < 2; ++i) {
        rows[i] = value_rows[i] != nullptr
                      ? LoadRowPart(value_rows[i], step * kStepElements, t.head_dim)
                      : Vu{};
        exponents |= (Vu)((rows[i] & 0x7F80) == 0x7F80) | (Vu)((rows[i] >> 16 & 0x7F80) == 0x7F80);
      }
      for (int half = 0; half < 2; ++half) {
        const __m256i low = half == 0 ? _mm512_castsi512_si256((__m512i)rows[0])
                                      : _mm512_extracti64x4_epi64((__m512i)rows[0], 1);
        const __m256i high = half == 0 ? _mm512_castsi512_si256((__m512i)rows[1])
                                       : _mm512_extracti64x4_epi64((__m512i)rows[1], 1);
        const __m512i pairs = _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                                              _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
        _mm512_store_si512(block.values[2 * step + half][pair], pairs);
      }
    }
  }
  block.is_finite = _mm512_test_epi32_mask((__m512i)exponents, (__m512i)exponents) == 0;
}

void LoadQueries(const AttentionTile& t, int64_t first, Queries& queries) {
  const int64_t count = Min(kTile, t.num_queries - first);
  queries.max = Set(-kInfinity);
  queries.sum = Zero();
  queries.begin = queries.all_end = INT64_MAX;
  queries.end = queries.all_begin = 0;
  for (int64_t lane = 0; lane < kTile; ++lane) {
    const int64_t number = t.first_query + first + (lane < count ? lane : 0);
    const int64_t position = t.first_position + number / t.group;
    const int64_t begin = Max(0, position + 1 - t.window), end = position + 1;
    queries.first_token[lane] = (int32_t)begin;
    queries.end_token[lane] = (int32_t)end;
    queries.begin = Min(queries.begin, begin);
    queries.end = Max(queries.end, end);
    queries.all_begin = Max(queries.all_begin, begin);
    queries.all_end = Min(queries.all_end, end);
    const uint16_t* q = static_cast<const uint16_t*>(t.q) + ElementOffset(t, number);
    for (int64_t step = 0; step < NumSteps(t); ++step) {
      const Vu part = LoadRowPart(q, step * kStepElements, t.head_dim);
      for (int pair = 0; pair < kTile; ++pair) queries.q[step][pair][lane] = part[pair];
    }
  }
  __builtin_memset(queries.values, 0, (size_t)NumValueTiles(t) * sizeof(queries.values[0]));
}

// scores [tokens][queries], not yet scaled.
ARIL_INLINE void MultiplyKeys(const Block& block, const Queries& queries, int64_t steps,
                              float scores[kBlockTokens][kTile]) {
  _tile_zero(0);
  _tile_zero(1);
  for (int64_t step = 0; step < steps; ++step) {
    _tile_loadd(4, queries.q[step], kRowBytes);
    _tile_loadd(5, block.keys[step], kRowBytes);
    _tile_dpbf16ps(0, 5, 4);
    _tile_loadd(6, block.keys[step][kTile], kRowBytes);
    _tile_dpbf16ps(1, 6, 4);
  }
  _tile_stored(0, scores, kRowBytes);
  _tile_stored(1, scores[kTile], kRowBytes);
}

ARIL_INLINE Vi IsVisible(const Queries& queries, int64_t token) {
  return (queries.first_token <= (int32_t)token) & (queries.end_token > (int32_t)token);
}

// Scales the scores and makes probabilities of them; folds them into the running maximum and sum.
// Returns by what the values so far are to be multiplied.
ARIL_INLINE Vf FoldScores(const AttentionTile& t, int64_t start, bool sees_all, Queries& queries,
                          float scores[kBlockTokens][kTile]) {
  const Vf scale = Set(t.scale);
  Vf max = queries.max;
  for (int64_t i = 0; i < kBlockTokens; ++i) {
    Vf score = Load(scores[i]) * scale;
    if (!sees_all) score = IsVisible(queries, start + i) ? score : Set(-kInfinity);
    Store(scores[i], score);
    max = MaxLanes(score, max);
  }
  Vf sum = Zero();
  for (int64_t i = 0; i < kBlockTokens; ++i) {
    Vf p = Exp(Load(scores[i]) - max);
    // Who has seen nothing yet has the maximum -inf, of which no difference is a number.
    if (!sees_all) p = IsVisible(queries, start + i) ? p : Zero();
    Store(scores[i], p);
    sum = sum + p;
  }
  const Vf correction = queries.max == max ? Set(1.0f) : Exp(queries.max - max);
  queries.sum = queries.sum * correction + sum;
  queries.max = max;
  return correction;
}

ARIL_INLINE void Transpose(__m512i rows[kTile]) {
  __m512i a[kTile], b[kTile];
#pragma GCC unroll 8
  for (int i = 0; i < kTile; i += 2) {
    a[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kTile; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  // b[4i + j] has column 4c + j of the rows 4i … 4i + 3 in its quarter c.
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    a[j] = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x88);
    a[4 + j] = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xDD);
    a[8 + j] = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x88);
    a[12 + j] = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xDD);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    rows[j] = _mm512_shuffle_i32x4(a[j], a[8 + j], 0x88);
    rows[8 + j] = _mm512_shuffle_i32x4(a[j], a[8 + j], 0xDD);
    rows[4 + j] = _mm512_shuffle_i32x4(a[4 + j], a[12 + j], 0x88);
    rows[12 + j] = _mm512_shuffle_i32x4(a[4 + j], a[12 + j], 0xDD);
  }
}

// The probabilities [tokens][queries] as BF16 [queries][tokens].
ARIL_INLINE void TurnProbabilities(const float scores[kBlockTokens][kTile],
                                   uint32_t p[kTile][kTile]) {
  __m512i pairs[kTile];
  for (int i = 0; i < kTile; ++i) {
    const auto low = (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(scores[2 * i]));
    const auto high = (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(scores[2 * i + 1]));
    pairs[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
  }
  Transpose(pairs);
  for (int i = 0; i < kTile; ++i) _mm512_store_si512(p[i], pairs[i]);
}

ARIL_INLINE void AddValues(const uint32_t p[kTile][kTile], const uint32_t values[][kTile][kTile],
                           int64_t value_tiles, float sums[][kTile][kTile]) {
  _tile_loadd(7, p, kRowBytes);
  for (int64_t i = 0; i < value_tiles; ++i) {
    _tile_loadd(2, sums[i], kRowBytes);
    _tile_loadd(3, values[i], kRowBytes);
    _tile_dpbf16ps(2, 7, 3);
    _tile_stored(2, sums[i], kRowBytes);
  }
}

// The same for a block of which not every query sees every token, and in which something is not
// finite: 0 · inf is no number, so that each query needs a V without what it does not see.
__attribute__((noinline)) void AddVisibleValues(const uint32_t p[kTile][kTile], const Block& block,
                                                int64_t start, int64_t value_tiles,
                                                Queries& queries) {
  alignas(64) uint32_t visible[kMaxValueTiles][kTile][kTile];
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
          visible[i][pair][d] = block.values[i][pair][d] & (low | high);
        }
      }
    }
    __builtin_memcpy(sums, queries.values, bytes);
    AddValues(p, visible, value_tiles, sums);
    for (int64_t i = 0; i < value_tiles; ++i) {
      __builtin_memcpy(queries.values[i][query], sums[i][query], sizeof(sums[i][query]));
    }
  }
}

void MeetBlock(const AttentionTile& t, int64_t start, const Block& block, Queries& queries) {
  alignas(64) float scores[kBlockTokens][kTile];
  alignas(64) uint32_t p[kTile][kTile];
  const bool sees_all = start >= queries.all_begin && start + kBlockTokens <= queries.all_end;
  const int64_t value_tiles = NumValueTiles(t);
  MultiplyKeys(block, queries, NumSteps(t), scores);
  const Vf correction = FoldScores(t, start, sees_all, queries, scores);
  if (_mm512_cmpneq_ps_mask((__m512)correction, _mm512_set1_ps(1.0f)) != 0) {
    for (int64_t i = 0; i < value_tiles; ++i) {
      for (int query = 0; query < kTile; ++query) {
        float* row = queries.values[i][query];
        Store(row, Load(row) * correction[query]);
      }
    }
  }
  TurnProbabilities(scores, p);
  if (sees_all || block.is_finite) {
    AddValues(p, block.values, value_tiles, queries.values);
  } else {
    AddVisibleValues(p, block, start, value_tiles, queries);
  }
}

void WriteQueries(const AttentionTile& t, int64_t first, const Queries& queries) {
  const int64_t count = Min(kTile, t.num_queries - first);
  for (int64_t query = 0; query < count; ++query) {
    uint16_t* out = static_cast<uint16_t*>(t.out) + ElementOffset(t, t.first_query + first + query);
    const Vf inverse = Set(1.0f / queries.sum[query]);
    for (int64_t d = 0; d < t.head_dim; d += kTile) {
      const Vf values = Load(queries.values[d / kTile][query]) * inverse;
      if (t.head_dim - d >= kTile) {
        StoreBf16(out + d, values);
      } else {
        StoreBf16Partial(out + d, values, t.head_dim - d);
      }
    }
  }
}

}  // namespace

void AttentionTileBF16(const AttentionTile& t) {
  ConfigureTiles();
  Queries queries[kMaxQueryTiles];
  Block block;
  const int64_t tiles = (t.num_queries + kTile - 1) / kTile;
  for (int64_t i = 0; i < tiles; ++i) LoadQueries(t, i * kTile, queries[i]);
  // Positions rise from query to query: the first sees the earliest token, the last the latest.
  const int64_t end = queries[tiles - 1].end;
  for (int64_t start = queries[0].begin / kBlockTokens * kBlockTokens; start < end;
       start += kBlockTokens) {
    LoadBlock(t, start, Min(kBlockTokens, end - start), block);
    for (int64_t i = 0; i < tiles; ++i) {
      if (queries[i].begin < start + kBlockTokens && queries[i].end > start) {
        MeetBlock(t, start, block, queries[i]);
      }
    }
  }
  for (int64_t i = 0; i < tiles; ++i) WriteQueries(t, i * kTile, queries[i]);
  _tile_release();
}

}  // namespace aril::kernels::amx
