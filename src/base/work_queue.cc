#include "base/work_queue.h"

#include <algorithm>
#include <utility>

namespace aril {

WorkQueue::WorkQueue(size_t max_length, size_t num_threads, size_t max_per_lane)
    : max_length_(max_length), max_per_lane_(max_per_lane) {
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

bool WorkQueue::TryPush(std::function<void()> work, Lane lane) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= max_length_) return false;
    queue_.push_back({std::move(work), std::move(lane)});
  }
  wake_.notify_one();
  return true;
}

std::deque<WorkQueue::Entry>::iterator WorkQueue::FindNext() {
  return std::ranges::find_if(queue_, [this](const Entry& entry) {
    if (!entry.lane.has_value()) return true;
    const auto running = num_running_.find(*entry.lane);
    return running == num_running_.end() || running->second < max_per_lane_;
  });
}

void WorkQueue::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    auto next = queue_.end();
    wake_.wait(lock, [&] { return stop_ || (next = FindNext()) != queue_.end(); });
    if (stop_) return;
    Entry entry = std::move(*next);
    queue_.erase(next);
    if (entry.lane.has_value()) ++num_running_[*entry.lane];
    lock.unlock();
    entry.work();
    entry.work = nullptr;  // what it holds may take time, too
    lock.lock();
    // This thread looks for the next of its lane itself: nobody has to be woken.
    if (!entry.lane.has_value()) continue;
    if (const auto running = num_running_.find(*entry.lane); --running->second == 0) {
      num_running_.erase(running);
    }
  }
}

}  // namespace aril
