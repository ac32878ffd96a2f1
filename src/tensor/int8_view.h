// Matrices of bytes, as checkpoints of compressed-tensors have them.

#ifndef ARIL_TENSOR_INT8_VIEW_H_
#define ARIL_TENSOR_INT8_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace aril {

// [rows, cols], outputs by inputs: W[r][c] = scale[r] · q, −128 ≤ q ≤ 127. Read only; safe to read
// from many threads.
struct Int8View {
  TensorView levels;  // I8 [rows, cols]
  TensorView scales;  // F32, BF16 or F16 [rows, 1]

  int64_t rows() const { return levels.shape[0]; }
  int64_t cols() const { return levels.shape[1]; }
  const Shape& shape() const { return levels.shape; }
  size_t size_bytes() const { return levels.size_bytes(); }
  Int8View Rows(int64_t first, int64_t count) const {
    return {levels.Rows(first, count), scales.Rows(first, count)};
  }

  const int8_t* Row(int64_t row) const {
    return reinterpret_cast<const int8_t*>(levels.data) + row * cols();
  }
  float Scale(int64_t row) const;
};

// As of TensorView: float32 holds the values exactly for scales of 16 bits. BF16 is rounded.
void CopyAsFloat(const Int8View& from, int64_t first, int64_t count, float* to);

}  // namespace aril

#endif  // ARIL_TENSOR_INT8_VIEW_H_
