// A matrix of a checkpoint, of whichever kind.

#ifndef ARIL_TENSOR_WEIGHT_VIEW_H_
#define ARIL_TENSOR_WEIGHT_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <variant>

#include "tensor/codebook4_view.h"
#include "tensor/float8_view.h"
#include "tensor/int4_view.h"
#include "tensor/int8_view.h"
#include "tensor/strided_view.h"
#include "tensor/tensor.h"

namespace aril {

// Numbers, side by side or apart; or four bits, bytes, floats of eight bits or codes, and what they
// stand for.
using WeightView =
    std::variant<TensorView, StridedView, Int4View, Int8View, Float8View, Codebook4View>;

inline bool IsQuantized(const WeightView& view) {
  return !std::holds_alternative<TensorView>(view) && !std::holds_alternative<StridedView>(view);
}

inline Shape ShapeOf(const TensorView& view) { return view.shape; }
inline Shape ShapeOf(const StridedView& view) { return view.shape(); }
inline Shape ShapeOf(const Int4View& view) { return view.shape(); }
inline Shape ShapeOf(const Int8View& view) { return view.shape(); }
inline Shape ShapeOf(const Float8View& view) { return view.shape(); }
inline Shape ShapeOf(const Codebook4View& view) { return view.shape(); }
inline Shape ShapeOf(const WeightView& view) {
  return std::visit([](const auto& matrix) { return ShapeOf(matrix); }, view);
}

inline size_t SizeBytes(const WeightView& view) {
  return std::visit([](const auto& matrix) { return matrix.size_bytes(); }, view);
}

inline TensorView RowsOf(const TensorView& view, int64_t first, int64_t count) {
  return view.Rows(first, count);
}
inline WeightView RowsOf(const WeightView& view, int64_t first, int64_t count) {
  return std::visit([&](const auto& matrix) { return WeightView(matrix.Rows(first, count)); },
                    view);
}

inline void CopyAsFloat(const WeightView& from, int64_t first, int64_t count, float* to) {
  std::visit([&](const auto& matrix) { CopyAsFloat(matrix, first, count, to); }, from);
}

// What is no TensorView is rounded from floats.
void CopyAsBF16(const WeightView& from, int64_t first, int64_t count, BF16* to);

// As CopyElements of a TensorView: what float32 does not hold exactly is rounded twice.
void CopyElements(const WeightView& from, int64_t first, int64_t count, DType dtype, std::byte* to);

}  // namespace aril

#endif  // ARIL_TENSOR_WEIGHT_VIEW_H_
