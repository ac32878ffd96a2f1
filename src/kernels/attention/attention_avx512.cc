// The matrix products of attention_lanes_avx512.h with AVX-512's dot products of BF16 pairs.
// Scores: a pair along head_dim of a key meets that of all queries, a lane each; of few queries in
// half vectors, which are as fast per lane where the hardware has two of them for each whole one.
// Values: a pair of tokens' probabilities of a query meets the dimensions.

#include "kernels/attention/attention_cpu.h"

#include <type_traits>

#include "kernels/attention/attention_lanes_avx512.h"

namespace aril::kernels::avx512 {
namespace {

// Rows of K that are one piece of memory: of a page, or copied.
constexpr int kRunTokens = 8;
constexpr int kRuns = kBlockTokens / kRunTokens;
constexpr int kTogether = 16;  // tokens whose scores are summed up side by side
constexpr int kQueriesTogether = 8;
constexpr int kStepTiles = 2;

// One lane's products are DotPairs'. `key`: a pair, for all lanes.
ARIL_INLINE void AddKey(__m512& sum, __m512i q, const uint32_t& key) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(q), "m"(key));
}
ARIL_INLINE void AddKey(__m256& sum, __m256i q, const uint32_t& key) {
  asm("vdpbf16ps %2%{1to8%}, %1, %0" : "+v"(sum) : "v"(q), "m"(key));
}

struct Whole {
  using Floats = __m512;
  ARIL_INLINE __m512 Zeros() { return _mm512_setzero_ps(); }
  ARIL_INLINE __m512i LoadQuery(const uint32_t* p) { return _mm512_load_si512(p); }
  ARIL_INLINE void StoreScores(float* p, __m512 v) { _mm512_store_ps(p, v); }
};

struct Half {
  using Floats = __m256;
  ARIL_INLINE __m256 Zeros() { return _mm256_setzero_ps(); }
  ARIL_INLINE __m256i LoadQuery(const uint32_t* p) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(p));
  }
  ARIL_INLINE void StoreScores(float* p, __m256 v) { _mm256_store_ps(p, v); }
};

// Scores of the tokens of two runs.
template <typename Lanes, int64_t kRowElements>
ARIL_INLINE void MultiplyRuns(const Queries& queries, int64_t pairs, const uint32_t* const runs[2],
                              float scores[][kGroupQueries]) {
  constexpr int64_t kRowPairs = kRowElements / 2;
  typename Lanes::Floats sums[kTogether];
#pragma GCC unroll 16
  for (int i = 0; i < kTogether; ++i) sums[i] = Lanes::Zeros();
  const uint32_t* q = queries.q[0][0];
  const uint32_t *first = runs[0], *second = runs[1];
  for (int64_t pair = 0; pair < pairs; ++pair, q += kGroupQueries, ++first, ++second) {
    const auto query = Lanes::LoadQuery(q);
#pragma GCC unroll 8
    for (int i = 0; i < kRunTokens; ++i) {
      AddKey(sums[i], query, first[i * kRowPairs]);
      AddKey(sums[kRunTokens + i], query, second[i * kRowPairs]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kTogether; ++i) Lanes::StoreScores(scores[i], sums[i]);
}

// The probabilities of a block as BF16: of query q and the tokens 2i and 2i + 1 pairs[i][q].
struct Probabilities {
  alignas(64) uint32_t pairs[kBlockPairs][kGroupQueries];
};

template <bool kFew>
ARIL_INLINE void Round(const Scores& scores, Probabilities& p) {
  for (int i = 0; i < (kFew ? kBlockPairs / 2 : kBlockPairs); ++i) {
    const __m512i pairs = PairProbabilities(scores, i);
    _mm512_store_si512(p.pairs[i], pairs);
    if constexpr (kFew) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(p.pairs[kBlockPairs / 2 + i]),
                         _mm512_extracti64x4_epi64(pairs, 1));
    }
  }
}

// Where the values of a step's dimensions are summed up, for a few neighbouring queries.
template <int kQueries>
struct Sums {
  Vf of[kQueries][kStepTiles];

  ARIL_INLINE void Load(const Queries& queries, int64_t query, int64_t tile, Sums& sums) {
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < kStepTiles; ++v) {
        sums.of[i][v] = avx512::Load(queries.values[tile + v][query + i]);
      }
    }
  }
  ARIL_INLINE void Store(const Sums& sums, int64_t query, int64_t tile, Queries& queries) {
#pragma GCC unroll 8
    for (int i = 0; i < kQueries; ++i) {
#pragma GCC unroll 2
      for (int v = 0; v < kStepTiles; ++v) {
        avx512::Store(queries.values[tile + v][query + i], sums.of[i][v]);
      }
    }
  }
};

// V of a pair of tokens: the dimensions of a step, in the order of Values.
struct ValuePair {
  Vu of[kStepTiles];
};

// Where AddValues takes V from: as LoadValues left it, which pays for many queries, or the rows.
struct StagedValues {
  const Values* values;

  ValuePair At(int64_t pair, int64_t step) const {
    ValuePair result;
    for (int v = 0; v < kStepTiles; ++v) {
      __builtin_memcpy(&result.of[v], values->tiles[kStepTiles * step + v][pair], sizeof(Vu));
    }
    return result;
  }
};

struct ValueRows {
  const uint16_t* rows[kBlockTokens];  // of kRowElements; of zeros where there is no token

  ValuePair At(int64_t pair, int64_t step) const {
    const auto first = (__m512i)LoadPairs(rows[2 * pair] + step * kStepElements);
    const auto second = (__m512i)LoadPairs(rows[2 * pair + 1] + step * kStepElements);
    return {{(Vu)_mm512_unpacklo_epi16(first, second), (Vu)_mm512_unpackhi_epi16(first, second)}};
  }
};

// Adds the products of one pair of tokens.
template <int kQueries>
ARIL_INLINE void AddPair(const uint32_t* p, const ValuePair& values, Sums<kQueries>& sums) {
#pragma GCC unroll 8
  for (int i = 0; i < kQueries; ++i) {
    const Vu weights = p[i] - Vu{};
#pragma GCC unroll 2
    for (int v = 0; v < kStepTiles; ++v) {
      sums.of[i][v] = DotPairs(weights, values.of[v], sums.of[i][v]);
    }
  }
}

// The tokens of a block that a query sees, relative to its start.
struct Seen {
  int64_t begin, end;

  bool operator==(const Seen&) const = default;
};

// Of a pair that is half seen the other value is left out: it may be no number, which times 0 is
// none either.
ARIL_INLINE void LeaveOutUnseen(Seen seen, int64_t pair, ValuePair& values) {
  for (int v = 0; v < kStepTiles; ++v) {
    if (2 * pair < seen.begin) values.of[v] &= 0xFFFF0000u;
    if (2 * pair + 1 >= seen.end) values.of[v] &= 0x0000FFFFu;
  }
}

// Adds the values that neighbouring queries, which see the same, weigh.
template <int kQueries, typename Source>
void AddSeen(const Probabilities& p, const Source& values, Seen seen, int64_t query, int64_t steps,
             Queries& queries) {
  for (int64_t step = 0; step < steps; ++step) {
    Sums<kQueries> sums;
    Sums<kQueries>::Load(queries, query, kStepTiles * step, sums);
    for (int64_t pair = seen.begin / 2; pair < (seen.end + 1) / 2; ++pair) {
      ValuePair of_pair = values.At(pair, step);
      const bool is_whole = 2 * pair >= seen.begin && 2 * pair + 1 < seen.end;
      if (!is_whole) LeaveOutUnseen(seen, pair, of_pair);
      AddPair<kQueries>(p.pairs[pair] + query, of_pair, sums);
    }
    Sums<kQueries>::Store(sums, query, kStepTiles * step, queries);
  }
}

template <typename Source>
struct AddSeenFunctions {
  using Function = void (*)(const Probabilities&, const Source&, Seen, int64_t, int64_t, Queries&);
  static constexpr Function kOf[kQueriesTogether + 1] = {nullptr,
                                                         AddSeen<1, Source>,
                                                         AddSeen<2, Source>,
                                                         AddSeen<3, Source>,
                                                         AddSeen<4, Source>,
                                                         AddSeen<5, Source>,
                                                         AddSeen<6, Source>,
                                                         AddSeen<7, Source>,
                                                         AddSeen<8, Source>};
};

alignas(64) constexpr uint16_t kNoValues[kMaxHeadDim] = {};

// kRowElements: of a row of K and of V.
template <int64_t kRowElements, bool kFew>
class PairProducts {
 public:
  explicit PairProducts(const AttentionTile& t)
      : keys_are_runs_(t.page_tokens % kRunTokens == 0 && t.head_dim == kRowElements),
        takes_rows_(kFew && t.head_dim == kRowElements),
        steps_(NumSteps(t)) {}

  void LoadBlock(const AttentionTile& t, const BlockRows& rows) {
    if (keys_are_runs_) {
      // What is after the last token is in the last page: some number, of which nothing is made.
      for (int64_t i = 0; i < kRuns; ++i) {
        const int64_t token = i * kRunTokens < rows.tokens ? i * kRunTokens : 0;
        runs_[i] = reinterpret_cast<const uint32_t*>(rows.At(token, t.key_offset));
      }
    } else {
      CopyKeys(t, rows, keys_, kRowElements);
      for (int64_t i = 0; i < kRuns; ++i) {
        runs_[i] = reinterpret_cast<const uint32_t*>(keys_ + i * kRunTokens * kRowElements);
      }
    }
    if (takes_rows_) {
      for (int64_t i = 0; i < kBlockTokens; ++i) {
        rows_.rows[i] = i < rows.tokens ? rows.At(i, t.value_offset) : kNoValues;
      }
    } else {
      LoadValues(t, rows, values_);
    }
  }

  void MultiplyKeys(const Queries& queries, Scores& scores) const {
    using Lanes = std::conditional_t<kFew, Half, Whole>;
    for (int i = 0; i < kRuns; i += 2) {
      MultiplyRuns<Lanes, kRowElements>(queries, steps_ * kStepElements / 2, runs_ + i,
                                        scores.rows + i * kRunTokens);
    }
  }

  void AddValues(const Scores& scores, int64_t start, bool sees_all, Queries& queries) const {
    Probabilities p;
    Round<kFew>(scores, p);
    if (takes_rows_) {
      AddValuesOf(rows_, p, start, sees_all, queries);
    } else {
      AddValuesOf(StagedValues{&values_}, p, start, sees_all, queries);
    }
  }

 private:
  template <typename Source>
  void AddValuesOf(const Source& values, const Probabilities& p, int64_t start, bool sees_all,
                   Queries& queries) const {
    for (int64_t i = 0, count = 0; i < queries.count; i += count) {
      const Seen seen = sees_all ? Seen{0, kBlockTokens} : SeenBy(queries, i, start);
      const int64_t most = Min(kQueriesTogether, queries.count - i);
      for (count = 1; count < most; ++count) {
        if (!sees_all && !(SeenBy(queries, i + count, start) == seen)) break;
      }
      if (seen.begin >= seen.end) continue;
      AddSeenFunctions<Source>::kOf[count](p, values, seen, i, steps_, queries);
    }
  }

  static Seen SeenBy(const Queries& queries, int64_t query, int64_t start) {
    return {Max(0, queries.first_token[query] - start),
            Min(kBlockTokens, queries.end_token[query] - start)};
  }

  const bool keys_are_runs_, takes_rows_;
  const int64_t steps_;
  const uint32_t* runs_[kRuns];
  ValueRows rows_;
  alignas(64) uint16_t keys_[kBlockTokens * kRowElements];
  Values values_;
};

template <int64_t kRowElements>
void RunTile(const AttentionTile& t) {
  if (AreFew(t)) {
    RunLanes<true, PairProducts<kRowElements, true>>(t);
  } else {
    RunLanes<false, PairProducts<kRowElements, false>>(t);
  }
}

}  // namespace

void AttentionTileBF16(const AttentionTile& t) {
  if (t.head_dim <= 64) return RunTile<64>(t);
  if (t.head_dim <= 128) return RunTile<128>(t);
  RunTile<kMaxHeadDim>(t);
}

}  // namespace aril::kernels::avx512
