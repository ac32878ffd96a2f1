#include "kernels/activation/activation_cpu.h"

#include "kernels/cpu/simd.h"

namespace aril::kernels::ARIL_ISA {
namespace {

struct SiluOf {
  ARIL_INLINE Vf Apply(Vf gate, Vf up) { return Silu(gate) * up; }
};

struct GeluTanhOf {
  ARIL_INLINE Vf Apply(Vf gate, Vf up) { return GeluTanh(gate) * up; }
};

// What is no number stays so: it is not more than the limit.
struct ClampedSwigluOf {
  ARIL_INLINE Vf Apply(Vf gate, Vf up) {
    const Vf limit = Set(kSwigluLimit);
    const Vf x = gate > limit ? limit : gate;
    const Vf below = up > limit ? limit : up;
    const Vf y = below < -limit ? -limit : below;
    return x / (1.0f + Exp(x * -kSwigluAlpha)) * (y + 1.0f);
  }
};

template <typename F, typename Element>
void Run(const GluRow& row) {
  Element* out = static_cast<Element*>(row.out);
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    Store(out + i, F::Apply(Load(row.gate + i), Load(row.up + i)));
  }
  if (const int64_t n = row.size - i; n > 0) {
    StorePartial(out + i, F::Apply(LoadPartial(row.gate + i, n), LoadPartial(row.up + i, n)), n);
  }
}

template <typename Element>
ARIL_INLINE void RunFor(const GluRow& row) {
  switch (row.f) {
    case Activation::kSilu:
      return Run<SiluOf, Element>(row);
    case Activation::kGeluTanh:
      return Run<GeluTanhOf, Element>(row);
    case Activation::kClampedSwiglu:
      return Run<ClampedSwigluOf, Element>(row);
  }
}

ARIL_INLINE Vf LoadValues(const float* p) { return Load(p); }
ARIL_INLINE Vf LoadValues(const uint16_t* p) { return LoadBf16(p); }
ARIL_INLINE Vf LoadValuesPartial(const float* p, int64_t n) { return LoadPartial(p, n); }
ARIL_INLINE Vf LoadValuesPartial(const uint16_t* p, int64_t n) { return LoadBf16Partial(p, n); }

template <typename Element>
ARIL_INLINE void Gate(const GateRow& row) {
  Element* values = static_cast<Element*>(row.values);
  int64_t i = 0;
  for (; i + kLanes <= row.size; i += kLanes) {
    Store(values + i, LoadValues(values + i) / (1.0f + Exp(-Load(row.gate + i))));
  }
  if (const int64_t n = row.size - i; n > 0) {
    const Vf gate = LoadPartial(row.gate + i, n);
    StorePartial(values + i, LoadValuesPartial(values + i, n) / (1.0f + Exp(-gate)), n);
  }
}

}  // namespace

void GateRowF32(const GateRow& row) { Gate<float>(row); }
void GateRowBF16(const GateRow& row) { Gate<uint16_t>(row); }

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
