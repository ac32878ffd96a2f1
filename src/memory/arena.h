// The bytes of a pool's pages: one mapping of host memory.

#ifndef ARIL_MEMORY_ARENA_H_
#define ARIL_MEMORY_ARENA_H_

#include <cstdint>
#include <cstring>

#include "base/ids.h"
#include "tensor/buffer.h"

namespace aril {

class Arena {
 public:
  Arena(int32_t num_pages, int64_t page_bytes)
      : page_bytes_(page_bytes), buffer_(static_cast<size_t>(num_pages * page_bytes)) {}

  int64_t page_bytes() const { return page_bytes_; }
  std::byte* Address(PageId id) const { return buffer_.data() + id.value() * page_bytes_; }

  // All ones: NaN as float32 and as BF16, so that use after free shows in the result.
  void Poison(PageId id) const { std::memset(Address(id), 0xFF, static_cast<size_t>(page_bytes_)); }

 private:
  int64_t page_bytes_;
  Buffer buffer_;
};

}  // namespace aril

#endif  // ARIL_MEMORY_ARENA_H_
