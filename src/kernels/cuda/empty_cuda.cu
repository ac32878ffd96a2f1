#include "kernels/cuda/empty_cuda.h"

#include "kernels/cuda/device.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

struct EmptyArgs {};

ARIL_KERNEL(kWarpSize)
EmptyKernel(ARIL_PARAMETER EmptyArgs) { FollowPreviousKernel(); }

}  // namespace

int LaunchEmpty(const CudaContext& context) {
  const LaunchShape shape = {context.num_multiprocessors, kWarpSize, 0};
  return LaunchKernel(context, shape, EmptyKernel, EmptyArgs{});
}

CudaCode FindEmpty() {
#ifdef __CUDACC__
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, EmptyKernel);
  return {static_cast<int>(error), attributes.ptxVersion};
#else
  return {};
#endif
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
