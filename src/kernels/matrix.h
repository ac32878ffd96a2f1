// A matrix view whose element type is known at run time: activations are F32 or BF16 by the model's
// dtype.

#ifndef ARIL_KERNELS_MATRIX_H_
#define ARIL_KERNELS_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tensor/tensor.h"

namespace aril::kernels {

template <typename Byte>
struct AnyMatrix {
  Byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next

  Byte* row(int64_t r) const { return data + r * stride * static_cast<int64_t>(SizeOf(dtype)); }
  AnyMatrix Rows(int64_t first, int64_t count) const {
    return {row(first), dtype, count, cols, stride};
  }
  AnyMatrix Columns(int64_t first, int64_t count) const {
    return {data + first * static_cast<int64_t>(SizeOf(dtype)), dtype, rows, count, stride};
  }
  operator AnyMatrix<const Byte>() const { return {data, dtype, rows, cols, stride}; }

  // The element as a float; for oracles and tests.
  float At(int64_t r, int64_t c) const {
    const Byte* row_data = row(r);
    return dtype == DType::kF32 ? reinterpret_cast<const float*>(row_data)[c]
                                : ToFloat(reinterpret_cast<const BF16*>(row_data)[c]);
  }
};

using Matrix = AnyMatrix<std::byte>;
using ConstMatrix = AnyMatrix<const std::byte>;

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_MATRIX_H_
