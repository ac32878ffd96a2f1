// Element types, and scalar conversions between them.

#ifndef ARIL_TENSOR_DTYPE_H_
#define ARIL_TENSOR_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

namespace aril {

// Only kF32, kBF16 and kF16 can hold weights; of the others, some hold what quantized weights
// consist of, and any may stand in a file that has more than weights in it.
enum class DType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

size_t SizeOf(DType dtype);

// The safetensors name: "F32", "BF16", …
std::string_view Name(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
std::ostream& operator<<(std::ostream& out, DType dtype);

// bfloat16: the upper half of an IEEE float32.
struct BF16 {
  uint16_t bits = 0;
};

// IEEE 754 binary16.
struct F16 {
  uint16_t bits = 0;
};

// Eight bits: a sign, an exponent of four with a bias of 7, three of a mantissa; no infinities, and
// NaN is all bits but the sign's (OCP 8-bit Floating Point, "E4M3"). Magnitudes are at most 448.
struct F8E4M3 {
  uint8_t bits = 0;
};
inline constexpr float kMaxF8E4M3 = 448;

inline float ToFloat(BF16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

// Round to nearest, ties to even; NaN stays NaN.
inline BF16 ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)};
}

// Exact. Free of branches, so that a loop over it vectorizes.
inline float ToFloat(F16 value) {
  const uint32_t sign = uint32_t{value.bits & 0x8000u} << 16;
  const uint32_t magnitude = value.bits & 0x7FFFu;
  // A subnormal is a whole number of 2^-24. Otherwise the exponent's bias grows from 15 to 127, and
  // that of infinity and NaN from 31 to 255.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  const uint32_t rebias = magnitude >= 0x7C00u ? 224u << 23 : 112u << 23;
  const uint32_t normal = (magnitude << 13) + rebias;
  return std::bit_cast<float>(sign | (magnitude < 0x400u ? subnormal : normal));
}

// Exact: the same bits in the places of FP16's, which has a bias of 15, stand for 2^-8 of it.
inline float ToFloat(F8E4M3 value) {
  const uint32_t magnitude = value.bits & 0x7Fu;
  if (magnitude == 0x7F) return std::bit_cast<float>(0x7FC00000u);
  const uint32_t bits = (value.bits & 0x80u) << 8 | magnitude << 7;
  return 256 * ToFloat(F16{static_cast<uint16_t>(bits)});
}

// Round to nearest, ties to even; overflow gives infinity.
F16 ToF16(float value);

}  // namespace aril

#endif  // ARIL_TENSOR_DTYPE_H_
