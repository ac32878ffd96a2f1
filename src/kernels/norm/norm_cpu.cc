// RMSNorm of one row: the sum of squares runs in one vector accumulator over the row, then a fixed
// tree.

#include "kernels/norm/norm_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

ARIL_INLINE float InverseRms(const float* x, int64_t size, float eps) {
  Vf squares = Zero();
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Vf v = Load(x + i);
    squares = Fma(v, v, squares);
  }
  if (i < size) {
    const Vf v = LoadPartial(x + i, size - i);
    squares = Fma(v, v, squares);
  }
  return 1.0f / __builtin_sqrtf(Sum(squares) / (float)size + eps);
}

void AddTo(float* residual, const float* add, int64_t size) {
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) Store(residual + i, Load(residual + i) + Load(add + i));
  for (; i < size; ++i) residual[i] += add[i];
}

struct WriteFloat {
  float* out;
  ARIL_INLINE void Full(const WriteFloat& w, int64_t i, Vf v) { Store(w.out + i, v); }
  ARIL_INLINE void Part(const WriteFloat& w, int64_t i, Vf v, int64_t n) {
    StorePartial(w.out + i, v, n);
  }
};

struct WriteBf16 {
  uint16_t* out;
  ARIL_INLINE void Full(const WriteBf16& w, int64_t i, Vf v) { StoreBf16(w.out + i, v); }
  ARIL_INLINE void Part(const WriteBf16& w, int64_t i, Vf v, int64_t n) {
    StoreBf16Partial(w.out + i, v, n);
  }
};

template <typename Write>
ARIL_INLINE void Normalize(const NormRow& row, const Write& write) {
  if (row.add != nullptr) AddTo(row.residual, row.add, row.size);
  const Vf scale = Set(InverseRms(row.residual, row.size, row.eps));
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    Write::Full(write, i, Load(row.residual + i) * scale * Load(row.weight + i));
  }
  if (const int64_t n = row.size - i; n > 0) {
    const Vf v = LoadPartial(row.residual + i, n) * scale * LoadPartial(row.weight + i, n);
    Write::Part(write, i, v, n);
  }
}

}  // namespace

void NormRowF32(const NormRow& row) { Normalize(row, WriteFloat{static_cast<float*>(row.out)}); }
void NormRowBF16(const NormRow& row) { Normalize(row, WriteBf16{static_cast<uint16_t*>(row.out)}); }

}  // namespace aril::kernels::ARIL_ISA
