// Register tiles of the LoRA operator.
//
// Shrink: a tile of rank rows × batch rows, one vector accumulator each, walks `in` once. For one
// batch row it is 8 × 1 (eight streams of A, enough independent sums to hide the latency of the
// multiply-add); for longer segments 4 × 4, where each load of A serves four rows.
//
// Expand: for one row, y's columns are walked once per four ranks, as four streams of B; four rows
// keep a block of y in registers while all ranks of the tile are added. Ranks are added in order
// either way.

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

// Of a stream that is read once: the hardware sees it anew on each page of the operating system.
ARIL_INLINE void FetchAhead(const void* p) {
  constexpr uintptr_t kAheadBytes = 256;
  __builtin_prefetch((const void*)((uintptr_t)p + kAheadBytes), 0, 2);
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
      if constexpr (kRows == 1) FetchAhead(a[j] + i);
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

template <typename T>
void ShrinkTile(const LoraShrinkTile& t) {
  int64_t row = 0;
  for (; row + 4 <= t.rows; row += 4) {
    int j = 0;
    for (; j + 4 <= t.num_ranks; j += 4) Shrink<T, 4, 4>(t, row, j);
    for (; j < t.num_ranks; ++j) Shrink<T, 1, 4>(t, row, j);
  }
  for (; row < t.rows; ++row) {
    int j = 0;
    for (; j + 8 <= t.num_ranks; j += 8) Shrink<T, 8, 1>(t, row, j);
    for (; j + 4 <= t.num_ranks; j += 4) Shrink<T, 4, 1>(t, row, j);
    for (; j < t.num_ranks; ++j) Shrink<T, 1, 1>(t, row, j);
  }
}

// y's columns from `first_col` on, of one row, some ranks.
template <typename T, int kRanks>
ARIL_INLINE void ExpandRanks(const LoraExpandTile& t, int64_t row, int first_rank,
                             int64_t first_col) {
  using Element = typename T::Element;
  const Element* b[kRanks];
  Vf v[kRanks];
  for (int j = 0; j < kRanks; ++j) {
    b[j] = static_cast<const Element*>(t.b[first_rank + j]);
    v[j] = Set(t.scale * t.v[row * t.v_stride + first_rank + j]);
  }
  float* y = t.y + row * t.y_stride;
  int64_t col = first_col;
  for (; col + kLanes <= t.cols; col += kLanes) {
    Vf sum = Load(y + col);
#pragma GCC unroll 4
    for (int j = 0; j < kRanks; ++j) {
      FetchAhead(b[j] + col);
      sum = Fma(v[j], T::LoadWide(b[j] + col), sum);
    }
    Store(y + col, sum);
  }
  if (const int64_t rest = t.cols - col; rest > 0) {
    Vf sum = LoadPartial(y + col, rest);
    for (int j = 0; j < kRanks; ++j) sum = Fma(v[j], T::LoadWidePartial(b[j] + col, rest), sum);
    StorePartial(y + col, sum, rest);
  }
}

// The same for all ranks.
template <typename T>
void ExpandColumns(const LoraExpandTile& t, int64_t row, int64_t first_col) {
  int j = 0;
  for (; j + 4 <= t.num_ranks; j += 4) ExpandRanks<T, 4>(t, row, j, first_col);
  for (; j < t.num_ranks; ++j) ExpandRanks<T, 1>(t, row, j, first_col);
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
  for (int r = 0; r < kRows; ++r) ExpandColumns<T>(t, first_row + r, col);
}

template <typename T>
void ExpandTile(const LoraExpandTile& t) {
  int64_t row = 0;
  for (; row + 4 <= t.rows; row += 4) ExpandFourRows<T>(t, row);
  for (; row < t.rows; ++row) ExpandColumns<T>(t, row, 0);
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
