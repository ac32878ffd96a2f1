#include "tensor/tensor.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/strings.h"

namespace aril {
namespace {

// Tensors may be unaligned, so elements are loaded by memcpy; the loops below are simple enough for
// GCC and Clang to vectorize nevertheless.
template <typename T>
T Load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

float ToFloat(float value) { return value; }

template <typename T>
void ConvertToFloat(const std::byte* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = ToFloat(Load<T>(from, i));
}

template <typename T>
void ConvertToBF16(const std::byte* from, int64_t count, BF16* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = ToBF16(ToFloat(Load<T>(from, i)));
}

// True if no element has all the bits of `exponent_mask` set, which is what infinities and NaNs
// have. `Bits` is the unsigned integer of the element's width.
template <typename Bits>
bool NoneHasExponent(const std::byte* data, int64_t count, Bits exponent_mask) {
  // Early exit per block: the inner loop stays free of branches.
  constexpr int64_t kBlock = 1 << 14;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t end = std::min(count, first + kBlock);
    Bits found = 0;
    for (int64_t i = first; i < end; ++i) {
      found |= (Load<Bits>(data, i) & exponent_mask) == exponent_mask ? Bits{1} : Bits{0};
    }
    if (found != 0) return false;
  }
  return true;
}

// The first byte of element `first`, of a range that is checked.
const std::byte* Start(const TensorView& tensor, int64_t first, int64_t count) {
  CHECK_GE(first, 0);
  CHECK_GE(count, 0);
  CHECK_LE(first, tensor.num_elements() - count);
  return tensor.data + static_cast<size_t>(first) * SizeOf(tensor.dtype);
}

}  // namespace

std::string ToString(const Shape& shape) { return StrCat("[", Join(shape, ", "), "]"); }

void CopyAsFloat(const TensorView& from, int64_t first, int64_t count, float* to) {
  const std::byte* data = Start(from, first, count);
  if (count == 0) return;
  switch (from.dtype) {
    case DType::kF32:
      std::memcpy(to, data, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::kBF16:
      return ConvertToFloat<BF16>(data, count, to);
    case DType::kF16:
      return ConvertToFloat<F16>(data, count, to);
    default:
      CHECK_EQ(from.dtype, DType::kF32);
  }
}

void CopyAsBF16(const TensorView& from, int64_t first, int64_t count, BF16* to) {
  const std::byte* data = Start(from, first, count);
  if (count == 0) return;
  switch (from.dtype) {
    case DType::kF32:
      return ConvertToBF16<float>(data, count, to);
    case DType::kBF16:
      std::memcpy(to, data, static_cast<size_t>(count) * sizeof(BF16));
      return;
    case DType::kF16:
      return ConvertToBF16<F16>(data, count, to);
    default:
      CHECK_EQ(from.dtype, DType::kF32);
  }
}

void CopyElements(const TensorView& from, int64_t first, int64_t count, DType dtype,
                  std::byte* to) {
  if (dtype == DType::kF32) {
    CopyAsFloat(from, first, count, reinterpret_cast<float*>(to));
    return;
  }
  CHECK(dtype == DType::kBF16);
  CopyAsBF16(from, first, count, reinterpret_cast<BF16*>(to));
}

bool AllFinite(const TensorView& tensor) {
  const int64_t count = tensor.num_elements();
  switch (tensor.dtype) {
    case DType::kF32:
      return NoneHasExponent<uint32_t>(tensor.data, count, 0x7F800000u);
    case DType::kBF16:
      return NoneHasExponent<uint16_t>(tensor.data, count, 0x7F80u);
    case DType::kF16:
      return NoneHasExponent<uint16_t>(tensor.data, count, 0x7C00u);
    default:
      CHECK_EQ(tensor.dtype, DType::kF32);
      return false;
  }
}

}  // namespace aril
