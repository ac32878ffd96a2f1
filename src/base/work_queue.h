// Threads for what takes too long for the one that wants it done.

#ifndef ARIL_BASE_WORK_QUEUE_H_
#define ARIL_BASE_WORK_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace aril {

// Runs functions on threads of its own, in their order: with one thread, one after the other.
// Thread-safe.
class WorkQueue {
 public:
  // Of those in one lane, so many run at a time at most: what all wait for the same, or are one
  // tenant's, leave the other threads to the others.
  using Lane = std::optional<std::string>;

  explicit WorkQueue(size_t max_length, size_t num_threads = 1, size_t max_per_lane = 1);
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  // Waits for the functions that run; those that have not begun are dropped.
  ~WorkQueue();

  // False if the queue is full. `work` must not throw.
  [[nodiscard]] bool TryPush(std::function<void()> work, Lane lane = std::nullopt);
  // So many wait when it is full.
  size_t max_length() const { return max_length_; }

 private:
  struct Entry {
    std::function<void()> work;
    Lane lane;
  };

  void Loop();
  // The first that may run; the end if there is none. With mutex_ held.
  std::deque<Entry>::iterator FindNext();

  const size_t max_length_;
  const size_t max_per_lane_;
  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_:
  std::deque<Entry> queue_;
  std::map<std::string, size_t> num_running_;  // by lane
  bool stop_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace aril

#endif  // ARIL_BASE_WORK_QUEUE_H_
