// What stands for the GPU in a program that was built without CUDA.

#include "kernels/cuda/cuda_device.h"
#include "kernels/gemm/gemm_cuda.h"

namespace aril::kernels {
namespace {

Status BuiltWithout() {
  return Unavailable(
      "no CUDA device: this program was built without CUDA (nvcc was not found; -DARIL_CUDA=ON)");
}

}  // namespace

StatusOr<std::unique_ptr<CudaDevice>> OpenCudaDevice() { return BuiltWithout(); }

StatusOr<std::unique_ptr<CudaGemm>> OpenCudaGemm(CudaDevice&, GemmChoice, const std::string&) {
  return BuiltWithout();
}

}  // namespace aril::kernels
