// One tile of up to 8 queries over the whole context of a sequence, with an online softmax (Milakov
// and Gimelshein, 2018) in blocks of 16 tokens.
//
// Every step of a query's arithmetic depends on its own position only: the blocks it meets, the
// tokens of a block that it may see, and the order of additions (dot products: one accumulator
// along head_dim and a fixed tree; values: one fused multiply-add per token, in order). What the
// queries of a tile share is loads.

#include "kernels/attention/attention_cpu.h"

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
    for (; i + kLanes <= n; i += kLanes) acc = Fma(Load(a + i), Load(b + i), acc);
    if (i < n) acc = Fma(LoadPartial(a + i, n - i), LoadPartial(b + i, n - i), acc);
    return acc;
  }
  ARIL_INLINE Vf Widen(const float* p) { return Load(p); }
  ARIL_INLINE Vf WidenPartial(const float* p, int64_t n) { return LoadPartial(p, n); }
  ARIL_INLINE void Write(float* p, Vf v) { Store(p, v); }
  ARIL_INLINE void WritePartial(float* p, Vf v, int64_t n) { StorePartial(p, v, n); }
};

struct Bfloat16 {
  using Element = uint16_t;
  ARIL_INLINE Vf Dot(const uint16_t* a, const uint16_t* b, int64_t n) {
    Vf acc = Zero();
    int64_t i = 0;
    for (; i + kPairLanes <= n; i += kPairLanes)
      acc = DotPairs(LoadPairs(a + i), LoadPairs(b + i), acc);
    if (i < n) {
      acc = DotPairs(LoadPairsPartial(a + i, n - i), LoadPairsPartial(b + i, n - i), acc);
    }
    return acc;
  }
  ARIL_INLINE Vf Widen(const uint16_t* p) { return LoadBf16(p); }
  ARIL_INLINE Vf WidenPartial(const uint16_t* p, int64_t n) { return LoadBf16Partial(p, n); }
  ARIL_INLINE void Write(uint16_t* p, Vf v) { StoreBf16(p, v); }
  ARIL_INLINE void WritePartial(uint16_t* p, Vf v, int64_t n) { StoreBf16Partial(p, v, n); }
};

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
  for (int g = 0; g < kGroups; ++g) {
    Vf dots[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const int64_t token = g * kLanes + i;
      dots[i] = token < tokens ? T::Dot(q, keys[token], t.head_dim) : Zero();
    }
    const Vf scaled = SumEach(dots) * t.scale;
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
  float correction[kLanes];
  Store(correction, Exp(Set(query.max - max)));
  Vf sum = Zero();
  for (int g = 0; g < kGroups; ++g) {
    const Vf probability = Exp(scores[g] - max);
    Store(p + g * kLanes, probability);
    sum = sum + probability;
  }
  query.sum = query.sum * correction[0] + Sum(sum);
  query.max = max;
  if (correction[0] == 1.0f) return;
  for (int64_t d = 0; d < head_dim; ++d) query.values[d] *= correction[0];
}

// values += Σ p[token] · V[token] over the visible tokens. `block` holds V widened, rows of
// kMaxHeadDim.
template <int kVectors>
ARIL_INLINE void AddValues(float* values, const float* block, const float* p, Visible visible) {
  Vf acc[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) acc[v] = Load(values + v * kLanes);
  for (int64_t token = visible.begin; token < visible.end; ++token) {
    const Vf weight = Set(p[token]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      acc[v] = Fma(weight, Load(block + token * kMaxHeadDim + v * kLanes), acc[v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) Store(values + v * kLanes, acc[v]);
}

ARIL_INLINE void AddAllValues(float* values, const float* block, const float* p, Visible visible,
                              int64_t head_dim) {
  int64_t d = 0;
  for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes)
    AddValues<4>(values + d, block + d, p, visible);
  // Rows are kMaxHeadDim wide, so that the last vector may pass the end of the head.
  for (; d < head_dim; d += kLanes) AddValues<1>(values + d, block + d, p, visible);
}

template <typename T>
ARIL_INLINE void WidenBlock(const typename T::Element* const* rows, int64_t tokens,
                            int64_t head_dim, float* block) {
  for (int64_t token = 0; token < tokens; ++token) {
    float* out = block + token * kMaxHeadDim;
    int64_t d = 0;
    for (; d + kLanes <= head_dim; d += kLanes) Store(out + d, T::Widen(rows[token] + d));
    if (d < head_dim) Store(out + d, T::WidenPartial(rows[token] + d, head_dim - d));
  }
}

template <typename T>
ARIL_INLINE void Finish(const Query& query, int64_t head_dim, void* out_row) {
  auto* out = static_cast<typename T::Element*>(out_row);
  const Vf inverse = Set(1.0f / query.sum);
  int64_t d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) T::Write(out + d, Load(query.values + d) * inverse);
  if (d < head_dim) T::WritePartial(out + d, Load(query.values + d) * inverse, head_dim - d);
}

template <typename T>
ARIL_INLINE int64_t ElementOffset(const AttentionTile& t, int64_t index) {
  const int64_t number = t.first_query + index;
  return (number / t.group * t.row_stride + number % t.group * t.head_dim) *
         (int64_t)sizeof(typename T::Element);
}

template <typename T>
void RunTile(const AttentionTile& t) {
  using Element = typename T::Element;
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
  for (int64_t start = queries[0].first_token / kBlock * kBlock; start < end; start += kBlock) {
    const int64_t tokens = Min(kBlock, end - start);
    const Element* keys[kBlock];
    const Element* value_rows[kBlock];
    for (int64_t i = 0; i < tokens; ++i) {
      const std::byte* page = t.pages[(start + i) / t.page_tokens];
      const int64_t slot = (start + i) % t.page_tokens * t.head_dim * (int64_t)sizeof(Element);
      keys[i] = reinterpret_cast<const Element*>(page + t.key_offset + slot);
      value_rows[i] = reinterpret_cast<const Element*>(page + t.value_offset + slot);
    }
    WidenBlock<T>(value_rows, tokens, t.head_dim, block);
    for (int64_t i = 0; i < t.num_queries; ++i) {
      const Visible visible = VisibleIn(queries[i], start);
      if (visible.begin >= visible.end) continue;
      Vf scores[kGroups];
      Scores<T>(t, queries[i], keys, tokens, visible, scores);
      FoldScores(queries[i], scores, t.head_dim, p[i]);
      AddAllValues(queries[i].values, block, p[i], visible, t.head_dim);
    }
  }
  for (int64_t i = 0; i < t.num_queries; ++i) {
    Finish<T>(queries[i], t.head_dim, static_cast<char*>(t.out) + ElementOffset<T>(t, i));
  }
}

}  // namespace

void AttentionTileF32(const AttentionTile& tile) { RunTile<Float32>(tile); }
void AttentionTileBF16(const AttentionTile& tile) { RunTile<Bfloat16>(tile); }

}  // namespace aril::kernels::ARIL_ISA
