// Adapters that come to a cluster at run time, as its runners see them.

#ifndef ARIL_CLUSTER_SHARED_ADAPTERS_H_
#define ARIL_CLUSTER_SHARED_ADAPTERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "delivery/messages.h"

namespace aril::cluster {

// Gets them into a runner's engine.
class SharedAdapterLoader {
 public:
  struct Ready {
    AdapterId adapter;                 // the engine's
    int64_t pages = 0;                 // of the pool
    std::shared_ptr<const void> hold;  // while it exists, requests may use the adapter
  };
  using Done = std::function<void(const StatusOr<Ready>& ready, TimePoint now)>;

  virtual ~SharedAdapterLoader() = default;
  // One that is there, or nullopt if files would have to be read first. The node's thread.
  virtual std::optional<Ready> Find(const std::string& digest) = 0;
  // For a tenant, of whom not too many are loaded side by side, so that its slow sources hold up
  // nobody else's. Takes as long as fetching and verifying it does. `done` runs once, on the node's
  // thread, later; Unavailable or ResourceExhausted: another runner, or this one later, might
  // succeed.
  virtual void Load(const delivery::SharedAdapter& shared, const std::string& tenant,
                    Done done) = 0;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_SHARED_ADAPTERS_H_
