// The pool on a GPU.

#ifndef ARIL_MODEL_CUDA_ARENA_H_
#define ARIL_MODEL_CUDA_ARENA_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "memory/arena.h"

namespace aril {

// Fill writes to host memory of one page, and copies that beside the steps. A device that fails
// there ends the process, as it does in a step (engine/executor.h).
class CudaArena final : public Arena {
 public:
  // ResourceExhausted if the device has not so much memory. It must outlive the arena.
  static StatusOr<std::unique_ptr<CudaArena>> Create(kernels::CudaDevice& device, int32_t num_pages,
                                                     int64_t page_bytes);

  void Fill(std::byte* to, int64_t size_bytes, const Writer& write) const override;
  // These two wait for the steps under way.
  void CopyPages(std::span<const PageRef> from, std::span<const PageRef> to) const override;
  void Poison(PageId id) const override;

 private:
  CudaArena(kernels::CudaDevice& device, kernels::DeviceBuffer pages, kernels::PinnedBuffer staging,
            int64_t page_bytes);

  kernels::CudaDevice& device_;
  kernels::DeviceBuffer pages_;
  mutable std::mutex mutex_;
  kernels::PinnedBuffer staging_;  // [page_bytes]
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_ARENA_H_
