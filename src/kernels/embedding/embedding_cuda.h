// Gathers rows of an embedding table on a device.

#ifndef ARIL_KERNELS_EMBEDDING_EMBEDDING_CUDA_H_
#define ARIL_KERNELS_EMBEDDING_EMBEDDING_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/cuda/context.h"
#include "tensor/dtype.h"

namespace aril::kernels {

// out [rows, size] fp32 = table [vocab, size] at tokens [rows], exactly. Tokens lie inside the
// vocabulary: whoever uploads them has looked.
struct EmbedArgs {
  const int32_t* tokens = nullptr;
  const std::byte* table = nullptr;  // one row behind the other, in the dtype
  int32_t rows = 0;
  int32_t size = 0;
  float* out = nullptr;
  int64_t out_stride = 0;  // elements
};

}  // namespace aril::kernels

// Returns a CUDA error, or 0. The dtype, kF32, kBF16 or kF16, is the table's.
#define ARIL_DECLARE_EMBEDDING_CUDA(target)                     \
  namespace aril::kernels::target {                             \
  int Embed(const CudaContext&, DType dtype, const EmbedArgs&); \
  }

ARIL_DECLARE_EMBEDDING_CUDA(cuda)
ARIL_DECLARE_EMBEDDING_CUDA(emulated)

#endif  // ARIL_KERNELS_EMBEDDING_EMBEDDING_CUDA_H_
