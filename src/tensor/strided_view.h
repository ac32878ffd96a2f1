// Matrices of numbers that lie apart from one another in a tensor: those of an expert in gpt-oss.

#ifndef ARIL_TENSOR_STRIDED_VIEW_H_
#define ARIL_TENSOR_STRIDED_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace aril {

// [rows, cols], outputs by inputs: element [r][c] lies r · row_stride + c · col_stride elements
// behind the first. Read only; safe to read from many threads.
struct StridedView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;  // F32, BF16 or F16
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 0;

  Shape shape() const { return {rows, cols}; }
  size_t size_bytes() const { return static_cast<size_t>(rows * cols) * SizeOf(dtype); }
  StridedView Rows(int64_t first, int64_t count) const;
};

// As of TensorView. Of rows that follow one another neighbours are read from the same cache lines.
void CopyAsFloat(const StridedView& from, int64_t first, int64_t count, float* to);

}  // namespace aril

#endif  // ARIL_TENSOR_STRIDED_VIEW_H_
