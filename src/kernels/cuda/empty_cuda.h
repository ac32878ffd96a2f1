// A kernel that does nothing: what a launch costs by itself, and whether this program has code for
// the device at all.

#ifndef ARIL_KERNELS_CUDA_EMPTY_CUDA_H_
#define ARIL_KERNELS_CUDA_EMPTY_CUDA_H_

#include "kernels/cuda/context.h"

namespace aril::kernels {

// What a launch would run: the error that it would give for want of code for the device, or the
// architecture that the code was compiled for, 90 for compute_90. A newer device runs older code,
// too, where the program has PTX.
struct CudaCode {
  int error = 0;
  int architecture = 0;
};

}  // namespace aril::kernels

// LaunchEmpty returns a CUDA error, or 0. FindEmpty runs no kernel.
#define ARIL_DECLARE_EMPTY_CUDA(target) \
  namespace aril::kernels::target {     \
  int LaunchEmpty(const CudaContext&);  \
  CudaCode FindEmpty();                 \
  }

ARIL_DECLARE_EMPTY_CUDA(cuda)
ARIL_DECLARE_EMPTY_CUDA(emulated)

#endif  // ARIL_KERNELS_CUDA_EMPTY_CUDA_H_
