#include "base/work_queue.h"

#include <utility>

namespace aril {

WorkQueue::WorkQueue(size_t max_length, size_t num_threads) : max_length_(max_length) {
  for (size_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkQueue::TryPush(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= max_length_) return false;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void WorkQueue::Loop() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace aril
