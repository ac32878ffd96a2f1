#include "kernels/activation/activation_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

struct SiluOf {
  ARIL_INLINE Vf Apply(Vf x) { return Silu(x); }
};

struct GeluTanhOf {
  ARIL_INLINE Vf Apply(Vf x) { return GeluTanh(x); }
};

template <typename F, typename Element>
void Run(const GluRow& row) {
  Element* out = static_cast<Element*>(row.out);
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    Store(out + i, F::Apply(Load(row.gate + i)) * Load(row.up + i));
  }
  if (const int64_t n = row.size - i; n > 0) {
    StorePartial(out + i, F::Apply(LoadPartial(row.gate + i, n)) * LoadPartial(row.up + i, n), n);
  }
}

template <typename Element>
ARIL_INLINE void RunFor(const GluRow& row) {
  row.f == Activation::kSilu ? Run<SiluOf, Element>(row) : Run<GeluTanhOf, Element>(row);
}

}  // namespace

void GluRowF32(const GluRow& row) { RunFor<float>(row); }
void GluRowBF16(const GluRow& row) { RunFor<uint16_t>(row); }

void SoftcapValues(const SoftcapRow& row) {
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    Store(row.values + i, Softcap(Load(row.values + i), row.cap));
  }
  if (const int64_t n = row.size - i; n > 0) {
    StorePartial(row.values + i, Softcap(LoadPartial(row.values + i, n), row.cap), n);
  }
}

}  // namespace aril::kernels::ARIL_ISA
