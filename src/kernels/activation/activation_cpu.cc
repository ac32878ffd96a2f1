#include "kernels/activation/activation_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {

void SiluMulRowF32(const SiluMulRow& row) {
  float* out = static_cast<float*>(row.out);
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    Store(out + i, Silu(Load(row.gate + i)) * Load(row.up + i));
  }
  if (const int64_t n = row.size - i; n > 0) {
    StorePartial(out + i, Silu(LoadPartial(row.gate + i, n)) * LoadPartial(row.up + i, n), n);
  }
}

void SiluMulRowBF16(const SiluMulRow& row) {
  uint16_t* out = static_cast<uint16_t*>(row.out);
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    StoreBf16(out + i, Silu(Load(row.gate + i)) * Load(row.up + i));
  }
  if (const int64_t n = row.size - i; n > 0) {
    StoreBf16Partial(out + i, Silu(LoadPartial(row.gate + i, n)) * LoadPartial(row.up + i, n), n);
  }
}

}  // namespace aril::kernels::ARIL_ISA
