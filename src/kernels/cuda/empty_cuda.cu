#include "kernels/cuda/empty_cuda.h"

#include "kernels/cuda/device.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

struct EmptyArgs {};

ARIL_KERNEL(kWarpSize)
EmptyKernel(ARIL_PARAMETER EmptyArgs) {
  WaitForPreviousKernel();
  LetNextKernelStart();
}

}  // namespace

int LaunchEmpty(const CudaContext& context) {
  const LaunchShape shape = {context.num_multiprocessors, kWarpSize, 0};
  return LaunchKernel(context, shape, EmptyKernel, EmptyArgs{});
}

int FindEmpty() {
#ifdef __CUDACC__
  cudaFuncAttributes attributes;
  return static_cast<int>(cudaFuncGetAttributes(&attributes, EmptyKernel));
#else
  return 0;
#endif
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
