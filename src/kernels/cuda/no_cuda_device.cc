// What stands for the GPU in a program that was built without CUDA.

#include "kernels/cuda/cuda_device.h"

namespace aril::kernels {

StatusOr<std::unique_ptr<CudaDevice>> OpenCudaDevice() {
  return Unavailable(
      "no CUDA device: this program was built without CUDA (nvcc was not found; -DARIL_CUDA=ON)");
}

}  // namespace aril::kernels
