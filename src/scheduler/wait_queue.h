// The sequences that wait to be placed, and in which order.

#ifndef ARIL_SCHEDULER_WAIT_QUEUE_H_
#define ARIL_SCHEDULER_WAIT_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

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

// Tenants take turns by a TenantPolicy; within a turn the older or the newer one goes first. Which
// of its own a tenant has at the places of them all is by their priorities, the higher first: none
// gets ahead of another tenant by them. Every operation is logarithmic. Not thread-safe.
class WaitQueue {
 public:
  // `tenants` must outlive this.
  explicit WaitQueue(TenantPolicy& tenants) : tenants_(tenants) {}

  // Each sequence at most once; Remove with the same key.
  void Add(const QueueKey& key);
  void Remove(const QueueKey& key);

  size_t size() const { return size_; }
  // About how many of them are placed before another one of this tenant's would be, as turns are
  // taken: as many of each group as wait of its own.
  size_t NumAhead(int32_t tenant) const;
  bool empty() const { return size_ == 0; }

  // The first `limit` sequences in order, one of each tenant whose turn it is, then the second of
  // each, …
  std::vector<SequenceId> First(size_t limit, bool newest_first) const;

  // The sequence that has waited longest among those that have not started.
  std::optional<std::pair<TimePoint, SequenceId>> Oldest() const;

 private:
  using Place = std::pair<TimePoint, SequenceId>;
  using ByArrival = std::set<Place>;
  using ByPriority = std::map<int32_t, ByArrival, std::greater<>>;
  struct Line {
    std::map<Place, int32_t> tenant_at;
    std::map<int32_t, ByPriority> of_tenant;
  };

  static std::vector<SequenceId> FirstOf(const Line& line, size_t limit, bool newest_first);

  TenantPolicy& tenants_;
  std::map<int32_t, Line> lines_;  // by group
  ByArrival not_started_;
  size_t size_ = 0;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_WAIT_QUEUE_H_
