// Virtual time: what is scheduled happens in order of time, and at one time in the order in which
// it was scheduled.

#ifndef ARIL_SIMULATE_EVENT_LOOP_H_
#define ARIL_SIMULATE_EVENT_LOOP_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace aril::simulate {

// Not thread-safe.
class EventLoop {
 public:
  using Callback = std::function<void()>;

  TimePoint now() const { return now_; }
  int64_t num_events() const { return num_events_; }
  bool empty() const { return heap_.empty(); }
  TimePoint next() const { return heap_.front().at; }

  // Not before now.
  void At(TimePoint at, Callback callback) {
    heap_.push_back({std::max(at, now_), next_order_++, std::move(callback)});
    std::push_heap(heap_.begin(), heap_.end(), Later);
  }
  void After(Duration delay, Callback callback) { At(now_ + delay, std::move(callback)); }

  // The next event. Must not be empty.
  void Step() {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    now_ = entry.at;
    ++num_events_;
    entry.callback();
  }

 private:
  struct Entry {
    TimePoint at;
    uint64_t order;
    Callback callback;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return std::pair(a.at, a.order) > std::pair(b.at, b.order);
  }

  std::vector<Entry> heap_;
  TimePoint now_;
  uint64_t next_order_ = 0;
  int64_t num_events_ = 0;
};

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_EVENT_LOOP_H_
