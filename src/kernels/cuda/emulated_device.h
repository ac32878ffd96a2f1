// The emulator behind CudaDevice, for tests: memory of the host, of exactly the size that was asked
// for, so that ASan sees what a kernel does outside of it.

#ifndef ARIL_KERNELS_CUDA_EMULATED_DEVICE_H_
#define ARIL_KERNELS_CUDA_EMULATED_DEVICE_H_

#include <memory>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/emulator.h"

namespace aril::kernels {

// Has `num_multiprocessors`, so that grids are small and blocks take several items.
std::unique_ptr<CudaDevice> MakeEmulatedDevice(emulator::Order order, int num_multiprocessors);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CUDA_EMULATED_DEVICE_H_
