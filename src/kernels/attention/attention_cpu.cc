// One tile of up to 8 queries over the whole context of a sequence, with an online softmax (Milakov
// and Gimelshein, 2018) in blocks of 16 tokens.
//
// Every step of a query's arithmetic depends on its own position only: the blocks it meets, the
// tokens of a block that it may see, and the order of additions (dot products: one accumulator
// along head_dim and a fixed tree; values: one fused multiply-add per token, in order). What the
// queries of a tile share is loads.

#include "kernels/attention/attention_cpu.h"

#include "kernels/attention/block_rows.h"
#include "kernels/attention/final_factor.h"
#include "kernels/cpu/simd.h"
#include "kernels/rope/rope_tile.h"

namespace aril::kernels::ARIL_ISA {
namespace {

constexpr int kBlock = kAttentionBlockTokens;
constexpr int kGroups = kBlock / kLanes;  // vectors per block of scores
constexpr float kInfinity = __builtin_inff();

struct Float32 {
  using Element = float;
  ARIL_INLINE Vf Dot(const float* a, const float* b, int64_t n) {
    Vf acc = Zero();
    int64_t i = 0;
#pragma GCC unroll 8
    for (; i + kLanes <= n; i += kLanes) acc = Fma(Load(a + i), Load(b + i), acc);
    if (i < n) acc = Fma(LoadPartial(a + i, n - i), LoadPartial(b + i, n - i), acc);
    return acc;
  }
  ARIL_INLINE Vf Widen(const float* p) { return Load(p); }
  ARIL_INLINE Vf WidenPartial(const float* p, int64_t n) { return LoadPartial(p, n); }
};

#if !defined(__AVX512BF16__)  // attention_avx512.cc has BF16
struct Bfloat16 {
  using Element = uint16_t;
  ARIL_INLINE Vf Dot(const uint16_t* a, const uint16_t* b, int64_t n) {
    Vf acc = Zero();
    int64_t i = 0;
#pragma GCC unroll 4
    for (; i + kPairLanes <= n; i += kPairLanes)
      acc = DotPairs(LoadPairs(a + i), LoadPairs(b + i), acc);
    if (i < n) {
      acc = DotPairs(LoadPairsPartial(a + i, n - i), LoadPairsPartial(b + i, n - i), acc);
    }
    return acc;
  }
  ARIL_INLINE Vf Widen(const uint16_t* p) { return LoadBf16(p); }
  ARIL_INLINE Vf WidenPartial(const uint16_t* p, int64_t n) { return LoadBf16Partial(p, n); }
};
#endif

// The running softmax of one query.
struct Query {
  const void* q;
  int64_t first_token;  // visible: [first_token, end_token)
  int64_t end_token;
  float max;
  float sum;
  float* values;  // [head_dim], Σ p · V so far
};

// The tokens of the block [start, start + kBlock) that a query sees, relative to start.
struct Visible {
  int64_t begin;
  int64_t end;

  bool empty() const { return begin >= end; }
  bool SameAs(const Visible& o) const { return begin == o.begin && end == o.end; }
};

ARIL_INLINE Visible VisibleIn(const Query& query, int64_t start) {
  return {Max(query.first_token - start, 0), Min(query.end_token - start, kBlock)};
}

// Scores of the first `tokens` tokens of a block, -inf where the query does not see the token.
template <typename T>
ARIL_INLINE void Scores(const AttentionTile& t, const Query& query,
                        const typename T::Element* const* keys, int64_t tokens, Visible visible,
                        Vf scores[kGroups]) {
  const auto* q = static_cast<const typename T::Element*>(query.q);
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) {
    Vf dots[kLanes];
    if (tokens == kBlock) {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) dots[i] = T::Dot(q, keys[g * kLanes + i], t.head_dim);
    } else {
      for (int i = 0; i < kLanes; ++i) {
        const int64_t token = g * kLanes + i;
        dots[i] = token < tokens ? T::Dot(q, keys[token], t.head_dim) : Zero();
      }
    }
    Vf scaled = SumEach(dots) * t.scale;
    if (t.softcap > 0) scaled = Softcap(scaled, t.softcap);
    const Vi token = Iota() + g * kLanes;
    const Vi seen = (token >= (int32_t)visible.begin) & (token < (int32_t)visible.end);
    scores[g] = seen ? scaled : Set(-kInfinity);
  }
}

// Folds a block's scores into the running maximum and sum; leaves the probabilities in p.
ARIL_INLINE void FoldScores(Query& query, const Vf scores[kGroups], int64_t head_dim, float* p) {
  Vf block_max = scores[0];
  for (int g = 1; g < kGroups; ++g) block_max = MaxLanes(block_max, scores[g]);
  const float top = HorizontalMax(block_max);
  const float max = query.max > top ? query.max : top;
  // e^0 is 1.
  const float correction = query.max == max ? 1.0f : Exp(Set(query.max - max))[0];
  Vf sum = Zero();
  for (int g = 0; g < kGroups; ++g) {
    const Vf probability = Exp(scores[g] - max);
    Store(p + g * kLanes, probability);
    sum = sum + probability;
  }
  query.sum = query.sum * correction + Sum(sum);
  query.max = max;
  if (correction == 1.0f) return;
  for (int64_t d = 0; d < head_dim; ++d) query.values[d] *= correction;
}

// values += Σ p[token] · V[token] over the visible tokens, of kQueries that see the same ones; each
// has a row of kBlock in p. `block` holds V widened, rows of kMaxHeadDim.
template <int kQueries, int kVectors>
ARIL_INLINE void AddValues(const Query* queries, int64_t d, const float* block, const float* p,
                           Visible visible) {
  Vf acc[kQueries][kVectors];
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) acc[q][v] = Load(queries[q].values + d + v * kLanes);
  }
  for (int64_t token = visible.begin; token < visible.end; ++token) {
    Vf values[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      values[v] = Load(block + token * kMaxHeadDim + d + v * kLanes);
    }
#pragma GCC unroll 4
    for (int q = 0; q < kQueries; ++q) {
      const Vf weight = Set(p[q * kBlock + token]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[q][v] = Fma(weight, values[v], acc[q][v]);
    }
  }
#pragma GCC unroll 4
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Store(queries[q].values + d + v * kLanes, acc[q][v]);
  }
}

template <int kQueries>
ARIL_INLINE void AddAllValues(const Query* queries, const float* block, const float* p,
                              Visible visible, int64_t head_dim) {
  int64_t d = 0;
  for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes) {
    AddValues<kQueries, 4>(queries, d, block, p, visible);
  }
  // Rows are kMaxHeadDim wide, so that the last vector may pass the end of the head.
  for (; d < head_dim; d += kLanes) AddValues<kQueries, 1>(queries, d, block, p, visible);
}

template <typename T>
ARIL_INLINE void WidenBlock(const typename T::Element* const* rows, int64_t tokens,
                            int64_t head_dim, float* block) {
  for (int64_t token = 0; token < tokens; ++token) {
    float* out = block + token * kMaxHeadDim;
    int64_t d = 0;
#pragma GCC unroll 8
    for (; d + kLanes <= head_dim; d += kLanes) Store(out + d, T::Widen(rows[token] + d));
    if (d < head_dim) Store(out + d, T::WidenPartial(rows[token] + d, head_dim - d));
  }
}

template <typename T>
ARIL_INLINE void Finish(const Query& query, float final_factor, int64_t head_dim, void* out_row) {
  auto* out = static_cast<typename T::Element*>(out_row);
  const Vf factor = Set(final_factor);
  int64_t d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) Store(out + d, Load(query.values + d) * factor);
  if (d < head_dim) StorePartial(out + d, Load(query.values + d) * factor, head_dim - d);
}

template <typename T>
ARIL_INLINE int64_t ElementOffset(const AttentionTile& t, int64_t index) {
  const int64_t number = t.first_query + index;
  return (number / t.group * t.row_stride + number % t.group * t.head_dim) *
         (int64_t)sizeof(typename T::Element);
}

// Where the rows of a block's tokens lie.
template <typename Element>
struct BlockRows {
  int64_t tokens;  // ≤ kBlock
  const Element* keys[kBlock];
  const Element* values[kBlock];
};

template <typename Element>
ARIL_INLINE void FindBlock(const AttentionTile& t, int64_t start, int64_t end,
                           BlockRows<Element>* rows) {
  const std::byte* token_rows[kBlock];
  rows->tokens = Max(0, Min(kBlock, end - start));
  FindRows(t, start, rows->tokens, sizeof(Element), token_rows);
  for (int64_t i = 0; i < rows->tokens; ++i) {
    rows->keys[i] = reinterpret_cast<const Element*>(token_rows[i] + t.key_offset);
    rows->values[i] = reinterpret_cast<const Element*>(token_rows[i] + t.value_offset);
  }
}

// Pages lie anywhere, and each is too short for the processor to see a stream in it: part `part` of
// so many of the rows is asked for while other rows are computed with.
template <typename Element>
ARIL_INLINE void Prefetch(const BlockRows<Element>& rows, int64_t head_dim, int64_t part,
                          int64_t parts) {
  const int64_t row_bytes = head_dim * (int64_t)sizeof(Element);
  for (int64_t i = part * rows.tokens / parts; i < (part + 1) * rows.tokens / parts; ++i) {
    for (int64_t byte = 0; byte < row_bytes; byte += 64) {
      __builtin_prefetch(reinterpret_cast<const char*>(rows.keys[i]) + byte, 0, 3);
      __builtin_prefetch(reinterpret_cast<const char*>(rows.values[i]) + byte, 0, 3);
    }
  }
}

// kHeadDim: 0 if it is known at run time only.
template <typename T, int64_t kHeadDim>
void RunTile(const AttentionTile& t) {
  using Element = typename T::Element;
  const int64_t head_dim = kHeadDim > 0 ? kHeadDim : t.head_dim;
  alignas(64) float values[kAttentionVectorQueries * kMaxHeadDim];
  alignas(64) float block[kBlock * kMaxHeadDim];
  alignas(64) float p[kAttentionVectorQueries][kBlock];
  Query queries[kAttentionVectorQueries];
  for (int64_t i = 0; i < t.num_queries; ++i) {
    const int64_t position = t.first_position + (t.first_query + i) / t.group;
    queries[i] = {.q = static_cast<const char*>(t.q) + ElementOffset<T>(t, i),
                  .first_token = Max(0, position + 1 - t.window),
                  .end_token = position + 1,
                  .max = -kInfinity,
                  .sum = 0,
                  .values = values + i * kMaxHeadDim};
    for (int64_t d = 0; d < kMaxHeadDim; ++d) queries[i].values[d] = 0;
  }
  // Positions rise from query to query: the first sees the earliest token, the last the latest.
  const int64_t end = queries[t.num_queries - 1].end_token;
  const int64_t begin = queries[0].first_token / kBlock * kBlock;
  BlockRows<Element> rows, next;
  FindBlock(t, begin, end, &next);
  for (int64_t start = begin; start < end; start += kBlock) {
    rows = next;
    FindBlock(t, start + kBlock, end, &next);
    WidenBlock<T>(rows.values, rows.tokens, head_dim, block);
    // Query after query in each stage: their chains of dependent instructions overlap.
    Visible visible[kAttentionVectorQueries];
    Vf scores[kAttentionVectorQueries][kGroups];
    for (int64_t i = 0; i < t.num_queries; ++i) {
      Prefetch(next, head_dim, i, t.num_queries);
      visible[i] = VisibleIn(queries[i], start);
      if (visible[i].empty()) continue;
      Scores<T>(t, queries[i], rows.keys, rows.tokens, visible[i], scores[i]);
    }
    for (int64_t i = 0; i < t.num_queries; ++i) {
      if (!visible[i].empty()) FoldScores(queries[i], scores[i], head_dim, p[i]);
    }
    for (int64_t i = 0; i < t.num_queries;) {
      const bool are_four = i + 4 <= t.num_queries && visible[i].SameAs(visible[i + 1]) &&
                            visible[i].SameAs(visible[i + 2]) && visible[i].SameAs(visible[i + 3]);
      if (are_four) {
        AddAllValues<4>(queries + i, block, p[i], visible[i], head_dim);
      } else {
        AddAllValues<1>(queries + i, block, p[i], visible[i], head_dim);
      }
      i += are_four ? 4 : 1;
    }
  }
  for (int64_t i = 0; i < t.num_queries; ++i) {
    const float factor = FinalFactor(t, t.first_query + i, queries[i].max, queries[i].sum);
    Finish<T>(queries[i], factor, head_dim, static_cast<char*>(t.out) + ElementOffset<T>(t, i));
  }
}

template <typename T>
void RunTileOf(const AttentionTile& t) {
  for (int64_t i = 0; i < t.num_kv_heads; ++i) {
    const AttentionTile head = HeadOf(t, i, sizeof(typename T::Element));
    switch (t.head_dim) {
      case 64:
        RunTile<T, 64>(head);
        break;
      case 128:
        RunTile<T, 128>(head);
        break;
      default:
        RunTile<T, 0>(head);
    }
  }
}

}  // namespace

void AttentionTileF32(const AttentionTile& tile) { RunTileOf<Float32>(tile); }
#if !defined(__AVX512BF16__)  // attention_avx512.cc has it
void AttentionTileBF16(const AttentionTile& tile) { RunTileOf<Bfloat16>(tile); }
#endif

}  // namespace aril::kernels::ARIL_ISA
