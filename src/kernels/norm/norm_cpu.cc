// RMSNorm of one row.

#include "kernels/norm/norm_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

ARIL_INLINE float InverseRms(const float* x, int64_t size, float eps) {
  return 1.0f / __builtin_sqrtf(SumOfSquares(x, size) / (float)size + eps);
}

void Add(const NormRow& row) {
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    Store(row.residual + i, Load(row.residual + i) + Load(row.add + i));
  }
  for (; i < row.size; ++i) row.residual[i] += row.add[i];
}

void AddNormed(const NormRow& row) {
  const Vf scale = Set(InverseRms(row.add, row.size, row.eps));
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    const Vf normed = Load(row.add + i) * scale * Load(row.add_weight + i);
    Store(row.residual + i, Load(row.residual + i) + normed);
  }
  if (const int64_t n = row.size - i; n > 0) {
    const Vf normed = LoadPartial(row.add + i, n) * scale * LoadPartial(row.add_weight + i, n);
    StorePartial(row.residual + i, LoadPartial(row.residual + i, n) + normed, n);
  }
}

template <typename Element>
ARIL_INLINE void Normalize(const NormRow& row) {
  if (row.add != nullptr) row.add_weight == nullptr ? Add(row) : AddNormed(row);
  const Vf scale = Set(InverseRms(row.residual, row.size, row.eps));
  Element* out = static_cast<Element*>(row.out);
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    Store(out + i, Load(row.residual + i) * scale * Load(row.weight + i));
  }
  if (const int64_t n = row.size - i; n > 0) {
    const Vf v = LoadPartial(row.residual + i, n) * scale * LoadPartial(row.weight + i, n);
    StorePartial(out + i, v, n);
  }
}

}  // namespace

void NormRowF32(const NormRow& row) { Normalize<float>(row); }
void NormRowBF16(const NormRow& row) { Normalize<uint16_t>(row); }

}  // namespace aril::kernels::ARIL_ISA
