#include "adapters/adapter_set.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace aril {

AdapterId AdapterSet::Add(Adapter adapter) {
  auto entry = std::make_shared<Entry>();
  entry->adapter = std::make_shared<const Adapter>(std::move(adapter));
  return Insert(std::move(entry));
}

AdapterId AdapterSet::AddUnopened(Open open) {
  auto entry = std::make_shared<Entry>();
  entry->open = std::move(open);
  return Insert(std::move(entry));
}

AdapterId AdapterSet::Insert(std::shared_ptr<Entry> entry) {
  Closed closed;
  const std::lock_guard lock(mutex_);
  if (entry->adapter != nullptr) Opened(*entry, std::move(entry->adapter));
  const AdapterId id(next_id_++);
  adapters_.emplace(id, std::move(entry));
  CloseUnused(closed);
  return id;
}

void AdapterSet::SetOpen(AdapterId id, Open open, CheckFiles check_files) {
  Closed closed;
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  if (found == adapters_.end()) return;
  found->second->open = std::move(open);
  found->second->check_files =
      check_files ? std::make_shared<const CheckFiles>(std::move(check_files)) : nullptr;
  CloseUnused(closed);
}

void AdapterSet::Remove(AdapterId id) {
  Closed closed;
  std::shared_ptr<Entry> last;
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  if (found == adapters_.end()) return;
  last = std::move(found->second);
  adapters_.erase(found);
  last->is_here = false;
  if (last->adapter != nullptr) Close(*last, closed);
}

void AdapterSet::Opened(Entry& entry, std::shared_ptr<const Adapter> adapter) const {
  entry.adapter = std::move(adapter);
  open_bytes_ += entry.adapter->held_bytes();
  entry.use = uses_.insert(uses_.end(), &entry);
}

void AdapterSet::Close(Entry& entry, Closed& closed) const {
  open_bytes_ -= entry.adapter->held_bytes();
  uses_.erase(entry.use);
  closed.push_back(std::move(entry.adapter));
}

void AdapterSet::CloseUnused(Closed& closed) const {
  for (auto it = uses_.begin(); it != uses_.end() && open_bytes_ > max_open_bytes_;) {
    Entry& entry = **it++;
    // Others get theirs from here only: whom nobody has now, nobody gets before the lock goes.
    if (!entry.open || entry.adapter.use_count() > 1) continue;
    Close(entry, closed);
    ++num_closed_;
  }
}

std::shared_ptr<const Adapter> AdapterSet::Use(const Entry& entry, Closed& closed) const {
  if (entry.adapter == nullptr) return nullptr;
  if (entry.is_here) uses_.splice(uses_.end(), uses_, entry.use);
  auto adapter = entry.adapter;
  CloseUnused(closed);
  return adapter;
}

StatusOr<AdapterRef> AdapterSet::Find(AdapterId id) const {
  if (id == kBaseModel) return AdapterRef();
  Closed closed;
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = adapters_.find(id);
    if (found == adapters_.end()) return NotFound(StrCat("there is no adapter ", id));
    entry = found->second;
    if (auto adapter = Use(*entry, closed)) return RefTo(id, *entry, std::move(adapter));
  }
  const std::lock_guard opening(entry->opening);
  Open open;
  {
    const std::lock_guard lock(mutex_);
    if (auto adapter = Use(*entry, closed)) return RefTo(id, *entry, std::move(adapter));
    open = entry->open;
  }
  // Removed, it stays closed for good.
  if (!open) return NotFound(StrCat("there is no adapter ", id));
  ASSIGN_OR_RETURN(Adapter opened, open());
  auto adapter = std::make_shared<const Adapter>(std::move(opened));
  const std::lock_guard lock(mutex_);
  if (entry->is_here) {
    Opened(*entry, adapter);
    CloseUnused(closed);
  }
  return RefTo(id, *entry, std::move(adapter));
}

std::shared_ptr<const Adapter> AdapterSet::FindOpen(AdapterId id) const {
  Closed closed;
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  return found == adapters_.end() ? nullptr : Use(*found->second, closed);
}

bool AdapterSet::IsOpen(AdapterId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  return found != adapters_.end() && found->second->adapter != nullptr;
}

Status AdapterSet::CheckFilesOf(AdapterId id) const {
  std::shared_ptr<const CheckFiles> check_files;
  {
    const std::lock_guard lock(mutex_);
    const auto found = adapters_.find(id);
    if (found != adapters_.end()) check_files = found->second->check_files;
  }
  return check_files == nullptr ? OkStatus() : (*check_files)();
}

std::vector<AdapterId> AdapterSet::Ids() const {
  std::vector<AdapterId> ids;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : adapters_) ids.push_back(id);
  return ids;
}

int64_t AdapterSet::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(adapters_.size());
}

int64_t AdapterSet::open_bytes() const {
  const std::lock_guard lock(mutex_);
  return open_bytes_;
}

int64_t AdapterSet::num_closed() const {
  const std::lock_guard lock(mutex_);
  return num_closed_;
}

}  // namespace aril
