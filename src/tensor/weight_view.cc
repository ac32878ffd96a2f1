#include "tensor/weight_view.h"

#include <algorithm>

namespace aril {

void CopyAsBF16(const WeightView& from, int64_t first, int64_t count, BF16* to) {
  CopyElements(from, first, count, DType::kBF16, reinterpret_cast<std::byte*>(to));
}

void CopyElements(const WeightView& from, int64_t first, int64_t count, DType dtype,
                  std::byte* to) {
  if (const auto* const numbers = std::get_if<TensorView>(&from); numbers != nullptr) {
    return CopyElements(*numbers, first, count, dtype, to);
  }
  constexpr int64_t kPiece = 1024;
  float values[kPiece];
  for (int64_t done = 0; done < count; done += kPiece) {
    const int64_t size = std::min(kPiece, count - done);
    CopyAsFloat(from, first + done, size, values);
    const TensorView piece = {reinterpret_cast<const std::byte*>(values), DType::kF32, {size}};
    CopyElements(piece, 0, size, dtype, to + static_cast<size_t>(done) * SizeOf(dtype));
  }
}

}  // namespace aril
