// Sums over threads whose order is fixed: trees over lanes, then warps one after the other. Only
// .cu files include this.

#ifndef ARIL_KERNELS_CUDA_REDUCE_H_
#define ARIL_KERNELS_CUDA_REDUCE_H_

#include "kernels/cuda/device.h"

namespace aril::kernels::ARIL_CUDA_TARGET {

// The sum of all lanes' values, in all lanes. All lanes of the warp take part.
ARIL_DEVICE float WarpSum(float value) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) value += ShuffleXor(value, mask);
  return value;
}

ARIL_DEVICE float WarpMax(float value) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    const float other = ShuffleXor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

// The sum of the values of `kWarps` warps' threads, in all of them. `scratch` [kWarps] in shared
// memory may be used again after the next barrier. All threads of the block take part.
template <int kWarps>
ARIL_DEVICE float BlockSum(float value, float* scratch) {
  value = WarpSum(value);
  if (ThreadIdx() % kWarpSize == 0) scratch[ThreadIdx() / kWarpSize] = value;
  SyncThreads();
  float sum = scratch[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += scratch[w];
  return sum;
}

// The sum of the values of this thread and of those before it, of a block of kThreads. `scratch`
// [kThreads] in shared memory has these sums of all threads then, the last one being that of all
// values, and may be used again after the next barrier. All threads take part.
template <int kThreads>
ARIL_DEVICE int BlockPrefix(int value, int* scratch) {
  const int thread = ThreadIdx();
  scratch[thread] = value;
  SyncThreads();
#pragma unroll
  for (int step = 1; step < kThreads; step *= 2) {
    if (thread >= step) value += scratch[thread - step];
    SyncThreads();
    scratch[thread] = value;
    SyncThreads();
  }
  return value;
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET

#endif  // ARIL_KERNELS_CUDA_REDUCE_H_
