// The bookkeeping of a memory pool: which page is free, and what the others are used for. Ids only;
// the bytes are in an Arena.
//
// One pool serves KV cache and adapter weights alike, with no static split between them (S-LoRA,
// section 5.1: unified paging). Conservation, free + used == total, holds after every call; debug
// builds check it.

#ifndef ARIL_MEMORY_PAGE_POOL_H_
#define ARIL_MEMORY_PAGE_POOL_H_

#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace aril {

enum class PageUse : uint8_t { kKv, kAdapter };
inline constexpr int kNumPageUses = 2;

class PagePool;

// Owns one page and gives it back when destroyed. Move-only.
class PageRef {
 public:
  PageRef() = default;
  PageRef(PageRef&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}
  PageRef& operator=(PageRef&& other) noexcept;
  ~PageRef() { Reset(); }

  PageId id() const { return id_; }

 private:
  friend class PagePool;
  PageRef(PagePool* pool, PageId id) : pool_(pool), id_(id) {}
  void Reset();

  PagePool* pool_ = nullptr;
  PageId id_;
};

// Not thread-safe: belongs to the engine's thread. Must outlive its PageRefs.
class PagePool {
 public:
  // `on_free` is called with every page that returns (the arena poisons it in debug builds).
  explicit PagePool(int32_t num_pages, std::function<void(PageId)> on_free = nullptr);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();

  int64_t total() const { return static_cast<int64_t>(uses_.size()); }
  int64_t free() const { return static_cast<int64_t>(free_.size()); }
  int64_t used(PageUse use) const { return used_[static_cast<size_t>(use)]; }

  // Appends `count` pages to `pages`; or, if fewer are free, takes none and returns false.
  [[nodiscard]] bool Allocate(int64_t count, PageUse use, std::vector<PageRef>& pages);

  // CHECKs that every page is either free or in exactly one use, by counting. Linear in the number
  // of pages.
  void CheckConservation() const;

 private:
  friend class PageRef;
  void Release(PageId id);

  static constexpr uint8_t kFree = 255;

  std::vector<PageId> free_;
  std::vector<uint8_t> uses_;  // per page: its PageUse, or kFree
  std::array<int64_t, kNumPageUses> used_ = {};
  std::function<void(PageId)> on_free_;
};

}  // namespace aril

#endif  // ARIL_MEMORY_PAGE_POOL_H_
