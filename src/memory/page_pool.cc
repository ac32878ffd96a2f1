#include "memory/page_pool.h"

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

PageRef PageRef::Share() const {
  CHECK(pool_ != nullptr);
  pool_->AddOwner(id_);
  return PageRef(pool_, id_);
}

PageOffer& PageOffer::operator=(PageOffer&& other) noexcept {
  if (this != &other) {
    Withdraw();
    pool_ = std::exchange(other.pool_, nullptr);
    position_ = other.position_;
  }
  return *this;
}

void PageOffer::Withdraw() {
  if (pool_ == nullptr) return;
  pool_->offered_ -= position_->num_pages;
  std::exchange(pool_, nullptr)->offers_.erase(position_);
}

PagePool::PagePool(int32_t num_pages, std::function<void(PageId)> on_free)
    : uses_(static_cast<size_t>(num_pages), kFree),
      num_owners_(static_cast<size_t>(num_pages), 0),
      on_free_(std::move(on_free)) {
  // Taken from the back: low ids first, so that a lightly used arena touches little memory.
  for (int32_t id = num_pages - 1; id >= 0; --id) free_.emplace_back(id);
}

PagePool::~PagePool() { CHECK_EQ(free(), total()); }

bool PagePool::Allocate(int64_t count, PageUse use, std::vector<PageRef>& pages) {
  CHECK_GE(count, 0);
  if (count > available()) return false;
  while (free() < count) TakeOldestOffer();
  for (int64_t i = 0; i < count; ++i) {
    const PageId id = free_.back();
    free_.pop_back();
    uses_[static_cast<size_t>(id.value())] = static_cast<uint8_t>(use);
    AddOwner(id);
    pages.push_back(PageRef(this, id));
  }
  used_[static_cast<size_t>(use)] += count;
  return true;
}

PageOffer PagePool::Offer(int64_t num_pages, std::function<void()> give_back) {
  offered_ += num_pages;
  return PageOffer(this, offers_.insert(offers_.end(), {num_pages, std::move(give_back)}));
}

void PagePool::TakeOldestOffer() {
  const int64_t available_before = available();
  const int64_t free_after = free() + offers_.front().num_pages;
  // Moved, because the offer goes while this runs.
  const std::function<void()> give_back = std::move(offers_.front().give_back);
  give_back();
  CHECK_EQ(free(), free_after);
  CHECK_EQ(available(), available_before);
}

void PagePool::Release(PageId id) {
  uint8_t& use = uses_[static_cast<size_t>(id.value())];
  CHECK_NE(int{use}, int{kFree});
  if (--num_owners_[static_cast<size_t>(id.value())] > 0) return;
  --used_[use];
  use = kFree;
  free_.push_back(id);
  if (on_free_) on_free_(id);
}

void PagePool::CheckConservation() const {
  std::array<int64_t, kNumPageUses> used = {};
  int64_t num_free = 0;
  for (size_t i = 0; i < uses_.size(); ++i) {
    const uint8_t use = uses_[i];
    CHECK_EQ(use == kFree, num_owners_[i] == 0);
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
  std::vector<bool> seen(uses_.size());
  for (const PageId page : free_) {
    const auto i = static_cast<size_t>(page.value());
    CHECK_EQ(int{uses_[i]}, int{kFree});
    CHECK(!seen[i]);
    seen[i] = true;
  }
}

}  // namespace aril
