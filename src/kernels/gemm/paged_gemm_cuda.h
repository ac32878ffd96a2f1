// Matrix products with a matrix in the pages of the pool, on a device: what an adapter has in place
// of lm_head. paged_gemm_plan.h makes the tables.
//
// Arithmetic: the LoRA operator's shrink, whole (lora_cuda.h). So a row of the result is a function
// of its row of x and of the matrix only.

#ifndef ARIL_KERNELS_GEMM_PAGED_GEMM_CUDA_H_
#define ARIL_KERNELS_GEMM_PAGED_GEMM_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/cuda/context.h"
#include "kernels/lora/lora_cuda.h"
#include "tensor/dtype.h"

namespace aril::kernels {

inline constexpr int kPagedGemmRows = kLoraShrinkRows;

// Work of one block: some rows of x, and rows of the matrix that lie one behind the other.
struct PagedGemmItem {
  const std::byte* w = nullptr;  // the first of them
  int64_t w_stride_bytes = 0;
  int32_t w_aligned16 = 0;  // whether each begins at a multiple of 16 bytes
  int32_t first_row = 0;
  int32_t num_rows = 0;   // of x and y: at most kPagedGemmRows
  int32_t first_col = 0;  // of y: rows of the matrix
  int32_t num_cols = 0;
};

// What a step uploads: this, then the items.
struct alignas(16) PagedGemmTables {
  int32_t num_items = 0;
};

// y [rows, n] fp32 = x [rows, k] · Wᵀ for the rows of the items. Strides in elements.
struct PagedGemmArgs {
  const PagedGemmTables* tables = nullptr;
  const std::byte* x = nullptr;  // in the dtype
  int64_t x_stride = 0;
  int32_t rows = 0;
  int32_t n = 0;
  int32_t k = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
};

}  // namespace aril::kernels

// May be captured in a graph: it reads the tables when it runs, and traps at items beyond x and y.
// Returns a CUDA error, or 0. The dtype, kF32, kBF16 or kF16, is that of x and W.
#define ARIL_DECLARE_PAGED_GEMM_CUDA(target)                            \
  namespace aril::kernels::target {                                     \
  int PagedGemm(const CudaContext&, DType dtype, const PagedGemmArgs&); \
  }

ARIL_DECLARE_PAGED_GEMM_CUDA(cuda)
ARIL_DECLARE_PAGED_GEMM_CUDA(emulated)

#endif  // ARIL_KERNELS_GEMM_PAGED_GEMM_CUDA_H_
