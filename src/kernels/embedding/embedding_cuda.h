// Embeddings on a device: rows of the base model's table, or of an adapter's own; and the shrink of
// adapters that add to them.

#ifndef ARIL_KERNELS_EMBEDDING_EMBEDDING_CUDA_H_
#define ARIL_KERNELS_EMBEDDING_EMBEDDING_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/cuda/context.h"
#include "kernels/lora/lora_cuda.h"
#include "tensor/dtype.h"

namespace aril::kernels {

// out [rows, size] fp32 = scale · table [vocab, size] at tokens [rows]; exactly, by 1; zero for
// tokens behind the table. Those of a row's own matrix lie inside it: whoever uploads them has
// looked.
struct EmbedArgs {
  const int32_t* tokens = nullptr;
  const std::byte* table = nullptr;  // one row behind the other, in the dtype
  // [rows]: the matrix [vocab, size] that a row has in place of the table, or null; or null for
  // all.
  const LoraDeviceMatrix* const* own = nullptr;
  int32_t rows = 0;
  int32_t vocab = 0;
  int32_t size = 0;
  float scale = 1;
  float* out = nullptr;
  int64_t out_stride = 0;  // elements
};

// V of the shrink items of `tables`, for an expand to add to the embeddings: a token's x is
// one-hot, so that its product with A [rank, vocab] is the token's row of Aᵀ, which the weights'
// `a` is. The tables are those of a LoraPlan with `in` 1.
struct EmbedShrinkArgs {
  const LoraTables* tables = nullptr;
  const int32_t* tokens = nullptr;  // [rows], as above
  float scale = 1;                  // of V, so that what is added to is scaled, too
  float* v = nullptr;
};

}  // namespace aril::kernels

// Both may be captured in a graph: they read tokens and tables when they run. They return a CUDA
// error, or 0. The dtype, kF32, kBF16 or kF16, is that of the tables and of the adapters.
#define ARIL_DECLARE_EMBEDDING_CUDA(target)                                 \
  namespace aril::kernels::target {                                         \
  int Embed(const CudaContext&, DType dtype, const EmbedArgs&);             \
  int EmbedShrink(const CudaContext&, DType dtype, const EmbedShrinkArgs&); \
  }

ARIL_DECLARE_EMBEDDING_CUDA(cuda)
ARIL_DECLARE_EMBEDDING_CUDA(emulated)

#endif  // ARIL_KERNELS_EMBEDDING_EMBEDDING_CUDA_H_
