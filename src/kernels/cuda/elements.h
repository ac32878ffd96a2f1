// The element types of activations and weights, as CUDA kernels see them. Only .cu files include
// this.

#ifndef ARIL_KERNELS_CUDA_ELEMENTS_H_
#define ARIL_KERNELS_CUDA_ELEMENTS_H_

#include "kernels/cuda/device.h"
#include "tensor/dtype.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

#ifndef __CUDACC__
// What `op` makes of the halves of a and b, in BF16 (F16), to nearest with ties to even.
template <typename Op>
uint32_t OnPairsBf16(uint32_t a, uint32_t b, const Op& op) {
  const auto at = [](uint32_t pair, int shift) {
    return emulator::Bf16ToFloat(static_cast<uint16_t>(pair >> shift));
  };
  return PackBf16(op(at(a, 0), at(b, 0)), op(at(a, 16), at(b, 16)));
}
template <typename Op>
uint32_t OnPairsF16(uint32_t a, uint32_t b, const Op& op) {
  const auto at = [](uint32_t pair, int shift) {
    return F16ToFloat(static_cast<uint16_t>(pair >> shift));
  };
  return PackF16(op(at(a, 0), at(b, 0)), op(at(a, 16), at(b, 16)));
}
#endif

// Both halves of a plus those of b, in BF16 (F16), to nearest with ties to even.
ARIL_DEVICE uint32_t AddPairsBf16(uint32_t a, uint32_t b) {
#ifdef __CUDACC__
  // Adding as such comes with sm_90 only.
  constexpr uint32_t kOnes = 0x3F803F80;
  uint32_t sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(kOnes), "r"(b));
  return sum;
#else
  return OnPairsBf16(a, b, [](float x, float y) { return x + y; });
#endif
}
ARIL_DEVICE uint32_t AddPairsF16(uint32_t a, uint32_t b) {
#ifdef __CUDACC__
  uint32_t sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
#else
  return OnPairsF16(a, b, [](float x, float y) { return x + y; });
#endif
}

// Both halves of a times those of b, likewise: what is subnormal is kept.
ARIL_DEVICE uint32_t MultiplyPairsBf16(uint32_t a, uint32_t b) {
#ifdef __CUDACC__
  constexpr uint32_t kMinusZeros = 0x80008000;
  uint32_t product;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(kMinusZeros));
  return product;
#else
  return OnPairsBf16(a, b, [](float x, float y) { return x * y; });
#endif
}
ARIL_DEVICE uint32_t MultiplyPairsF16(uint32_t a, uint32_t b) {
#ifdef __CUDACC__
  uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
#else
  return OnPairsF16(a, b, [](float x, float y) { return x * y; });
#endif
}

struct F32 {
  using Element = float;
  static ARIL_DEVICE float Widen(float value) { return value; }
  static ARIL_DEVICE float Narrow(float value) { return value; }
};

struct Bf16 {
  using Element = uint16_t;
  static ARIL_DEVICE float Widen(uint16_t bits) {
    return BitCast<float>(static_cast<uint32_t>(bits) << 16);
  }
  // To nearest, ties to even; NaN stays NaN.
  static ARIL_DEVICE uint16_t Narrow(float value) {
    const uint32_t bits = BitCast<uint32_t>(value);
    if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  static ARIL_DEVICE void Mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    MmaBf16(c, a, b);
  }
  static ARIL_DEVICE uint32_t Pack(float first, float second) { return PackBf16(first, second); }
  static ARIL_DEVICE uint32_t AddPairs(uint32_t a, uint32_t b) { return AddPairsBf16(a, b); }
  static ARIL_DEVICE uint32_t MultiplyPairs(uint32_t a, uint32_t b) {
    return MultiplyPairsBf16(a, b);
  }
  static constexpr uint32_t kOnes = 0x3F803F80;  // two of them
  // Two times the power of two whose last bit stands for 1: 128.
  static constexpr uint32_t kUnitPower = 0x43004300;
  // An F8E4M3 has its mantissa and its exponent so far from where they are here, where the bias is
  // 127 for 7; two times the power of two that makes good for it: 2^120.
  static constexpr int kFloat8Shift = 4;
  static constexpr uint32_t kFloat8Power = 0x7B807B80;
};

struct F16 {
  using Element = uint16_t;
  static ARIL_DEVICE float Widen(uint16_t bits) { return F16ToFloat(bits); }
  static ARIL_DEVICE uint16_t Narrow(float value) { return FloatToF16(value); }
  static ARIL_DEVICE void Mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    MmaF16(c, a, b);
  }
  static ARIL_DEVICE uint32_t Pack(float first, float second) { return PackF16(first, second); }
  static ARIL_DEVICE uint32_t AddPairs(uint32_t a, uint32_t b) { return AddPairsF16(a, b); }
  static ARIL_DEVICE uint32_t MultiplyPairs(uint32_t a, uint32_t b) {
    return MultiplyPairsF16(a, b);
  }
  static constexpr uint32_t kOnes = 0x3C003C00;
  static constexpr uint32_t kUnitPower = 0x64006400;  // 1024
  static constexpr int kFloat8Shift = 7;
  static constexpr uint32_t kFloat8Power = 0x5C005C00;  // 2^8, for 15 is 7
};

// Two instructions' products: 8 neighbours of k of each row in 16 bytes of a lane, of which the
// first four are for the first. `low` has row g of A, `high` row g + 8, `x` column g of B.
template <typename T>
ARIL_DEVICE void TwoInstructions(const Vector16& low, const Vector16& high, const Vector16& x,
                                 float (&sum)[4]) {
  const uint32_t a0[4] = {low.words[0], high.words[0], low.words[1], high.words[1]};
  const uint32_t b0[2] = {x.words[0], x.words[1]};
  T::Mma(sum, a0, b0);
  const uint32_t a1[4] = {low.words[2], high.words[2], low.words[3], high.words[3]};
  const uint32_t b1[2] = {x.words[2], x.words[3]};
  T::Mma(sum, a1, b1);
}

// Elements first, first + kStride, … of a row of `size`, zeros behind its end. All are on their way
// before one is used: loads that stand behind a store of a loop's last step wait for it, as the
// compiler cannot know that they are of other memory.
template <int kStride, int kCount, typename Element>
ARIL_DEVICE void LoadStrided(const Element* row, int first, int size, Element (&to)[kCount]) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int i = first + k * kStride;
    to[k] = i < size ? row[i] : Element{};
  }
}

// The kernel for one of the three dtypes that activations have.
template <typename Args>
int LaunchFor(DType dtype, const CudaContext& context, const LaunchShape& shape, void (*f32)(Args),
              void (*bf16)(Args), void (*f16)(Args), const Args& args) {
  return LaunchKernel(context, shape,
                      dtype == DType::kF32   ? f32
                      : dtype == DType::kF16 ? f16
                                             : bf16,
                      args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_CUDA_ELEMENTS_H_
