#include "tensor/buffer.h"

#include <sys/mman.h>

#include <utility>

#include "base/check.h"

namespace aril {

Buffer::Buffer(size_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes == 0) return;
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(data != MAP_FAILED);
  if (size_bytes >= size_t{2} << 20) madvise(data, size_bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(data);
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
