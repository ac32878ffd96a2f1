#include "engine/standing_pins.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril {

StandingPins::Room::~Room() {
  if (pins_ == nullptr) return;
  const std::lock_guard lock(pins_->mutex_);
  pins_->needs_.erase(need_);
}

StatusOr<StandingPins::Room> StandingPins::Reserve(std::vector<AdapterPages> adapters,
                                                   int64_t context_pages,
                                                   const std::string& owner) {
  const std::lock_guard lock(mutex_);
  Need need{std::move(adapters), context_pages};
  RETURN_IF_ERROR(CheckNeed(need, owner));
  return Room(this, needs_.insert(needs_.end(), std::move(need)));
}

Status StandingPins::CheckNeed(const Need& need, const std::string& owner) const {
  int64_t own_adapter_pages = 0;
  for (const AdapterPages& adapter : need.adapters) {
    if (!HasPinned(owner, adapter.id)) own_adapter_pages += adapter.num_pages;
  }
  const int64_t own_pinned = PagesOf(owner);
  const int64_t pages = need.context_pages + own_adapter_pages;
  if (pages + own_pinned > limits_.num_pages) {
    return InvalidArgument(StrCat(
        "the sequence and its adapters need ", pages, " pages, but the whole pool has ",
        limits_.num_pages, ", of which the tenant's pinned adapters keep ", own_pinned,
        "; shorten the request, unpin an adapter, or start the server with a larger --pool-bytes"));
  }
  if (own_adapter_pages > 0 && own_adapter_pages + own_pinned > limits_.max_adapter_pages) {
    return InvalidArgument(
        StrCat("the sequence's adapters take ", own_adapter_pages, " pages, but adapters may take ",
               limits_.max_adapter_pages, ", of which the tenant's pinned ones keep ", own_pinned,
               "; unpin an adapter, or start the server with a larger --adapter-pool-share"));
  }
  const int64_t adapter_pages = UnpinnedPages(need.adapters, kBaseModel);
  if (need.context_pages + adapter_pages + pinned_pages_ > limits_.num_pages ||
      (adapter_pages > 0 && adapter_pages + pinned_pages_ > limits_.max_adapter_pages)) {
    return Unavailable(StrCat(
        "the sequence and its adapters need ", pages,
        " pages, for which there is no room at present beside what is pinned for others; shorten "
        "the request, or try again later"));
  }
  return OkStatus();
}

int64_t StandingPins::UnpinnedPages(const std::vector<AdapterPages>& adapters, AdapterId id) const {
  int64_t pages = 0;
  for (const AdapterPages& adapter : adapters) {
    if (adapter.id != id && !pinned_.contains(adapter.id)) pages += adapter.num_pages;
  }
  return pages;
}

bool StandingPins::HasPinned(const std::string& owner, AdapterId id) const {
  const auto pinned = pinned_.find(id);
  return pinned != pinned_.end() && pinned->second.by_owner.contains(owner);
}

int64_t StandingPins::PagesOf(const std::string& owner) const {
  const auto pages = owner_pages_.find(owner);
  return pages == owner_pages_.end() ? 0 : pages->second;
}

Status StandingPins::CheckPin(int64_t num_pages, const std::string& owner) const {
  const std::string what = StrCat("pinned, the adapter would keep ", num_pages, " pages");
  const int64_t own = PagesOf(owner);
  const int64_t left = limits_.num_pages - num_pages;
  if (left - own < limits_.max_context_pages) {
    return FailedPrecondition(StrCat(
        what, " of the pool's ", limits_.num_pages, "; beside ", own,
        " pages of other adapters that the tenant has pinned ", std::max<int64_t>(left - own, 0),
        " would be left, and the longest context takes ", limits_.max_context_pages,
        "; unpin another adapter, or start the server with a larger --pool-bytes or a "
        "smaller --max-model-len"));
  }
  if (num_pages + own > limits_.max_adapter_pages) {
    return FailedPrecondition(StrCat(
        what, " beside ", own, " of other adapters that the tenant has pinned, and all adapters ",
        "together may take ", limits_.max_adapter_pages,
        "; unpin another adapter, or start the server with a larger --adapter-pool-share"));
  }
  if (left - pinned_pages_ < limits_.max_context_pages ||
      num_pages + pinned_pages_ > limits_.max_adapter_pages ||
      num_pages + pinned_pages_ > limits_.max_pinned_pages) {
    return FailedPrecondition(
        StrCat(what,
               ", for which there is no room at present beside what others have pinned; try "
               "again later, or start the server with a larger --pool-bytes"));
  }
  return OkStatus();
}

Status StandingPins::CheckNeeds(AdapterId id, int64_t num_pages) const {
  const int64_t left = limits_.num_pages - pinned_pages_ - num_pages;
  const int64_t share_left = limits_.max_adapter_pages - pinned_pages_ - num_pages;
  for (const Need& need : needs_) {
    const int64_t adapter_pages = UnpinnedPages(need.adapters, id);
    const bool fits_pool = need.context_pages + adapter_pages <= left;
    if (fits_pool && adapter_pages <= share_left) continue;
    return FailedPrecondition(
        StrCat("pinned, the adapter would keep ", num_pages,
               " pages, and leave too few for a request in work; try again when it is done, or "
               "start the server with a larger ",
               fits_pool ? "--adapter-pool-share" : "--pool-bytes"));
  }
  return OkStatus();
}

Status StandingPins::CheckOwner(AdapterId id, int64_t num_pages, const std::string& owner) const {
  if (HasPinned(owner, id)) return OkStatus();
  const int64_t others = PagesOf(owner);
  if (others + num_pages <= limits_.max_owner_pages) return OkStatus();
  return FailedPrecondition(StrCat(
      "pinned, the adapter would keep ", num_pages, " pages of the pool's ", limits_.num_pages,
      "; beside ", others, " pages of other adapters that the tenant has pinned that is more than ",
      "the ", limits_.max_owner_pages,
      " that one tenant may pin; unpin another adapter, or start the server with a larger "
      "--tenant-pin-share"));
}

StatusOr<std::shared_ptr<const void>> StandingPins::Pin(const AdapterRef& ref, int64_t num_pages,
                                                        const std::string& owner) {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckOwner(ref.id, num_pages, owner));
  auto found = pinned_.find(ref.id);
  if (found == pinned_.end()) {
    RETURN_IF_ERROR(CheckPin(num_pages, owner));
    RETURN_IF_ERROR(CheckNeeds(ref.id, num_pages));
    found = pinned_.emplace(ref.id, Pinned{ref, num_pages}).first;
    pinned_pages_ += num_pages;
    Changed();
  }
  ++found->second.count;
  if (++found->second.by_owner[owner] == 1) owner_pages_[owner] += num_pages;
  return std::shared_ptr<const void>(this,
                                     [this, id = ref.id, owner](const void*) { Unpin(id, owner); });
}

std::map<std::string, int64_t> StandingPins::PagesByOwner() const {
  const std::lock_guard lock(mutex_);
  return owner_pages_;
}

void StandingPins::Unpin(AdapterId id, const std::string& owner) {
  std::shared_ptr<const Adapter> last;  // its files are closed after the lock is released
  const std::lock_guard lock(mutex_);
  Pinned& pinned = pinned_.at(id);
  if (--pinned.by_owner.at(owner) == 0) {
    pinned.by_owner.erase(owner);
    int64_t& pages = owner_pages_.at(owner);
    pages -= pinned.num_pages;
    if (pages == 0) owner_pages_.erase(owner);
  }
  if (--pinned.count > 0) return;
  last = std::move(pinned.ref.adapter);
  pinned_pages_ -= pinned.num_pages;
  pinned_.erase(id);
  Changed();
}

void StandingPins::Changed() {
  has_changed_ = true;
  if (listener_) listener_();
}

void StandingPins::SetListener(std::function<void()> listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

void StandingPins::Apply(Residency& residency, int64_t available_pages) {
  if (has_changed_.exchange(false)) {
    const std::lock_guard lock(mutex_);
    std::erase_if(held_, [&](const auto& held) { return !pinned_.contains(held.first); });
    std::erase_if(waiting_, [&](const Waiting& w) { return !pinned_.contains(w.ref.id); });
    for (auto& [id, pinned] : pinned_) {
      // Its files are needed until it is copied, no longer.
      AdapterRef ref = std::exchange(pinned.ref, {});
      const auto is_ref = [id = id](const Waiting& w) { return w.ref.id == id; };
      if (ref.adapter == nullptr || held_.contains(id) || std::ranges::any_of(waiting_, is_ref)) {
        continue;
      }
      waiting_.push_back({std::move(ref), pinned.num_pages});
    }
  }
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    const AdapterId id = waiting.ref.id;
    if (!residency.IsResident(id) || residency.IsIdle(id)) {
      if (std::min(available_pages, residency.available_pages()) < waiting.num_pages) return false;
      available_pages -= waiting.num_pages;
    }
    held_.emplace(id, residency.Pin(waiting.ref));
    loading_.insert(id);
    return true;
  });
  std::erase_if(loading_, [&](AdapterId id) {
    if (!held_.contains(id) || residency.IsReady(id)) return true;
    const Status error = residency.ErrorOf(id);
    if (error.ok()) return false;
    LogError(StrCat("a pinned adapter cannot be used: ", Message(error)));
    held_.erase(id);
    return true;
  });
}

int64_t StandingPins::pages_waited_for() const {
  int64_t pages = 0;
  for (const Waiting& waiting : waiting_) pages += waiting.num_pages;
  return pages;
}

}  // namespace aril
