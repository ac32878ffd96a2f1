#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace aril {

namespace {

constexpr size_t kPageBytes = 4096;

std::byte* Map(size_t size_bytes) {
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(data != MAP_FAILED);
  return static_cast<std::byte*>(data);
}

void Unmap(std::byte* data, size_t size_bytes) {
  if (size_bytes > 0) munmap(data, size_bytes);
}

// Memory that begins with a huge page: it is cut out of a larger mapping.
std::byte* MapHuge(size_t size_bytes) {
  const size_t pages = RoundUp(size_bytes, kPageBytes);
  std::byte* const mapped = Map(pages + kHugePageBytes);
  const size_t before = RoundUp(reinterpret_cast<uintptr_t>(mapped), kHugePageBytes) -
                        reinterpret_cast<uintptr_t>(mapped);
  Unmap(mapped, before);
  std::byte* const data = mapped + before;
  Unmap(data + pages, kHugePageBytes - before);
  madvise(data, pages, MADV_HUGEPAGE);
  return data;
}

}  // namespace

Buffer::Buffer(size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  data_ = size_bytes >= kHugePageBytes ? MapHuge(size_bytes) : Map(size_bytes);
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, size_bytes_);
}

}  // namespace aril
