// Threads for what takes too long for the one that wants it done.

#ifndef ARIL_BASE_WORK_QUEUE_H_
#define ARIL_BASE_WORK_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace aril {

// Runs functions on threads of its own, in their order: with one thread, one after the other.
// Thread-safe.
class WorkQueue {
 public:
  explicit WorkQueue(size_t max_length, size_t num_threads = 1);
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;
  // Waits for the functions that run; those that have not begun are dropped.
  ~WorkQueue();

  // False if the queue is full. `work` must not throw.
  [[nodiscard]] bool TryPush(std::function<void()> work);

 private:
  void Loop();

  const size_t max_length_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;  // guarded by mutex_
  bool stop_ = false;                        // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace aril

#endif  // ARIL_BASE_WORK_QUEUE_H_
