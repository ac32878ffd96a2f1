#include "adapters/adapter_set.h"

#include <utility>

#include "base/strings.h"

namespace aril {

AdapterId AdapterSet::Add(Adapter adapter) {
  auto entry = std::make_shared<Entry>();
  entry->adapter = std::make_shared<const Adapter>(std::move(adapter));
  entry->is_open = true;
  return Insert(std::move(entry));
}

AdapterId AdapterSet::AddUnopened(Open open) {
  auto entry = std::make_shared<Entry>();
  entry->open = std::move(open);
  return Insert(std::move(entry));
}

AdapterId AdapterSet::Insert(std::shared_ptr<Entry> entry) {
  const std::lock_guard lock(mutex_);
  const AdapterId id(next_id_++);
  adapters_.emplace(id, std::move(entry));
  return id;
}

void AdapterSet::Remove(AdapterId id) {
  std::shared_ptr<Entry> last;  // its files are closed after the lock is released
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  if (found == adapters_.end()) return;
  last = std::move(found->second);
  adapters_.erase(found);
}

StatusOr<AdapterRef> AdapterSet::Find(AdapterId id) const {
  if (id == kBaseModel) return AdapterRef();
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = adapters_.find(id);
    if (found == adapters_.end()) return NotFound(StrCat("there is no adapter ", id));
    entry = found->second;
  }
  const std::lock_guard lock(entry->mutex);
  if (entry->adapter == nullptr) {
    ASSIGN_OR_RETURN(Adapter adapter, entry->open());
    entry->adapter = std::make_shared<const Adapter>(std::move(adapter));
    entry->is_open = true;
  }
  return AdapterRef{id, entry->adapter};
}

bool AdapterSet::IsOpen(AdapterId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  return found != adapters_.end() && found->second->is_open;
}

int64_t AdapterSet::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(adapters_.size());
}

}  // namespace aril
