// Attention in BF16 with a query in each lane of a vector: 16 queries × 32 tokens at a time, with
// an online softmax (Milakov and Gimelshein, 2018). Included by attention_avx512.cc and
// attention_amx.cc only (see cpu/simd.h), which bring the two matrix products.
//
// Scores are transposed, Sᵀ = K · Qᵀ [tokens, queries], so that the softmax of 16 queries is
// arithmetic between vectors. The probabilities are rounded to BF16 and multiplied with V.
//
// Every step of a query's arithmetic depends on its own position only: the blocks it meets, the
// tokens of a block that it may see, and the order of additions. A block of which a query sees
// nothing leaves its state as it was, bit for bit.

#ifndef ARIL_KERNELS_ATTENTION_ATTENTION_LANES_AVX512_H_
#define ARIL_KERNELS_ATTENTION_ATTENTION_LANES_AVX512_H_

#include "kernels/attention/attention_tile.h"
#include "kernels/attention/block_rows.h"
#include "kernels/attention/final_factor.h"
#include "kernels/cpu/simd.h"
#include "kernels/rope/rope_tile.h"

namespace aril::kernels::ARIL_ISA {
namespace {

inline constexpr int kGroupQueries = 16;  // a lane for each
inline constexpr int kFewQueries = 8;
inline constexpr int kBlockTokens = 32;
inline constexpr int kBlockPairs = kBlockTokens / 2;
inline constexpr int kStepElements = 32;  // along head_dim: a vector of BF16
inline constexpr int kMaxSteps = kMaxHeadDim / kStepElements;
inline constexpr int kMaxValueTiles = 2 * kMaxSteps;
inline constexpr int kMaxGroups = kAttentionLaneQueries / kGroupQueries;
static_assert(kAttentionHeads <= kMaxGroups && kAttentionHeadQueries <= kGroupQueries);
inline constexpr float kInfinity = __builtin_inff();

// 16 queries and their running softmax; lanes after the last query are like lane 0. Of up to 8 (a
// decode's group), lanes 8–15 are like lanes 0–7: their softmax has two tokens in a vector.
struct Queries {
  // Qᵀ: [pair along head_dim][query]
  alignas(64) uint32_t q[kMaxSteps][kStepElements / 2][kGroupQueries];
  // Σ p · V so far: [query][dimension], the dimensions in the order of Values.
  alignas(64) float values[kMaxValueTiles][kGroupQueries][16];
  int64_t count;
  Vf max;
  Vf sum;
  Vi first_token;  // visible: [first_token, end_token)
  Vi end_token;
  // Over the 16: what one of them sees, and what all of them see.
  int64_t begin, end, all_begin, all_end;
};

// V of a block: [pair of tokens][dimension]; tokens and dimensions that do not exist are zero. Two
// tiles are the 32 dimensions of a step, as interleaving two rows leaves them: the first has 0–3,
// 8–11, 16–19 and 24–27 of them, the second the others.
struct Values {
  alignas(64) uint32_t tiles[kMaxValueTiles][kBlockPairs][16];
};

// What a block's scores become: [tokens][queries]; of few queries the first 16 rows have token i in
// lanes 0–7 and token 16 + i in lanes 8–15.
struct Scores {
  alignas(64) float rows[kBlockTokens][kGroupQueries];
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

inline constexpr BlockRows kNoRows = {};

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
// known where in memory the pages are (one first line per page or 16 rows of keys, and of values).
ARIL_INLINE void FindPages(const AttentionTile& head, const BlockRows& rows) {
  for (int64_t token = 0; token < rows.tokens; token += Min(16, head.page_tokens)) {
    __builtin_prefetch(rows.At(token, head.key_offset), 0, 2);
    __builtin_prefetch(rows.At(token, head.value_offset), 0, 2);
  }
}

// The elements [first, first + 32) of a row of head_dim, zeros after its end.
ARIL_INLINE Vu LoadRowPart(const uint16_t* row, int64_t first, int64_t head_dim) {
  const int64_t left = head_dim - first;
  return left >= kPairLanes ? LoadPairs(row + first) : LoadPairsPartial(row + first, left);
}

// Copies the rows of a block to rows of `row_elements`, a multiple of 32; zeros where there is
// none.
ARIL_INLINE void CopyKeys(const AttentionTile& t, const BlockRows& rows, uint16_t* keys,
                          int64_t row_elements) {
  for (int64_t token = 0; token < kBlockTokens; ++token) {
    const uint16_t* row = token < rows.tokens ? rows.At(token, t.key_offset) : nullptr;
    for (int64_t step = 0; step < NumSteps(t); ++step) {
      const Vu part = row != nullptr ? LoadRowPart(row, step * kStepElements, t.head_dim) : Vu{};
      __builtin_memcpy(keys + token * row_elements + step * kStepElements, &part, sizeof(part));
    }
  }
}

ARIL_INLINE void LoadValues(const AttentionTile& t, const BlockRows& rows, Values& values) {
  for (int64_t pair = 0; pair < kBlockPairs; ++pair) {
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
      _mm512_store_si512(values.tiles[2 * step][pair], _mm512_unpacklo_epi16(first, second));
      _mm512_store_si512(values.tiles[2 * step + 1][pair], _mm512_unpackhi_epi16(first, second));
    }
  }
}

ARIL_INLINE void LoadQueries(const AttentionTile& t, int64_t first, Queries& queries) {
  const int64_t lanes = AreFew(t) ? kFewQueries : kGroupQueries;
  queries.count = Min(kGroupQueries, t.num_queries - first);
  queries.max = Set(-kInfinity);
  queries.sum = Zero();
  queries.begin = queries.all_end = INT64_MAX;
  queries.end = queries.all_begin = 0;
  for (int64_t lane = 0; lane < kGroupQueries; ++lane) {
    const int64_t number =
        t.first_query + first + (lane % lanes < queries.count ? lane % lanes : 0);
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
      for (int pair = 0; pair < kStepElements / 2; ++pair) queries.q[step][pair][lane] = part[pair];
    }
  }
  __builtin_memset(queries.values, 0, (size_t)NumValueTiles(t) * sizeof(queries.values[0]));
}

ARIL_INLINE Vi IsVisible(const Queries& queries, Vi token) {
  return (queries.first_token <= token) & (queries.end_token > token);
}

// The other eight lanes' values.
ARIL_INLINE Vf SwapHalves(Vf v) { return (Vf)_mm512_shuffle_f32x4((__m512)v, (__m512)v, 0x4E); }

// Puts the scores of few queries together: of token i, and in lanes 8–15 of token 16 + i.
ARIL_INLINE Vf LoadPair(const Scores& scores, int64_t i) {
  const __m512d low = _mm512_castps_pd(_mm512_load_ps(scores.rows[i]));
  const auto* high_row = reinterpret_cast<const double*>(scores.rows[kBlockPairs + i]);
  return (Vf)_mm512_castpd_ps(_mm512_insertf64x4(low, _mm256_load_pd(high_row), 1));
}

// Scales the scores and makes probabilities of them; folds them into the running maximum and sum.
// Returns by what the values so far are to be multiplied. Meanwhile the next part is asked for.
// Probabilities of the first and of the second half of the block are added up apart.
template <bool kFew>
ARIL_INLINE Vf FoldScores(const AttentionTile& t, int64_t start, bool sees_all,
                          const NextPart& next, Queries& queries, Scores& scores) {
  constexpr int64_t kVectors = kFew ? kBlockPairs : kBlockTokens;
  const Vf scale = Set(t.scale);
  const Vi first = kFew ? (Iota() >= kFewQueries ? Vi{} + kBlockPairs : Vi{}) + (int32_t)start
                        : Vi{} + (int32_t)start;
  Vf max = queries.max;
  for (int64_t i = 0; i < kVectors; ++i) {
    Vf score = (kFew ? LoadPair(scores, i) : Load(scores.rows[i])) * scale;
    if (t.softcap > 0) score = Softcap(score, t.softcap);
    if (!sees_all) score = IsVisible(queries, first + (int32_t)i) ? score : Set(-kInfinity);
    Store(scores.rows[i], score);
    max = MaxLanes(score, max);
    for (int64_t token = i; token < kBlockTokens; token += kVectors) {
      PrefetchRow(next, token, next.head->key_offset);
    }
  }
  if (kFew) max = MaxLanes(max, SwapHalves(max));
  Vf sums[2] = {Zero(), Zero()};
  for (int half = 0; half < kVectors / kBlockPairs; ++half) {
    for (int64_t i = half * kBlockPairs; i < (half + 1) * kBlockPairs; ++i) {
      Vf p = Exp(Load(scores.rows[i]) - max);
      // Who has seen nothing yet has the maximum -inf, of which no difference is a number.
      if (!sees_all) p = IsVisible(queries, first + (int32_t)i) ? p : Zero();
      Store(scores.rows[i], p);
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

// The probabilities of a block as BF16, pairs of tokens 2i and 2i + 1: row i has those of all
// queries; of few queries, in lanes 8–15 pair 8 + i. `i`: below 16, of few queries below 8.
ARIL_INLINE __m512i PairProbabilities(const Scores& scores, int i) {
  const auto low = (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(scores.rows[2 * i]));
  const auto high = (__m256i)_mm512_cvtneps_pbh(_mm512_load_ps(scores.rows[2 * i + 1]));
  return _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
}

ARIL_INLINE void RescaleValues(Queries& queries, Vf correction, int64_t value_tiles) {
  if (_mm512_cmpneq_ps_mask((__m512)correction, _mm512_set1_ps(1.0f)) == 0) return;
  for (int64_t query = 0; query < queries.count; ++query) {
    for (int64_t i = 0; i < value_tiles; ++i) {
      float* row = queries.values[i][query];
      Store(row, Load(row) * correction[query]);
    }
  }
}

// The sums of the 16 dimensions from `first` in their order (see Values).
ARIL_INLINE Vf OrderedValues(const Queries& queries, int64_t query, int64_t first) {
  const int64_t step = first / kStepElements;
  const int half = first % kStepElements / 16 * 8;
  const __m512i order =
      _mm512_add_epi32(_mm512_set1_epi32(half),
                       _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23));
  return (Vf)_mm512_permutex2var_ps((__m512)Load(queries.values[2 * step][query]), order,
                                    (__m512)Load(queries.values[2 * step + 1][query]));
}

ARIL_INLINE void WriteQueries(const AttentionTile& t, int64_t first, const Queries& queries) {
  for (int64_t query = 0; query < queries.count; ++query) {
    const int64_t number = t.first_query + first + query;
    uint16_t* out = static_cast<uint16_t*>(t.out) + ElementOffset(t, number);
    const Vf factor = Set(FinalFactor(t, number, queries.max[query], queries.sum[query]));
    for (int64_t d = 0; d < t.head_dim; d += 16) {
      const Vf values = OrderedValues(queries, query, d) * factor;
      if (t.head_dim - d >= 16) {
        Store(out + d, values);
      } else {
        StorePartial(out + d, values, t.head_dim - d);
      }
    }
  }
}

// Products: the matrix products of a head's part of a block, which they have as they want it:
//   LoadBlock(head, rows)
//   MultiplyKeys(queries, scores): scores [tokens][queries], not yet scaled
//   AddValues(scores, start, sees_all, queries): of the probabilities
template <bool kFew, typename Products>
ARIL_INLINE void MeetBlock(const AttentionTile& t, int64_t start, const Products& products,
                           const NextPart& next, Queries& queries) {
  Scores scores;
  const bool sees_all = start >= queries.all_begin && start + kBlockTokens <= queries.all_end;
  products.MultiplyKeys(queries, scores);
  const Vf correction = FoldScores<kFew>(t, start, sees_all, next, queries, scores);
  RescaleValues(queries, correction, NumValueTiles(t));
  products.AddValues(scores, start, sees_all, queries);
}

template <bool kFew, typename Products>
void RunLanes(const AttentionTile& t) {
  const int64_t groups_each = (t.num_queries + kGroupQueries - 1) / kGroupQueries;
  Queries queries[kMaxGroups];
  Products products(t);
  AttentionTile heads[kAttentionHeads];
  for (int64_t head = 0; head < t.num_kv_heads; ++head) {
    heads[head] = HeadOf(t, head, sizeof(uint16_t));
    for (int64_t i = 0; i < groups_each; ++i) {
      LoadQueries(heads[head], i * kGroupQueries, queries[head * groups_each + i]);
    }
  }
  // Positions rise from query to query: the first sees the earliest token, the last the latest.
  const int64_t end = queries[groups_each - 1].end;
  const int64_t begin = queries[0].begin / kBlockTokens * kBlockTokens;
  BlockRows blocks[3];  // this, the next, and the one after
  for (int64_t i = 0; i < 3; ++i) FindBlock(t, begin + i * kBlockTokens, end, blocks[i]);
  for (int64_t start = begin; start < end; start += kBlockTokens) {
    for (int64_t head = 0; head < t.num_kv_heads; ++head) {
      products.LoadBlock(heads[head], blocks[0]);
      FindPages(heads[head], blocks[2]);
      NextPart next = head + 1 < t.num_kv_heads ? NextPart{&blocks[0], &heads[head + 1]}
                                                : NextPart{&blocks[1], &heads[0]};
      for (int64_t i = head * groups_each; i < (head + 1) * groups_each; ++i) {
        if (queries[i].begin < start + kBlockTokens && queries[i].end > start) {
          MeetBlock<kFew>(heads[head], start, products, next, queries[i]);
          next.rows = &kNoRows;  // asked for once
        }
      }
    }
    blocks[0] = blocks[1];
    blocks[1] = blocks[2];
    FindBlock(t, start + 3 * kBlockTokens, end, blocks[2]);
  }
  for (int64_t head = 0; head < t.num_kv_heads; ++head) {
    for (int64_t i = 0; i < groups_each; ++i) {
      WriteQueries(heads[head], i * kGroupQueries, queries[head * groups_each + i]);
    }
  }
}

}  // namespace
}  // namespace aril::kernels::ARIL_ISA

#endif  // ARIL_KERNELS_ATTENTION_ATTENTION_LANES_AVX512_H_
