// A piece of an adapter's matrix in the pool. Plain, for the kernels of every backend.

#ifndef ARIL_KERNELS_LORA_MATRIX_RUN_H_
#define ARIL_KERNELS_LORA_MATRIX_RUN_H_

#include <stdint.h>

#include <cstddef>

namespace aril::kernels {

// Consecutive rows of a rank-major matrix: row `first_row + i` starts at data + i *
// row_stride_bytes.
struct MatrixRun {
  const std::byte* data = nullptr;
  int32_t first_row = 0;
  int32_t num_rows = 0;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_LORA_MATRIX_RUN_H_
