// The sequences that wait to be placed, and in which order.

#ifndef ARIL_SCHEDULER_WAIT_QUEUE_H_
#define ARIL_SCHEDULER_WAIT_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>

#include "base/clock.h"
#include "base/ids.h"
#include "scheduler/fair_share.h"

namespace aril::scheduler {

// What the queue orders by.
struct QueueKey {
  SequenceId sequence;
  int32_t tenant = 0;
  int32_t priority = 0;
  TimePoint arrival;
  // Its client has had tokens: it is not aborted for waiting.
  bool has_started = false;
};

// Tenants take turns by a TenantPolicy; within a turn the older or the newer one goes first. A
// tenant's sequences have the places at which they came, and which of them is at which is by their
// priorities, the higher first: who leaves takes the place along that it was at, so that none gets
// ahead of other tenants. What has started stands at its own place. Every operation is
// logarithmic. Not thread-safe.
class WaitQueue {
 public:
  // `tenants` must outlive this.
  explicit WaitQueue(TenantPolicy& tenants) : tenants_(tenants) {}

  // Each sequence at most once, until it is removed.
  void Add(const QueueKey& key);
  void Remove(SequenceId sequence);

  size_t size() const { return keys_.size(); }
  // About how many of them are placed before another one of this tenant's would be, as turns are
  // taken: as many of each group as wait of its own.
  size_t NumAhead(int32_t tenant) const;
  bool empty() const { return keys_.empty(); }

  // The first `limit` sequences in order, one of each tenant whose turn it is, then the second of
  // each, …
  std::vector<SequenceId> First(size_t limit, bool newest_first) const;

  // The sequence that has waited longest among those that have not started.
  std::optional<std::pair<TimePoint, SequenceId>> Oldest() const;

 private:
  using Place = std::pair<TimePoint, SequenceId>;
  using ByArrival = std::set<Place>;
  template <typename Key>
  using Ranked =
      __gnu_pbds::tree<Key, __gnu_pbds::null_type, std::less<Key>, __gnu_pbds::rb_tree_tag,
                       __gnu_pbds::tree_order_statistics_node_update>;
  using RankedByPriority = Ranked<std::pair<int64_t, Place>>;

  // What a tenant has in a line that has not started: the k-th of its places is for the k-th of its
  // sequences by priority.
  struct Own {
    Ranked<Place> places;
    RankedByPriority oldest_first;  // by -priority
    RankedByPriority newest_first;  // by priority, as its last place comes first
    int32_t priority = 0;           // of the first one
    bool has_exchanged = false;  // there was another: places may be at other sequences' than came
  };
  struct Standing {
    int32_t tenant;
    bool has_started;
  };
  struct Line {
    std::map<Place, Standing> at;
    std::map<int32_t, Own> of_tenant;
  };

  static void AddTo(Own& own, const QueueKey& key);
  // The place that it was at.
  static Place RemoveFrom(Own& own, const QueueKey& key);
  static std::vector<SequenceId> FirstOf(const Line& line, size_t limit, bool newest_first);

  TenantPolicy& tenants_;
  std::map<int32_t, Line> lines_;  // by group
  std::unordered_map<SequenceId, QueueKey> keys_;
  ByArrival not_started_;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_WAIT_QUEUE_H_
