// Threads for what takes too long for the one that wants it done.

#ifndef ARIL_BASE_WORK_QUEUE_H_
#define ARIL_BASE_WORK_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace aril {

struct WorkQueueOptions {
  size_t max_length = 0;  // of what waits
  size_t num_threads = 1;
  size_t max_running_per_lane = 1;
  size_t max_waiting_per_lane = SIZE_MAX;
};

// Runs functions on threads of its own, those of a lane in their order: with one thread, one after
// the other. Thread-safe.
class WorkQueue {
 public:
  // What waits for the same, or is one tenant's. Lanes take turns, and each has so many threads and
  // so much of the queue at most: what is left is the others'. What has none is a lane with all
  // threads.
  using Lane = std::optional<std::string>;

  explicit WorkQueue(WorkQueueOptions options);
  explicit WorkQueue(size_t max_length) : WorkQueue(WorkQueueOptions{.max_length = max_length}) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  // Waits for the functions that run; those that have not begun are dropped.
  ~WorkQueue();

  // False if the queue is full, or the lane has its part of it. `work` must not throw.
  [[nodiscard]] bool TryPush(std::function<void()> work, Lane lane = std::nullopt);

 private:
  // One that something waits for, or runs for.
  struct LaneState {
    Lane lane;
    std::deque<std::function<void()>> waiting;
    size_t num_running = 0;
  };
  using Lanes = std::list<LaneState>;

  void Loop();
  // With mutex_ held. The next lane of which something may run; the end if there is none.
  Lanes::iterator FindNext();
  void ForgetIfIdle(Lanes::iterator lane);

  const WorkQueueOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_:
  Lanes lanes_;  // whose turn it is comes first
  size_t num_waiting_ = 0;
  bool stop_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace aril

#endif  // ARIL_BASE_WORK_QUEUE_H_
