// Rows of matrices that lie in the pool, and eight neighbours of one. Only .cu files include this.

#ifndef ARIL_KERNELS_LORA_MATRIX_ROWS_CUDA_H_
#define ARIL_KERNELS_LORA_MATRIX_ROWS_CUDA_H_

#include "kernels/cuda/device.h"
#include "kernels/lora/lora_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

// Null for a row that the matrix does not have.
template <typename Element>
ARIL_DEVICE const Element* RowOf(const LoraDeviceMatrix& matrix, int num_rows, int row) {
  if (row >= num_rows) return nullptr;
  const std::byte* data = matrix.first_data;
  int first_row = 0;
  if (row >= matrix.first_num_rows) {
    const MatrixRun* run = matrix.runs + 1;
    while (row >= run->first_row + run->num_rows) ++run;
    data = run->data;
    first_row = run->first_row;
  }
  return reinterpret_cast<const Element*>(data + (row - first_row) * matrix.row_stride_bytes);
}

// The same of a matrix with a row for each token, which has many runs.
template <typename Element>
ARIL_DEVICE const Element* RowOfToken(const LoraDeviceMatrix& matrix, int token) {
  int low = 0, high = matrix.num_runs - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (matrix.runs[middle].first_row <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const MatrixRun run = matrix.runs[low];
  return reinterpret_cast<const Element*>(run.data +
                                          (token - run.first_row) * matrix.row_stride_bytes);
}

// row[first … first + 8) with zeros from `end` on; for rows that are not aligned, and last columns.
// Little code, not little time: many places have it, few need it.
ARIL_DEVICE Vector16 LoadEight(const uint16_t* row, int first, int end) {
  uint64_t low = 0, high = 0;
  if (row == nullptr) return {};
#pragma unroll 1
  for (int i = 0; i < 4; ++i) {
    if (first + i < end) low |= static_cast<uint64_t>(row[first + i]) << 16 * i;
    if (first + 4 + i < end) high |= static_cast<uint64_t>(row[first + 4 + i]) << 16 * i;
  }
  return {{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
           static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)}};
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_LORA_MATRIX_ROWS_CUDA_H_
