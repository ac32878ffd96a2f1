#include "adapters/residency.h"

#include <utility>

#include "base/check.h"

namespace aril {

AdapterPin::AdapterPin(AdapterPin&& other) noexcept
    : residency_(std::exchange(other.residency_, nullptr)), id_(other.id_) {}

AdapterPin& AdapterPin::operator=(AdapterPin&& other) noexcept {
  if (this != &other) {
    Reset();
    residency_ = std::exchange(other.residency_, nullptr);
    id_ = other.id_;
  }
  return *this;
}

void AdapterPin::Reset() {
  if (residency_ != nullptr) std::exchange(residency_, nullptr)->Unpin(id_);
}

const ResidentAdapter* AdapterPin::adapter() const {
  return residency_ == nullptr ? nullptr : &residency_->resident_.at(id_).adapter;
}

int64_t Residency::PagesFor(const AdapterRef& ref) const {
  return ref.adapter == nullptr ? 0 : PagesForAdapter(*ref.adapter, dtype_, arena_.page_bytes());
}

AdapterPin Residency::Pin(const AdapterRef& ref) {
  const AdapterId id = ref.id;
  if (id == kBaseModel) return AdapterPin();
  auto found = resident_.find(id);
  if (found == resident_.end()) {
    std::vector<PageRef> pages;
    CHECK(pool_.Allocate(PagesFor(ref), PageUse::kAdapter, pages));
    ResidentAdapter adapter(*ref.adapter, dtype_, arena_, std::move(pages), threads_);
    found = resident_.emplace(id, Entry{std::move(adapter), 0, {}}).first;
    ++num_loads_;
  }
  found->second.offer.Withdraw();
  ++found->second.pins;
  return AdapterPin(this, id);
}

void Residency::Unpin(AdapterId id) {
  Entry& entry = resident_.at(id);
  CHECK_GT(entry.pins, 0);
  if (--entry.pins > 0) return;
  entry.offer = pool_.Offer(entry.adapter.num_pages(), [this, id] { Drop(id); });
}

void Residency::Drop(AdapterId id) {
  const auto found = resident_.find(id);
  CHECK(found != resident_.end());
  CHECK_EQ(found->second.pins, 0);
  resident_.erase(found);
  ++num_drops_;
}

}  // namespace aril
