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

BF16 Narrow(float value, BF16*) { return ToBF16(value); }
F16 Narrow(float value, F16*) { return ToF16(value); }

template <typename From, typename To>
void Convert(const std::byte* from, int64_t count, To* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = Narrow(ToFloat(Load<From>(from, i)), to);
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

// To 16 bits, with round to nearest even.
template <typename To>
void CopyNarrowed(const TensorView& from, DType to_dtype, int64_t first, int64_t count, To* to) {
  const std::byte* data = Start(from, first, count);
  if (count == 0) return;
  if (from.dtype == to_dtype) {
    std::memcpy(to, data, static_cast<size_t>(count) * sizeof(To));
    return;
  }
  switch (from.dtype) {
    case DType::kF32:
      return Convert<float>(data, count, to);
    case DType::kBF16:
      return Convert<BF16>(data, count, to);
    case DType::kF16:
      return Convert<F16>(data, count, to);
    default:
      CHECK_EQ(from.dtype, DType::kF32);
  }
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
  CopyNarrowed(from, DType::kBF16, first, count, to);
}

void CopyElements(const TensorView& from, int64_t first, int64_t count, DType dtype,
                  std::byte* to) {
  switch (dtype) {
    case DType::kF32:
      return CopyAsFloat(from, first, count, reinterpret_cast<float*>(to));
    case DType::kF16:
      return CopyNarrowed(from, DType::kF16, first, count, reinterpret_cast<F16*>(to));
    default:
      CHECK(dtype == DType::kBF16);
      return CopyAsBF16(from, first, count, reinterpret_cast<BF16*>(to));
  }
}

TensorView TensorView::Rows(int64_t first, int64_t count) const {
  CHECK(!shape.empty());
  CHECK(first >= 0 && count >= 0 && first <= shape[0] - count);
  TensorView rows = *this;
  rows.shape[0] = first;  // those before
  const size_t skipped_bytes = rows.size_bytes();
  rows.data += skipped_bytes;
  rows.shape[0] = count;
  return rows;
}

int64_t IntegerAt(const TensorView& tensor, int64_t index) {
  if (tensor.dtype == DType::kI64) return Load<int64_t>(Start(tensor, index, 1), 0);
  CHECK_EQ(tensor.dtype, DType::kI32);
  return Load<int32_t>(Start(tensor, index, 1), 0);
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
    case DType::kF8E4M3:  // has NaN only, of which all bits are set
      return NoneHasExponent<uint8_t>(tensor.data, count, 0x7Fu);
    default:
      CHECK_EQ(tensor.dtype, DType::kF32);
      return false;
  }
}

}  // namespace aril
