// Matrices of floats of eight bits, as checkpoints of FP8 have them.

#ifndef ARIL_TENSOR_FLOAT8_VIEW_H_
#define ARIL_TENSOR_FLOAT8_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "base/checked.h"
#include "tensor/tensor.h"

namespace aril {

// [rows, cols], outputs by inputs: W[r][c] = scale · q, q an F8E4M3. Outputs and inputs of a block
// of the module have one scale. Read only; safe to read from many threads.
struct Float8View {
  TensorView levels;  // F8_E4M3 [rows, cols]
  // F32, BF16 or F16 [blocks of the module's outputs, blocks of its inputs]
  TensorView scales;
  int64_t block_rows = 1;
  int64_t block_cols = 0;
  int64_t first_row = 0;  // of the module's outputs

  int64_t rows() const { return levels.shape[0]; }
  int64_t cols() const { return levels.shape[1]; }
  const Shape& shape() const { return levels.shape; }
  size_t size_bytes() const { return levels.size_bytes(); }
  // Of a row.
  int64_t blocks() const { return CeilDiv(cols(), block_cols); }
  Float8View Rows(int64_t first, int64_t count) const;

  const F8E4M3* Row(int64_t row) const {
    return reinterpret_cast<const F8E4M3*>(levels.data) + row * cols();
  }
  // Of a block of a row's inputs.
  float Scale(int64_t row, int64_t block) const;
};

// As of TensorView: float32 holds the values exactly for scales of 16 bits. BF16 is rounded.
void CopyAsFloat(const Float8View& from, int64_t first, int64_t count, float* to);

}  // namespace aril

#endif  // ARIL_TENSOR_FLOAT8_VIEW_H_
