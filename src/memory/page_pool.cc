#include "memory/page_pool.h"

#include <algorithm>

#include "base/check.h"

namespace aril {

PageRef& PageRef::operator=(PageRef&& other) noexcept {
  if (this != &other) {
    Reset();
    pool_ = std::exchange(other.pool_, nullptr);
    id_ = other.id_;
  }
  return *this;
}

void PageRef::Reset() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->Release(id_);
}

PagePool::PagePool(int32_t num_pages, std::function<void(PageId)> on_free)
    : uses_(static_cast<size_t>(num_pages), kFree), on_free_(std::move(on_free)) {
  // Taken from the back: low ids first, so that a lightly used arena touches little memory.
  for (int32_t id = num_pages - 1; id >= 0; --id) free_.emplace_back(id);
}

PagePool::~PagePool() { CHECK_EQ(free(), total()); }

bool PagePool::Allocate(int64_t count, PageUse use, std::vector<PageRef>& pages) {
  CHECK_GE(count, 0);
  if (count > free()) return false;
  for (int64_t i = 0; i < count; ++i) {
    const PageId id = free_.back();
    free_.pop_back();
    uses_[static_cast<size_t>(id.value())] = static_cast<uint8_t>(use);
    pages.push_back(PageRef(this, id));
  }
  used_[static_cast<size_t>(use)] += count;
  return true;
}

void PagePool::Release(PageId id) {
  uint8_t& use = uses_[static_cast<size_t>(id.value())];
  CHECK_NE(int{use}, int{kFree});
  --used_[use];
  use = kFree;
  free_.push_back(id);
  if (on_free_) on_free_(id);
}

void PagePool::CheckConservation() const {
  std::array<int64_t, kNumPageUses> used = {};
  int64_t num_free = 0;
  for (const uint8_t use : uses_) {
    if (use == kFree) {
      ++num_free;
    } else {
      ++used[use];
    }
  }
  CHECK_EQ(num_free, free());
  for (int use = 0; use < kNumPageUses; ++use) {
    CHECK_EQ(used[static_cast<size_t>(use)], used_[static_cast<size_t>(use)]);
  }
  std::vector<PageId> ids = free_;
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

}  // namespace aril
