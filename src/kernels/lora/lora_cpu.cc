// Register tiles of the LoRA operator. An adapter is read from memory once for each step that uses
// it, and bounds what its few rows take; so what is read comes in an order that memory likes, and
// is asked for before.
//
// Shrink: a tile of rank rows × batch rows, one vector accumulator each, walks `in` once. Segments
// of up to three rows take the rank rows one by one, which is a single stream through A; where the
// sum of one takes longer than its memory (AVX2, plain x86-64), several at a time. Longer ones take
// 4 × 4, where each load of A serves four rows.
//
// Expand: in segments of a few rows, y's columns are walked once per four ranks, as four streams of
// B, while the ranks after them are fetched; longer ones keep a block of y in registers while all
// ranks of the tile are added. Ranks are added in order either way.

#include "kernels/lora/lora_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

struct Float32 {
  using Element = float;
  static constexpr int kStep = kLanes;  // elements per multiply-add
  using Vector = Vf;
  ARIL_INLINE Vector LoadStep(const Element* p) { return Load(p); }
  ARIL_INLINE Vector LoadStepPartial(const Element* p, int64_t n) { return LoadPartial(p, n); }
  ARIL_INLINE Vf MultiplyAdd(Vector a, Vector b, Vf acc) { return Fma(a, b, acc); }
  ARIL_INLINE Vf LoadWide(const Element* p) { return Load(p); }
  ARIL_INLINE Vf LoadWidePartial(const Element* p, int64_t n) { return LoadPartial(p, n); }
};

struct Bfloat16 {
  using Element = uint16_t;
  static constexpr int kStep = kPairLanes;
  using Vector = Vu;
  ARIL_INLINE Vector LoadStep(const Element* p) { return LoadPairs(p); }
  ARIL_INLINE Vector LoadStepPartial(const Element* p, int64_t n) { return LoadPairsPartial(p, n); }
  ARIL_INLINE Vf MultiplyAdd(Vector a, Vector b, Vf acc) { return DotPairs(a, b, acc); }
  ARIL_INLINE Vf LoadWide(const Element* p) { return LoadBf16(p); }
  ARIL_INLINE Vf LoadWidePartial(const Element* p, int64_t n) { return LoadBf16Partial(p, n); }
};

constexpr int kLineBytes = 64;

// Into L2: what L1 can wait for at a time is less than memory can give.
ARIL_INLINE void Fetch(const void* p) { __builtin_prefetch(p, 0, 2); }

// Of a stream that is read once. The hardware sees it anew on each page of the operating system,
// and past the end of a row comes the next one, as a rule. On a Zen 4, one stream with 512 bytes
// gives a core 0.95 to 1.03 of what reading alone gives it; 0.86 to 0.89 with 4 KB.
ARIL_INLINE void FetchAhead(const void* p) {
  constexpr uintptr_t kAheadBytes = 512;
  Fetch((const void*)((uintptr_t)p + kAheadBytes));
}

template <typename T, int kRanks, int kRows>
ARIL_INLINE void Shrink(const LoraShrinkTile& t, int64_t first_row, int first_rank) {
  using Element = typename T::Element;
  const Element* a[kRanks];
  const Element* x[kRows];
  Vf acc[kRanks][kRows];
  for (int j = 0; j < kRanks; ++j) {
    a[j] = static_cast<const Element*>(t.a[first_rank + j]);
    for (int r = 0; r < kRows; ++r) acc[j][r] = Zero();
  }
  for (int r = 0; r < kRows; ++r) {
    x[r] = reinterpret_cast<const Element*>(static_cast<const char*>(t.x) +
                                            (first_row + r) * t.x_stride_bytes);
  }
  const int64_t full = t.in / T::kStep * T::kStep;
  for (int64_t i = 0; i < full; i += T::kStep) {
    typename T::Vector xs[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) xs[r] = T::LoadStep(x[r] + i);
#pragma GCC unroll 8
    for (int j = 0; j < kRanks; ++j) {
      const auto as = T::LoadStep(a[j] + i);
      if constexpr (kRows < 4) FetchAhead(a[j] + i);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[j][r] = T::MultiplyAdd(as, xs[r], acc[j][r]);
    }
  }
  if (const int64_t rest = t.in - full; rest > 0) {
    for (int j = 0; j < kRanks; ++j) {
      const auto as = T::LoadStepPartial(a[j] + full, rest);
      for (int r = 0; r < kRows; ++r) {
        acc[j][r] = T::MultiplyAdd(as, T::LoadStepPartial(x[r] + full, rest), acc[j][r]);
      }
    }
  }
  for (int j = 0; j < kRanks; ++j) {
    for (int r = 0; r < kRows; ++r) {
      t.v[(first_row + r) * t.v_stride + first_rank + j] = Sum(acc[j][r]);
    }
  }
}

// All ranks of some rows, kRanks at a time.
template <typename T, int kRanks, int kRows>
void ShrinkRanks(const LoraShrinkTile& t, int64_t first_row) {
  int j = 0;
  for (; j + kRanks <= t.num_ranks; j += kRanks) Shrink<T, kRanks, kRows>(t, first_row, j);
  for (; j < t.num_ranks; ++j) Shrink<T, 1, kRows>(t, first_row, j);
}

// The rows that are no group of four.
template <typename T, bool kOneStream>
void ShrinkLastRows(const LoraShrinkTile& t, int64_t first_row) {
  constexpr int kRanks = kOneStream ? 1 : 4, kRanksOfOneRow = kOneStream ? 1 : 8;
  switch (t.rows - first_row) {
    case 1:
      return ShrinkRanks<T, kRanksOfOneRow, 1>(t, first_row);
    case 2:
      return ShrinkRanks<T, kRanks, 2>(t, first_row);
    case 3:
      return ShrinkRanks<T, kRanks, 3>(t, first_row);
    default:
      return;
  }
}

template <typename T>
void ShrinkTile(const LoraShrinkTile& t) {
  if (kLanes == 16 && t.rows < 4) return ShrinkLastRows<T, true>(t, 0);
  int64_t row = 0;
  for (; row + 4 <= t.rows; row += 4) ShrinkRanks<T, 4, 4>(t, row);
  ShrinkLastRows<T, false>(t, row);
}

// y's columns from `first_col` on, of some rows, some ranks.
template <typename T, int kRanks, int kRows>
ARIL_INLINE void ExpandRanks(const LoraExpandTile& t, int64_t first_row, int first_rank,
                             int64_t first_col) {
  using Element = typename T::Element;
  constexpr int64_t kLineElements = kLineBytes / (int64_t)sizeof(Element);
  const Element* b[kRanks];
  const Element* fetch[kRanks];
  Vf v[kRanks][kRows];
  for (int j = 0; j < kRanks; ++j) {
    b[j] = static_cast<const Element*>(t.b[first_rank + j]);
    fetch[j] = static_cast<const Element*>(t.fetch[first_rank + j]);
    for (int r = 0; r < kRows; ++r) {
      v[j][r] = Set(t.scale * t.v[(first_row + r) * t.v_stride + first_rank + j]);
    }
  }
  float* const y = t.y + first_row * t.y_stride;
  const auto add_vector = [&](int64_t col) __attribute__((always_inline)) {
    Vf sum[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = Load(y + r * t.y_stride + col);
#pragma GCC unroll 4
    for (int j = 0; j < kRanks; ++j) {
      const Vf bs = T::LoadWide(b[j] + col);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[r] = Fma(v[j][r], bs, sum[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) Store(y + r * t.y_stride + col, sum[r]);
  };
  int64_t col = first_col;
  for (; col + kLineElements <= t.cols; col += kLineElements) {
#pragma GCC unroll 4
    for (int j = 0; j < kRanks; ++j) Fetch(fetch[j] + col);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kLineElements; i += kLanes) add_vector(col + i);
  }
  for (; col + kLanes <= t.cols; col += kLanes) add_vector(col);
  if (const int64_t rest = t.cols - col; rest > 0) {
    for (int r = 0; r < kRows; ++r) {
      Vf sum = LoadPartial(y + r * t.y_stride + col, rest);
      for (int j = 0; j < kRanks; ++j) {
        sum = Fma(v[j][r], T::LoadWidePartial(b[j] + col, rest), sum);
      }
      StorePartial(y + r * t.y_stride + col, sum, rest);
    }
  }
}

// The same for all ranks.
template <typename T, int kRows>
void ExpandColumns(const LoraExpandTile& t, int64_t first_row, int64_t first_col) {
  int j = 0;
  for (; j + 4 <= t.num_ranks; j += 4) ExpandRanks<T, 4, kRows>(t, first_row, j, first_col);
  for (; j < t.num_ranks; ++j) ExpandRanks<T, 1, kRows>(t, first_row, j, first_col);
}

// Four rows at a time, y in registers while all ranks are added: each vector of B that is loaded
// and widened serves four rows.
template <typename T>
void ExpandFourRows(const LoraExpandTile& t, int64_t first_row) {
  using Element = typename T::Element;
  constexpr int kRows = 4;
  constexpr int kVectors = kLanes == 16 ? 4 : 2;
  float v[kLoraMaxTileRanks][kRows];
  for (int j = 0; j < t.num_ranks; ++j) {
    for (int r = 0; r < kRows; ++r) v[j][r] = t.scale * t.v[(first_row + r) * t.v_stride + j];
  }
  float* y = t.y + first_row * t.y_stride;
  int64_t col = 0;
  for (; col + kVectors * kLanes <= t.cols; col += kVectors * kLanes) {
    Vf sum[kRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) sum[r][i] = Load(y + r * t.y_stride + col + i * kLanes);
    }
    for (int j = 0; j < t.num_ranks; ++j) {
      const Element* b = static_cast<const Element*>(t.b[j]) + col;
      Vf bs[kVectors];
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) bs[i] = T::LoadWide(b + i * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Vf scaled = Set(v[j][r]);
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) sum[r][i] = Fma(scaled, bs[i], sum[r][i]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) Store(y + r * t.y_stride + col + i * kLanes, sum[r][i]);
    }
  }
  if (col == t.cols) return;
  for (int r = 0; r < kRows; ++r) ExpandColumns<T, 1>(t, first_row + r, col);
}

// Of so many rows B is a few streams; of more, y's blocks stay in registers.
constexpr int64_t kStreamedRows = 8;

template <typename T>
void ExpandTile(const LoraExpandTile& t) {
  int64_t row = 0;
  for (; row + 4 <= t.rows; row += 4) {
    if (t.rows <= kStreamedRows) {
      ExpandColumns<T, 4>(t, row, 0);
    } else {
      ExpandFourRows<T>(t, row);
    }
  }
  switch (t.rows - row) {
    case 1:
      return ExpandColumns<T, 1>(t, row, 0);
    case 2:
      return ExpandColumns<T, 2>(t, row, 0);
    case 3:
      return ExpandColumns<T, 3>(t, row, 0);
    default:
      return;
  }
}

// One vector of columns of all rows: the gain and the bias are loaded once.
template <typename T>
void GainTile(const LoraGainTile& t) {
  using Element = typename T::Element;
  const auto* high = static_cast<const Element*>(t.gain[0]);
  const auto* low = static_cast<const Element*>(t.gain[1]);
  int64_t col = 0;
  for (; col + kLanes <= t.cols; col += kLanes) {
    const Vf gain = T::LoadWide(high + col) + T::LoadWide(low + col);
    const Vf bias = t.bias == nullptr ? Zero() : Load(t.bias + col);
    for (int64_t r = 0; r < t.rows; ++r) {
      float* y = t.y + r * t.y_stride + col;
      Store(y, Fma(gain, Load(y) - bias, bias));
    }
  }
  if (const int64_t rest = t.cols - col; rest > 0) {
    const Vf gain = T::LoadWidePartial(high + col, rest) + T::LoadWidePartial(low + col, rest);
    const Vf bias = t.bias == nullptr ? Zero() : LoadPartial(t.bias + col, rest);
    for (int64_t r = 0; r < t.rows; ++r) {
      float* y = t.y + r * t.y_stride + col;
      StorePartial(y, Fma(gain, LoadPartial(y, rest) - bias, bias), rest);
    }
  }
}

}  // namespace

void LoraShrinkF32(const LoraShrinkTile& tile) { ShrinkTile<Float32>(tile); }
void LoraShrinkBF16(const LoraShrinkTile& tile) { ShrinkTile<Bfloat16>(tile); }
void LoraExpandF32(const LoraExpandTile& tile) { ExpandTile<Float32>(tile); }
void LoraExpandBF16(const LoraExpandTile& tile) { ExpandTile<Bfloat16>(tile); }
void LoraGainF32(const LoraGainTile& tile) { GainTile<Float32>(tile); }
void LoraGainBF16(const LoraGainTile& tile) { GainTile<Bfloat16>(tile); }

}  // namespace aril::kernels::ARIL_ISA
