// A matrix of a checkpoint, of whichever kind.

#ifndef ARIL_TENSOR_WEIGHT_VIEW_H_
#define ARIL_TENSOR_WEIGHT_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <variant>

#include "tensor/int4_view.h"
#include "tensor/tensor.h"

namespace aril {

// Numbers, or four bits and what they stand for.
using WeightView = std::variant<TensorView, Int4View>;

inline bool IsInt4(const WeightView& view) { return std::holds_alternative<Int4View>(view); }

inline Shape ShapeOf(const WeightView& view) {
  const auto* const int4 = std::get_if<Int4View>(&view);
  return int4 != nullptr ? int4->shape() : std::get<TensorView>(view).shape;
}

inline size_t SizeBytes(const WeightView& view) {
  return std::visit([](const auto& matrix) { return matrix.size_bytes(); }, view);
}

inline void CopyAsFloat(const WeightView& from, int64_t first, int64_t count, float* to) {
  std::visit([&](const auto& matrix) { CopyAsFloat(matrix, first, count, to); }, from);
}

inline void CopyAsBF16(const WeightView& from, int64_t first, int64_t count, BF16* to) {
  std::visit([&](const auto& matrix) { CopyAsBF16(matrix, first, count, to); }, from);
}

}  // namespace aril

#endif  // ARIL_TENSOR_WEIGHT_VIEW_H_
