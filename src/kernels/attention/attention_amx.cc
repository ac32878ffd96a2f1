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

#include "kernels/attention/block_rows.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/transpose_avx512.h"
#include "kernels/rope/rope_tile.h"

namespace aril::kernels::amx {
namespace {

constexpr int kTile = 16;          // queries, rows of a tile, dwords of a row
constexpr int kBlockTokens = 32;   // two tiles of scores
constexpr int kStepElements = 32;  // along head_dim
constexpr int kMaxSteps = kMaxHeadDim / kStepElements;
constexpr int kMaxValueTiles = 2 * kMaxSteps;
constexpr int kMaxQueryTiles = kAttentionAmxQueries / kTile;
constexpr int kFewQueries = 8;
// Tiles of sums and of probabilities, 2 and 7, have a row for each query.
constexpr TileConfig kFewQueryTiles = {.rows = {16, 16, kFewQueries, 16, 16, 16, 16, kFewQueries}};
constexpr int kHalfBlock = kBlockTokens / 2;
constexpr long kRowBytes = 64;
static_assert(kAttentionHeads <= kMaxQueryTiles && kAttentionHeadQueries <= kTile);
constexpr float kInfinity = __builtin_inff();

// K and V of a block as tiles; tokens and dimensions that do not exist are zero.
struct Block {
  // K, tokens [0, 16) and [16, 32): in the pages themselves where they lie there as a tile would.
  const std::byte* key_tiles[2];
  int64_t key_row_bytes, key_step_bytes;
  alignas(64) uint16_t keys[kMaxSteps][kBlockTokens][kStepElements];
  // V: [pair of tokens][dimension]. Two tiles are the 32 dimensions of a step, as interleaving two
  // rows leaves them: the first has 0–3, 8–11, 16–19 and 24–27 of them, the second the others.
  alignas(64) uint32_t values[kMaxValueTiles][kTile][kTile];
};

// 16 queries and their running softmax; lanes after the last query are like lane 0. Of up to 8 (a
// decode's group), lanes 8–15 are like lanes 0–7: their softmax has two tokens in a vector.
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

ARIL_INLINE bool AreFew(const AttentionTile& t) { return t.num_queries <= kFewQueries; }
ARIL_INLINE int64_t NumSteps(const AttentionTile& t) {
  return (t.head_dim + kStepElements - 1) / kStepElements;
}
ARIL_INLINE int64_t NumValueTiles(const AttentionTile& t) { return 2 * NumSteps(t); }

ARIL_INLINE int64_t ElementOffset(const AttentionTile& t, int64_t number) {
  return number / t.group * t.row_stride + number % t.group * t.head_dim;
}

// Where the tokens of a block lie: add the offset of a head's keys or values in a page.
struct BlockRows {
  int64_t tokens;  // ≤ kBlockTokens; none at the end of the context
  const std::byte* rows[kBlockTokens];

  const uint16_t* At(int64_t token, int64_t offset) const {
    return reinterpret_cast<const uint16_t*>(rows[token] + offset);
  }
};

constexpr BlockRows kNoRows = {};

ARIL_INLINE void FindBlock(const AttentionTile& t, int64_t start, int64_t end, BlockRows& block) {
  block.tokens = Max(0, Min(kBlockTokens, end - start));
  FindRows(t, start, block.tokens, sizeof(uint16_t), block.rows);
}

// What is computed with next: a head's part of a block. Pages lie anywhere, and what is one head's
// of a page is too short for the processor to see a stream in it; asked for all at once, it would
// fill the buffers that loads wait in.
struct NextPart {
  const BlockRows* rows;
  const AttentionTile* head;
};

ARIL_INLINE void PrefetchRow(const NextPart& next, int64_t token, int64_t offset) {
  if (token >= next.rows->tokens) return;
  const auto* row = reinterpret_cast<const char*>(next.rows->At(token, offset));
  const int64_t row_bytes = next.head->head_dim * (int64_t)sizeof(uint16_t);
  for (int64_t byte = 0; byte < row_bytes; byte += 64) __builtin_prefetch(row + byte, 0, 2);
}

// Long before a head's part of a block is asked for, its first lines are, so that by then it is
// known where in memory the pages are (one first line per page or tile of keys, and of values).
ARIL_INLINE void FindPages(const AttentionTile& head, const BlockRows& rows) {
  for (int64_t token = 0; token < rows.tokens; token += Min(kTile, head.page_tokens)) {
    __builtin_prefetch(rows.At(token, head.key_offset), 0, 2);
    __builtin_prefetch(rows.At(token, head.value_offset), 0, 2);
  }
}

// The elements [first, first + 32) of a row of head_dim, zeros after its end.
ARIL_INLINE Vu LoadRowPart(const uint16_t* row, int64_t first, int64_t head_dim) {
  const int64_t left = head_dim - first;
  return left >= kPairLanes ? LoadPairs(row + first) : LoadPairsPartial(row + first, left);
}

// Whether the tokens of a block are two tiles of K as they lie in their pages.
ARIL_INLINE bool KeysAreTiles(const AttentionTile& t, const BlockRows& rows) {
  return rows.tokens == kBlockTokens && t.page_tokens % kTile == 0 &&
         t.head_dim % kStepElements == 0;
}

void LoadKeys(const AttentionTile& t, const BlockRows& rows, Block& block) {
  if (KeysAreTiles(t, rows)) {
    for (int half = 0; half < 2; ++half) {
      block.key_tiles[half] = rows.rows[half * kTile] + t.key_offset;
    }
    block.key_row_bytes = t.head_dim * (int64_t)sizeof(uint16_t);
    block.key_step_bytes = kRowBytes;
    return;
  }
  for (int64_t token = 0; token < kBlockTokens; ++token) {
    const uint16_t* row = token < rows.tokens ? rows.At(token, t.key_offset) : nullptr;
    for (int64_t step = 0; step < NumSteps(t); ++step) {
      const Vu part = row != nullptr ? LoadRowPart(row, step * kStepElements, t.head_dim) : Vu{};
      __builtin_memcpy(block.keys[step][token], &part, sizeof(part));
    }
  }
  for (int half = 0; half < 2; ++half) {
    block.key_tiles[half] = reinterpret_cast<const std::byte*>(block.keys[0][half * kTile]);
  }
  block.key_row_bytes = kRowBytes;
  block.key_step_bytes = sizeof(block.keys[0]);
}

void LoadValues(const AttentionTile& t, const BlockRows& rows, Block& block) {
  for (int64_t pair = 0; pair < kTile; ++pair) {
    const uint16_t* pair_rows[2];
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t token = 2 * pair + i;
      pair_rows[i] = token < rows.tokens ? rows.At(token, t.value_offset) : nullptr;
    }
    for (int64_t step = 0; step < NumSteps(t); ++step) {
      Vu parts[2];
      for (int i = 0; i < 2; ++i) {
        parts[i] = pair_rows[i] != nullptr
                       ? LoadRowPart(pair_rows[i], step * kStepElements, t.head_dim)
                       : Vu{};
      }
      const auto first = (__m512i)parts[0], second = (__m512i)parts[1];
      _mm512_store_si512(block.values[2 * step][pair], _mm512_unpacklo_epi16(first, second));
      _mm512_store_si512(block.values[2 * step + 1][pair], _mm512_unpackhi_epi16(first, second));
    }
  }
}

// Whether no value of a block is infinite or no number: their exponents are all ones.
bool HasFiniteValues(const Block& block, int64_t value_tiles) {
  Vu exponents = {};
  for (int64_t tile = 0; tile < value_tiles; ++tile) {
    for (const auto& row : block.values[tile]) {
      Vu pair;
      __builtin_memcpy(&pair, row, sizeof(pair));
      exponents |= (Vu)((pair & 0x7F80) == 0x7F80) | (Vu)((pair >> 16 & 0x7F80) == 0x7F80);
    }
  }
  return _mm512_test_epi32_mask((__m512i)exponents, (__m512i)exponents) == 0;
}

void LoadQueries(const AttentionTile& t, int64_t first, Queries& queries) {
  const int64_t count = Min(kTile, t.num_queries - first);
  const int64_t lanes = AreFew(t) ? kFewQueries : kTile;
  queries.max = Set(-kInfinity);
  queries.sum = Zero();
  queries.begin = queries.all_end = INT64_MAX;
  queries.end = queries.all_begin = 0;
  for (int64_t lane = 0; lane < kTile; ++lane) {
    const int64_t number = t.first_query + first + (lane % lanes < count ? lane % lanes : 0);
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
    _tile_loadd(5, block.key_tiles[0] + step * block.key_step_bytes, block.key_row_bytes);
    _tile_dpbf16ps(0, 5, 4);
    _tile_loadd(6, block.key_tiles[1] + step * block.key_step_bytes, block.key_row_bytes);
    _tile_dpbf16ps(1, 6, 4);
  }
  _tile_stored(0, scores, kRowBytes);
  _tile_stored(1, scores[kTile], kRowBytes);
}

ARIL_INLINE Vi IsVisible(const Queries& queries, Vi token) {
  return (queries.first_token <= token) & (queries.end_token > token);
}

// The other eight lanes' values.
ARIL_INLINE Vf SwapHalves(Vf v) { return (Vf)_mm512_shuffle_f32x4((__m512)v, (__m512)v, 0x4E); }

// Puts the scores of few queries together: of token i, and in lanes 8–15 of token 16 + i.
ARIL_INLINE Vf LoadPair(const float scores[kBlockTokens][kTile], int64_t i) {
  const __m512d low = _mm512_castps_pd(_mm512_load_ps(scores[i]));
  const __m256d high = _mm256_load_pd(reinterpret_cast<const double*>(scores[kHalfBlock + i]));
  return (Vf)_mm512_castpd_ps(_mm512_insertf64x4(low, high, 1));
}

// Scales the scores and makes probabilities of them; folds them into the running maximum and sum.
// Returns by what the values so far are to be multiplied. Meanwhile the next part is asked for.
// Probabilities of the first and of the second half of the block are added up apart. Of few
// queries, the first 16 rows of `scores` are left with two tokens each.
template <bool kFew>
ARIL_INLINE Vf FoldScores(const AttentionTile& t, int64_t start, bool sees_all,
                          const NextPart& next, Queries& queries,
                          float scores[kBlockTokens][kTile]) {
  constexpr int64_t kVectors = kFew ? kHalfBlock : kBlockTokens;
  const Vf scale = Set(t.scale);
  const Vi first = kFew ? (Iota() >= kFewQueries ? Vi{} + kHalfBlock : Vi{}) + (int32_t)start
                        : Vi{} + (int32_t)start;
  Vf max = queries.max;
  for (int64_t i = 0; i < kVectors; ++i) {
    Vf score = (kFew ? LoadPair(scores, i) : Load(scores[i])) * scale;
    if (!sees_all) score = IsVisible(queries, first + (int32_t)i) ? score : Set(-kInfinity);
    Store(scores[i], score);
    max = MaxLanes(score, max);
    for (int64_t token = i; token < kBlockTokens; token += kVectors) {
      PrefetchRow(next, token, next.head->key_offset);
    }
  }
  if (kFew) max = MaxLanes(max, SwapHalves(max));
  Vf sums[2] = {Zero(), Zero()};
  for (int half = 0; half < kVectors / kHalfBlock; ++half) {
    for (int64_t i = half * kHalfBlock; i < (half + 1) * kHalfBlock; ++i) {
      Vf p = Exp(Load(scores[i]) - max);
      // Who has seen nothing yet has the maximum -inf, of which no difference is a number.
      if (!sees_all) p = IsVisible(queries, first + (int32_t)i) ? p : Zero();
      Store(scores[i], p);
      sums[half] = sums[half] + p;
      for (int64_t token = i; token < kBlockTokens; token += kVectors) {
        PrefetchRow(next, token, next.head->value_offset);
      }
    }
  }
  const Vf sum = sums[0] + (kFew ? SwapHalves(sums[0]) : sums[1]);
  const Vf correction = queries.max == max ? Set(1.0f) : Exp(queries.max - max);
  queries.sum = queries.sum * correction + sum;
  queries.max = max;
  return correction;
}

// The probabilities as FoldScores leaves them, as BF16 [queries][tokens].
template <bool kFew>
ARIL_INLINE void TurnProbabilities(const float scores[kBlockTokens][kTile],
                                   uint32_t p[kTile][kTile]) {
  constexpr int kRows = kFew ? kFewQueries : kTile;
  __m512i pairs[kRows];
  for (int i = 0; i < kRows; ++i) {
    const auto low = (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(scores[2 * i]));
    const auto high = (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(scores[2 * i + 1]));
    pairs[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
  }
  if constexpr (kFew) {
    TransposeHalves(pairs);
  } else {
    Transpose(pairs);
  }
  for (int i = 0; i < kRows; ++i) _mm512_store_si512(p[i], pairs[i]);
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

template <bool kFew>
void MeetBlock(const AttentionTile& t, int64_t start, const Block& block, const NextPart& next,
               Queries& queries) {
  alignas(64) float scores[kBlockTokens][kTile];
  alignas(64) uint32_t p[kTile][kTile];
  const bool sees_all = start >= queries.all_begin && start + kBlockTokens <= queries.all_end;
  const int64_t value_tiles = NumValueTiles(t);
  MultiplyKeys(block, queries, NumSteps(t), scores);
  const Vf correction = FoldScores<kFew>(t, start, sees_all, next, queries, scores);
  if (_mm512_cmpneq_ps_mask((__m512)correction, _mm512_set1_ps(1.0f)) != 0) {
    for (int64_t i = 0; i < value_tiles; ++i) {
      for (int query = 0; query < (kFew ? kFewQueries : kTile); ++query) {
        float* row = queries.values[i][query];
        Store(row, Load(row) * correction[query]);
      }
    }
  }
  TurnProbabilities<kFew>(scores, p);
  if (sees_all || HasFiniteValues(block, value_tiles)) {
    AddValues(p, block.values, value_tiles, queries.values);
  } else {
    AddVisibleValues(p, block, start, value_tiles, queries);
  }
}

// The sums of the 16 dimensions from `first` in their order (see Block::values).
ARIL_INLINE Vf OrderedValues(const Queries& queries, int64_t query, int64_t first) {
  const int64_t step = first / kStepElements;
  const int half = first % kStepElements / kTile * 8;
  const __m512i order =
      _mm512_add_epi32(_mm512_set1_epi32(half),
                       _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
  return (Vf)_mm512_permutex2var_ps((__m512)Load(queries.values[2 * step][query]), order,
                                    (__m512)Load(queries.values[2 * step + 1][query]));
}

void WriteQueries(const AttentionTile& t, int64_t first, const Queries& queries) {
  const int64_t count = Min(kTile, t.num_queries - first);
  for (int64_t query = 0; query < count; ++query) {
    uint16_t* out = static_cast<uint16_t*>(t.out) + ElementOffset(t, t.first_query + first + query);
    const Vf inverse = Set(1.0f / queries.sum[query]);
    for (int64_t d = 0; d < t.head_dim; d += kTile) {
      const Vf values = OrderedValues(queries, query, d) * inverse;
      if (t.head_dim - d >= kTile) {
        StoreBf16(out + d, values);
      } else {
        StoreBf16Partial(out + d, values, t.head_dim - d);
      }
    }
  }
}

template <bool kFew>
void RunTile(const AttentionTile& t) {
  const int64_t tiles_each = (t.num_queries + kTile - 1) / kTile;
  Queries queries[kMaxQueryTiles];
  Block block;
  AttentionTile heads[kAttentionHeads];
  for (int64_t head = 0; head < t.num_kv_heads; ++head) {
    heads[head] = HeadOf(t, head, sizeof(uint16_t));
    for (int64_t i = 0; i < tiles_each; ++i) {
      LoadQueries(heads[head], i * kTile, queries[head * tiles_each + i]);
    }
  }
  // Positions rise from query to query: the first sees the earliest token, the last the latest.
  const int64_t end = queries[tiles_each - 1].end;
  const int64_t begin = queries[0].begin / kBlockTokens * kBlockTokens;
  BlockRows blocks[3];  // this, the next, and the one after
  for (int64_t i = 0; i < 3; ++i) FindBlock(t, begin + i * kBlockTokens, end, blocks[i]);
  for (int64_t start = begin; start < end; start += kBlockTokens) {
    for (int64_t head = 0; head < t.num_kv_heads; ++head) {
      LoadKeys(heads[head], blocks[0], block);
      LoadValues(heads[head], blocks[0], block);
      FindPages(heads[head], blocks[2]);
      NextPart next = head + 1 < t.num_kv_heads ? NextPart{&blocks[0], &heads[head + 1]}
                                                : NextPart{&blocks[1], &heads[0]};
      for (int64_t i = head * tiles_each; i < (head + 1) * tiles_each; ++i) {
        if (queries[i].begin < start + kBlockTokens && queries[i].end > start) {
          MeetBlock<kFew>(heads[head], start, block, next, queries[i]);
          next.rows = &kNoRows;  // asked for once
        }
      }
    }
    blocks[0] = blocks[1];
    blocks[1] = blocks[2];
    FindBlock(t, start + 3 * kBlockTokens, end, blocks[2]);
  }
  for (int64_t head = 0; head < t.num_kv_heads; ++head) {
    for (int64_t i = 0; i < tiles_each; ++i) {
      WriteQueries(heads[head], i * kTile, queries[head * tiles_each + i]);
    }
  }
}

}  // namespace

void AttentionTileBF16(const AttentionTile& t) {
  if (AreFew(t)) {
    ConfigureTiles(kFewQueryTiles);
    RunTile<true>(t);
  } else {
    ConfigureTiles();
    RunTile<false>(t);
  }
  _tile_release();
}

}  // namespace aril::kernels::amx
