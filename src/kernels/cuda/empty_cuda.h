// A kernel that does nothing: what a launch costs by itself, and whether this program has code for
// the device at all.

#ifndef ARIL_KERNELS_CUDA_EMPTY_CUDA_H_
#define ARIL_KERNELS_CUDA_EMPTY_CUDA_H_

#include "kernels/cuda/context.h"

// LaunchEmpty returns a CUDA error, or 0. FindEmpty loads no kernel and runs none: it returns the
// error that a launch would give for want of code for the device.
#define ARIL_DECLARE_EMPTY_CUDA(target) \
  namespace aril::kernels::target {     \
  int LaunchEmpty(const CudaContext&);  \
  int FindEmpty();                      \
  }

ARIL_DECLARE_EMPTY_CUDA(cuda)
ARIL_DECLARE_EMPTY_CUDA(emulated)

#endif  // ARIL_KERNELS_CUDA_EMPTY_CUDA_H_
