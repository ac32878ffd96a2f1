// The largest logit of each row, on a device: sampling at temperature 0 (sampling.h).

#ifndef ARIL_KERNELS_SAMPLING_GREEDY_CUDA_H_
#define ARIL_KERNELS_SAMPLING_GREEDY_CUDA_H_

#include <stdint.h>

#include "kernels/cuda/context.h"

namespace aril::kernels {

struct GreedyArgs {
  const float* logits = nullptr;  // [rows, vocab]
  int64_t stride = 0;             // elements
  int32_t rows = 0;
  int32_t vocab = 0;
  // [rows]: the lowest id among the largest logits; -1 where Sample gives an error: a NaN or +inf
  // among them, or all of them -inf.
  int32_t* tokens = nullptr;
};

}  // namespace aril::kernels

// Returns a CUDA error, or 0.
#define ARIL_DECLARE_GREEDY_CUDA(target)             \
  namespace aril::kernels::target {                  \
  int Greedy(const CudaContext&, const GreedyArgs&); \
  }

ARIL_DECLARE_GREEDY_CUDA(cuda)
ARIL_DECLARE_GREEDY_CUDA(emulated)

#endif  // ARIL_KERNELS_SAMPLING_GREEDY_CUDA_H_
