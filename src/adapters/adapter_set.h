// The adapters that new sequences may use, by id.

#ifndef ARIL_ADAPTERS_ADAPTER_SET_H_
#define ARIL_ADAPTERS_ADAPTER_SET_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "adapters/adapter.h"
#include "base/ids.h"

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
  // Of an unknown id: no effect.
  void Remove(AdapterId id);

  // The base model for its own id; nullopt for one that is not here.
  std::optional<AdapterRef> Find(AdapterId id) const;
  int64_t size() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<AdapterId, std::shared_ptr<const Adapter>> adapters_;
  int32_t next_id_ = 0;
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_ADAPTER_SET_H_
