// The bytes of a pool's pages: in host memory, or on a device.

#ifndef ARIL_MEMORY_ARENA_H_
#define ARIL_MEMORY_ARENA_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/ids.h"
#include "memory/page_pool.h"
#include "tensor/buffer.h"

namespace aril {

class Arena {
 public:
  // Puts what is to lie in the pool where it is told to.
  using Writer = std::function<void(std::byte*)>;

  virtual ~Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int64_t page_bytes() const { return page_bytes_; }
  // For kernels of the backend: on a device, nothing that the host may touch.
  std::byte* Address(PageId id) const { return base_ + id.value() * page_bytes_; }

  // `write` writes `size_bytes`, at most a page's, which lie at `to`, within a page, when this
  // returns. Any thread; the page must be the caller's.
  virtual void Fill(std::byte* to, int64_t size_bytes, const Writer& write) const = 0;

  // Copies pages, after the steps that a device has been given; done when it returns. There are as
  // many `to` as `from`, none of them used by those steps.
  virtual void CopyPages(std::span<const PageRef> from, std::span<const PageRef> to) const = 0;

  // All ones: NaN as float32 and as BF16, so that use after free shows in the result.
  virtual void Poison(PageId id) const = 0;

 protected:
  Arena(std::byte* base, int64_t page_bytes) : base_(base), page_bytes_(page_bytes) {}

  static constexpr int kPoison = 0xFF;

 private:
  std::byte* base_;
  int64_t page_bytes_;
};

// One mapping of host memory.
class HostArena final : public Arena {
 public:
  HostArena(int32_t num_pages, int64_t page_bytes)
      : HostArena(Buffer(static_cast<size_t>(num_pages * page_bytes)), page_bytes) {}

  void Fill(std::byte* to, int64_t, const Writer& write) const override { write(to); }
  void CopyPages(std::span<const PageRef> from, std::span<const PageRef> to) const override {
    CHECK_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) {
      std::memcpy(Address(to[i].id()), Address(from[i].id()), static_cast<size_t>(page_bytes()));
    }
  }
  void Poison(PageId id) const override {
    std::memset(Address(id), kPoison, static_cast<size_t>(page_bytes()));
  }

 private:
  HostArena(Buffer buffer, int64_t page_bytes)
      : Arena(buffer.data(), page_bytes), buffer_(std::move(buffer)) {}

  Buffer buffer_;
};

}  // namespace aril

#endif  // ARIL_MEMORY_ARENA_H_
