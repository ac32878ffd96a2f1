// The emulator behind CudaDevice, for tests: memory of the host, of exactly the size that was asked
// for, so that ASan sees what a kernel does outside of it, and no more in all than a device would
// have. A graph takes some for each of its launches, as on a GPU.
//
// What the stream is given runs as late as it may: when somebody waits for it. So a host that
// writes too early to what a copy still has to read, or reads what nobody has waited for, gets a
// wrong result every time.

#ifndef ARIL_KERNELS_CUDA_EMULATED_DEVICE_H_
#define ARIL_KERNELS_CUDA_EMULATED_DEVICE_H_

#include <cstdint>
#include <memory>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/emulator.h"

namespace aril::kernels {

inline constexpr int64_t kEmulatedMemoryBytes = int64_t{1} << 30;

// Has `num_multiprocessors`, so that grids are small and blocks take several items.
std::unique_ptr<CudaDevice> MakeEmulatedDevice(emulator::Order order, int num_multiprocessors,
                                               int64_t memory_bytes = kEmulatedMemoryBytes);

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CUDA_EMULATED_DEVICE_H_
