#include "tensor/dtype.h"

#include <cmath>
#include <iterator>

namespace aril {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  size_t size_bytes;
};

// In the order of the enum.
constexpr DTypeInfo kDTypes[] = {
    {DType::kF64, "F64", 8},   {DType::kF32, "F32", 4},        {DType::kF16, "F16", 2},
    {DType::kBF16, "BF16", 2}, {DType::kF8E4M3, "F8_E4M3", 1}, {DType::kF8E5M2, "F8_E5M2", 1},
    {DType::kI64, "I64", 8},   {DType::kI32, "I32", 4},        {DType::kI16, "I16", 2},
    {DType::kI8, "I8", 1},     {DType::kU64, "U64", 8},        {DType::kU32, "U32", 4},
    {DType::kU16, "U16", 2},   {DType::kU8, "U8", 1},          {DType::kBool, "BOOL", 1},
};

}  // namespace

size_t SizeOf(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].size_bytes; }

std::string_view Name(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const auto& info : kDTypes) {
    if (info.name == name) return info.dtype;
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << Name(dtype); }

F16 ToF16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return {static_cast<uint16_t>(sign | 0x7E00)};
  // 65520 is half way between the largest finite value and the next power of two.
  if (magnitude >= 65520.0f) return {static_cast<uint16_t>(sign | 0x7C00)};
  if (magnitude < 0x1p-14f) {
    // Subnormal: a whole number of 2^-24; nearbyint rounds to even.
    return {
        static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f)))};
  }
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = bits + 0xFFF + ((bits >> 13) & 1);
  return {static_cast<uint16_t>(sign | ((rounded >> 13) - (112u << 10)))};
}

}  // namespace aril
