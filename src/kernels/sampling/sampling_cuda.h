// Choosing tokens on a device: steps 5 to 9 of sampling.h.
//
// A token's weight takes the CPU's operations (weights.h; a change there is one here); sums are of
// integers, in units of 2^-44, so that they do not depend on the order of additions. So the choice
// is the CPU's, unless u or top_p falls within 2^-44 times the vocabulary of where one token ends
// and the next begins.

#ifndef ARIL_KERNELS_SAMPLING_SAMPLING_CUDA_H_
#define ARIL_KERNELS_SAMPLING_SAMPLING_CUDA_H_

#include <stdint.h>

#include "kernels/cuda/context.h"

namespace aril::kernels {

// How the token of one row is chosen: wire/sampling.h has the parameters.
struct SampleRow {
  int32_t vocab = 0;  // tokens that may be chosen: the row's first logits; at most kMaxDeviceVocab
  float temperature = 0;
  int32_t top_k = 0;  // 0: of all
  float top_p = 1;
  float min_p = 0;
  double u = 0;  // of step 9
};

// In place of a token where none can be chosen: a NaN or +inf is among the logits, or all are -inf.
inline constexpr int32_t kTokenOfNaN = -1;
inline constexpr int32_t kTokenOfNone = -2;

// Sums of weights of more tokens might overflow.
inline constexpr int32_t kMaxDeviceVocab = 1 << 19;

struct SampleArgs {
  const float* logits = nullptr;  // [rows, the vocabulary of each]
  int64_t stride = 0;             // elements
  int32_t rows = 0;
  const SampleRow* how = nullptr;  // [rows]
  int32_t* tokens = nullptr;       // [rows]
};

// Tokens that a step chose, as what another one begins with: where tokens[i] is negative, it
// becomes chosen[-1 - tokens[i]]; 0 where nothing could be chosen.
struct TakeChosenArgs {
  int32_t* tokens = nullptr;  // [rows]
  int32_t rows = 0;
  const int32_t* chosen = nullptr;
};

}  // namespace aril::kernels

// Each returns a CUDA error, or 0.
#define ARIL_DECLARE_SAMPLING_CUDA(target)                   \
  namespace aril::kernels::target {                          \
  int Sample(const CudaContext&, const SampleArgs&);         \
  int TakeChosen(const CudaContext&, const TakeChosenArgs&); \
  }

ARIL_DECLARE_SAMPLING_CUDA(cuda)
ARIL_DECLARE_SAMPLING_CUDA(emulated)

#endif  // ARIL_KERNELS_SAMPLING_SAMPLING_CUDA_H_
