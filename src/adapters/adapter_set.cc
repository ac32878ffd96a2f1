#include "adapters/adapter_set.h"

#include <utility>

namespace aril {

AdapterId AdapterSet::Add(Adapter adapter) {
  auto shared = std::make_shared<const Adapter>(std::move(adapter));
  const std::lock_guard lock(mutex_);
  const AdapterId id(next_id_++);
  adapters_.emplace(id, std::move(shared));
  return id;
}

void AdapterSet::Remove(AdapterId id) {
  std::shared_ptr<const Adapter> last;  // its files are closed after the lock is released
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  if (found == adapters_.end()) return;
  last = std::move(found->second);
  adapters_.erase(found);
}

std::optional<AdapterRef> AdapterSet::Find(AdapterId id) const {
  if (id == kBaseModel) return AdapterRef();
  const std::lock_guard lock(mutex_);
  const auto found = adapters_.find(id);
  if (found == adapters_.end()) return std::nullopt;
  return AdapterRef{id, found->second};
}

int64_t AdapterSet::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(adapters_.size());
}

}  // namespace aril
