#include "model/cuda_arena.h"

#include <utility>

#include "base/check.h"
#include "model/backend.h"

namespace aril {
namespace {

void ExitUnlessOk(const Status& status) {
  if (!status.ok()) ExitOnDeviceError(status);
}

}  // namespace

StatusOr<std::unique_ptr<CudaArena>> CudaArena::Create(kernels::CudaDevice& device,
                                                       int32_t num_pages, int64_t page_bytes) {
  ASSIGN_OR_RETURN(kernels::DeviceBuffer pages,
                   kernels::DeviceBuffer::Allocate(
                       device, static_cast<size_t>(num_pages) * static_cast<size_t>(page_bytes)));
  ASSIGN_OR_RETURN(kernels::PinnedBuffer staging,
                   kernels::PinnedBuffer::Allocate(device, static_cast<size_t>(page_bytes)));
  return std::unique_ptr<CudaArena>(
      new CudaArena(device, std::move(pages), std::move(staging), page_bytes));
}

CudaArena::CudaArena(kernels::CudaDevice& device, kernels::DeviceBuffer pages,
                     kernels::PinnedBuffer staging, int64_t page_bytes)
    : Arena(pages.data(), page_bytes),
      device_(device),
      pages_(std::move(pages)),
      staging_(std::move(staging)) {}

void CudaArena::Fill(std::byte* to, int64_t size_bytes, const Writer& write) const {
  CHECK_LE(size_bytes, page_bytes());
  const std::lock_guard lock(mutex_);
  write(staging_.data());
  ExitUnlessOk(device_.CopyAside(to, staging_.data(), static_cast<size_t>(size_bytes)));
}

void CudaArena::CopyPages(std::span<const PageRef> from, std::span<const PageRef> to) const {
  CHECK_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) {
    ExitUnlessOk(device_.CopyWithin(Address(to[i].id()), Address(from[i].id()),
                                    static_cast<size_t>(page_bytes())));
  }
  ExitUnlessOk(device_.Synchronize());
}

void CudaArena::Poison(PageId id) const {
  ExitUnlessOk(device_.Set(Address(id), kPoison, static_cast<size_t>(page_bytes())));
  ExitUnlessOk(device_.Synchronize());
}

}  // namespace aril
