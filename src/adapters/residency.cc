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

Residency::~Residency() {
  std::unique_lock lock(mutex_);
  all_copied_.wait(lock, [this] { return num_copying_ == 0; });
}

AdapterPin Residency::Pin(const AdapterRef& ref) {
  if (ref.id == kBaseModel) return AdapterPin();
  const auto found = resident_.find(ref.id);
  Entry& entry = found == resident_.end() ? Load(ref) : found->second;
  Withdraw(entry);
  ++entry.pins;
  KeepLoaded();
  return AdapterPin(this, ref.id);
}

void Residency::Prefetch(const AdapterRef& ref) {
  Load(ref);
  KeepLoaded();
}

// What was copied at once.
void Residency::KeepLoaded() {
  for (const Duration took : TakeLoaded()) load_times_.push_back(took);
}

Residency::Entry& Residency::Load(const AdapterRef& ref) {
  const int64_t num_pages = PagesFor(ref);
  CHECK_LE(num_pages, available_pages());
  while (pool_.used(PageUse::kAdapter) + num_pages > max_pages_) Drop(idle_.front());
  std::vector<PageRef> pages;
  CHECK(pool_.Allocate(num_pages, PageUse::kAdapter, pages));
  ResidentAdapter adapter(*ref.adapter, dtype_, arena_, std::move(pages));
  const auto [position, is_new] = resident_.emplace(ref.id, Entry{std::move(adapter)});
  CHECK(is_new);
  Entry& entry = position->second;
  unused_bytes_ += entry.adapter.unused_bytes();
  ++num_loads_;
  ++num_loading_;
  {
    const std::lock_guard lock(mutex_);
    ++num_copying_;
  }
  // Entries stay where they are, and one that is not ready stays altogether.
  run_aside_([this, ref, &entry] {
    const TimePoint start = clock_.Now();
    entry.adapter.Copy(*ref.adapter, arena_);
    // The former says where they are.
    Status status = ref.check_files != nullptr ? (*ref.check_files)() : OkStatus();
    if (status.ok()) status = ref.adapter->CheckIntact();
    OnCopied({ref.id, clock_.Now() - start, std::move(status)});
  });
  return entry;
}

void Residency::OnCopied(Copied copied) {
  const std::lock_guard lock(mutex_);
  copied_.push_back(std::move(copied));
  ++num_copied_;
  if (listener_) listener_();
  if (--num_copying_ == 0) all_copied_.notify_all();
}

std::vector<Duration> Residency::TakeLoaded() {
  std::vector<Copied> copied;
  {
    const std::lock_guard lock(mutex_);
    copied.swap(copied_);
    num_copied_ = 0;
    for (const Copied& one : copied) {
      if (one.status.ok()) in_pool_.insert(one.id);
    }
  }
  std::vector<Duration> times = std::exchange(load_times_, {});
  for (Copied& one : copied) {
    --num_loading_;
    Entry& entry = resident_.at(one.id);
    entry.ready = one.status.ok();
    if (entry.ready) times.push_back(one.took);
    entry.error = std::move(one.status);
    num_errors_ += entry.error.ok() ? 0 : 1;
    OfferIfIdle(one.id, entry);
  }
  return times;
}

void Residency::SetListener(std::function<void()> listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

void Residency::Unpin(AdapterId id) {
  Entry& entry = resident_.at(id);
  CHECK_GT(entry.pins, 0);
  --entry.pins;
  OfferIfIdle(id, entry);
}

void Residency::Touch(AdapterId id) {
  const auto found = resident_.find(id);
  if (found != resident_.end()) OfferIfIdle(id, found->second);
}

void Residency::OfferIfIdle(AdapterId id, Entry& entry) {
  if (entry.pins > 0) return;
  if (!entry.error.ok()) return Drop(id);
  if (!entry.ready) return;
  Withdraw(entry);
  entry.offer = pool_.Offer(entry.adapter.num_pages(), [this, id] { Drop(id); });
  entry.idle = idle_.insert(idle_.end(), id);
  idle_pages_ += entry.adapter.num_pages();
}

void Residency::Withdraw(Entry& entry) {
  if (!entry.idle.has_value()) return;
  entry.offer.Withdraw();
  idle_.erase(*std::exchange(entry.idle, std::nullopt));
  idle_pages_ -= entry.adapter.num_pages();
}

void Residency::Drop(AdapterId id) {
  const auto found = resident_.find(id);
  CHECK(found != resident_.end());
  CHECK_EQ(found->second.pins, 0);
  Withdraw(found->second);
  unused_bytes_ -= found->second.adapter.unused_bytes();
  num_errors_ -= found->second.error.ok() ? 0 : 1;
  resident_.erase(found);
  ++num_drops_;
  const std::lock_guard lock(mutex_);
  in_pool_.erase(id);
}

}  // namespace aril
