// Views of memory that belongs to somebody else.

#ifndef ARIL_TENSOR_TENSOR_H_
#define ARIL_TENSOR_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace aril {

using Shape = std::vector<int64_t>;

// "[32, 128]"
std::string ToString(const Shape& shape);

// A dense row-major tensor, as it lies in a file or a host buffer. Read only; `data` may be
// unaligned.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  int64_t num_elements() const {
    int64_t n = 1;
    for (const int64_t dim : shape) n *= dim;
    return n;
  }
  size_t size_bytes() const { return static_cast<size_t>(num_elements()) * SizeOf(dtype); }
  // Of a tensor of at least one dimension, `count` from the first of the outermost on.
  TensorView Rows(int64_t first, int64_t count) const;
};

// Converts `count` elements starting at element `first` of an F32, BF16 or F16 tensor to float32,
// or to BF16 with round to nearest even. CHECKs the range and the dtype.
void CopyAsFloat(const TensorView& from, int64_t first, int64_t count, float* to);
void CopyAsBF16(const TensorView& from, int64_t first, int64_t count, BF16* to);
// To `dtype`: kF32, kBF16, or kF16 with round to nearest even, where overflow gives infinity.
void CopyElements(const TensorView& from, int64_t first, int64_t count, DType dtype, std::byte* to);

// An element of an I64 or I32 tensor.
int64_t IntegerAt(const TensorView& tensor, int64_t index);

// True if every element of an F32, BF16, F16 or F8_E4M3 tensor is finite.
bool AllFinite(const TensorView& tensor);

// A matrix whose rows may lie apart: element (r, c) is data[r * stride + c]. What kernels take.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  T* row(int64_t r) const { return data + r * stride; }
  MatrixView Rows(int64_t first, int64_t count) const { return {row(first), count, cols, stride}; }
  MatrixView Columns(int64_t first, int64_t count) const {
    return {data + first, rows, count, stride};
  }
  operator MatrixView<const T>() const { return {data, rows, cols, stride}; }
};

}  // namespace aril

#endif  // ARIL_TENSOR_TENSOR_H_
