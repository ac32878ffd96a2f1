// The adapters that new sequences may use, by id.

#ifndef ARIL_ADAPTERS_ADAPTER_SET_H_
#define ARIL_ADAPTERS_ADAPTER_SET_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "adapters/adapter.h"
#include "base/ids.h"
#include "base/status.h"

namespace aril {

// An adapter, kept while this exists; or the base model, which is none.
struct AdapterRef {
  AdapterId id = kBaseModel;
  std::shared_ptr<const Adapter> adapter;  // null for the base model
};

// Adapters come and go while sequences run: who has one keeps it, and no id is given twice, so that
// an id never means anything else than it did. Thread-safe.
class AdapterSet {
 public:
  // Ids count from 0.
  AdapterId Add(Adapter adapter);
  // One that Find is to open, by `open`, when it is wanted first.
  using Open = std::function<StatusOr<Adapter>()>;
  AdapterId AddUnopened(Open open);
  // Of an unknown id: no effect.
  void Remove(AdapterId id);

  // The base model for its own id; NotFound for one that is not here. An adapter that cannot be
  // opened is tried again by the next call; only those that want the same one wait for it.
  StatusOr<AdapterRef> Find(AdapterId id) const;
  // False for one that is not here, or that Find has not opened.
  bool IsOpen(AdapterId id) const;
  int64_t size() const;

 private:
  struct Entry {
    Open open;
    std::atomic<bool> is_open = false;
    std::mutex mutex;                        // of `adapter`, once it can be found
    std::shared_ptr<const Adapter> adapter;  // null before it is opened
  };
  AdapterId Insert(std::shared_ptr<Entry> entry);

  mutable std::mutex mutex_;
  std::unordered_map<AdapterId, std::shared_ptr<Entry>> adapters_;
  int32_t next_id_ = 0;
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_ADAPTER_SET_H_
