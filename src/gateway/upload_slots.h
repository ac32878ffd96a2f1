// How many uploads there may be at the same time.

#ifndef ARIL_GATEWAY_UPLOAD_SLOTS_H_
#define ARIL_GATEWAY_UPLOAD_SLOTS_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace aril::gateway {

// One tenant cannot take all of them. Thread-safe; slots may outlast it.
class UploadSlots {
 public:
  UploadSlots(int max_uploads, int max_of_tenant)
      : state_(std::make_shared<State>()), max_(max_uploads), max_of_tenant_(max_of_tenant) {}

  // To be held while an upload lasts; null if there is none left.
  std::shared_ptr<const void> Take(const std::string& tenant) {
    const std::lock_guard lock(state_->mutex);
    int& of_tenant = state_->of_tenant[tenant];
    if (state_->total >= max_ || of_tenant >= max_of_tenant_) return nullptr;
    ++state_->total;
    ++of_tenant;
    return std::make_shared<Slot>(state_, tenant);
  }

 private:
  struct State {
    std::mutex mutex;
    int total = 0;
    std::map<std::string, int> of_tenant;  // those with keys: no more than the operator made
  };
  class Slot {
   public:
    Slot(std::shared_ptr<State> state, std::string tenant)
        : state_(std::move(state)), tenant_(std::move(tenant)) {}
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    ~Slot() {
      const std::lock_guard lock(state_->mutex);
      --state_->total;
      --state_->of_tenant[tenant_];
    }

   private:
    const std::shared_ptr<State> state_;
    const std::string tenant_;
  };

  const std::shared_ptr<State> state_;
  const int max_;
  const int max_of_tenant_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_UPLOAD_SLOTS_H_
