// Matrix products for the emulator, where there is no cuBLASLt: for tests.

#ifndef ARIL_KERNELS_GEMM_GEMM_EMULATED_H_
#define ARIL_KERNELS_GEMM_GEMM_EMULATED_H_

#include <memory>

#include "kernels/cuda/cuda_device.h"
#include "kernels/gemm/gemm_cuda.h"

namespace aril::kernels {

// Adds along k in order, in fp32, whatever the rows. `device` is an emulator, and must outlive it.
std::unique_ptr<CudaGemm> MakeEmulatedGemm(CudaDevice& device);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_EMULATED_H_
