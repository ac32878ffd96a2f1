// The bookkeeping of a memory pool: which page is free, and what the others are used for. Ids only;
// the bytes are in an Arena.
//
// One pool serves KV cache and adapter weights alike, with no static split between them (S-LoRA,
// section 5.1: unified paging). Conservation, free + used == total, holds after every call; debug
// builds check it.
//
// What nobody uses at the moment stays in the pool, offered: idle adapters and cached prefixes, in
// one order. When pages run short, the oldest offers are taken first, and no more than are needed.

#ifndef ARIL_MEMORY_PAGE_POOL_H_
#define ARIL_MEMORY_PAGE_POOL_H_

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace aril {

enum class PageUse : uint8_t { kKv, kAdapter };
inline constexpr int kNumPageUses = 2;

class PagePool;

// Owns one page, alone or with others; the last one gives it back when destroyed. Move-only.
class PageRef {
 public:
  PageRef() = default;
  PageRef(PageRef&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}
  PageRef& operator=(PageRef&& other) noexcept;
  ~PageRef() { Reset(); }

  PageId id() const { return id_; }

  // Another owner of the same page. Must not be called on a ref that owns none.
  PageRef Share() const;

 private:
  friend class PagePool;
  PageRef(PagePool* pool, PageId id) : pool_(pool), id_(id) {}
  void Reset();

  PagePool* pool_ = nullptr;
  PageId id_;
};

// Pages that somebody holds without using them, until they are wanted.
struct OfferedPages {
  int64_t num_pages;
  std::function<void()> give_back;
};

// Keeps an offer open while it exists. Move-only.
class PageOffer {
 public:
  PageOffer() = default;
  PageOffer(PageOffer&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), position_(other.position_) {}
  PageOffer& operator=(PageOffer&& other) noexcept;
  ~PageOffer() { Withdraw(); }
  void Withdraw();

 private:
  friend class PagePool;
  PageOffer(PagePool* pool, std::list<OfferedPages>::iterator position)
      : pool_(pool), position_(position) {}

  PagePool* pool_ = nullptr;
  std::list<OfferedPages>::iterator position_;
};

// Not thread-safe: belongs to the engine's thread. Must outlive its PageRefs and PageOffers.
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
  // What could be allocated: free pages and offered ones.
  int64_t available() const { return free() + offered_; }

  // Appends `count` pages to `pages`, taking offers if fewer are free; or, if fewer are available,
  // takes none and returns false.
  [[nodiscard]] bool Allocate(int64_t count, PageUse use, std::vector<PageRef>& pages);

  // Offers pages that are in use; the last offer made is taken last. `give_back` must free exactly
  // `num_pages` and withdraw the offer, and must not allocate.
  PageOffer Offer(int64_t num_pages, std::function<void()> give_back);

  // CHECKs that every page is either free or in exactly one use, by counting. Linear in the number
  // of pages.
  void CheckConservation() const;

 private:
  friend class PageRef;
  friend class PageOffer;
  void AddOwner(PageId id) { ++num_owners_[static_cast<size_t>(id.value())]; }
  // By one of its owners.
  void Release(PageId id);
  void TakeOldestOffer();

  static constexpr uint8_t kFree = 255;

  std::vector<PageId> free_;
  std::vector<uint8_t> uses_;  // per page: its PageUse, or kFree
  std::vector<int32_t> num_owners_;
  std::array<int64_t, kNumPageUses> used_ = {};
  std::list<OfferedPages> offers_;  // oldest first
  int64_t offered_ = 0;             // pages of all offers
  std::function<void(PageId)> on_free_;
};

}  // namespace aril

#endif  // ARIL_MEMORY_PAGE_POOL_H_
