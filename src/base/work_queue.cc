#include "base/work_queue.h"

#include <algorithm>
#include <utility>

namespace aril {

WorkQueue::WorkQueue(WorkQueueOptions options) : options_(options) {
  for (size_t i = 0; i < options_.num_threads; ++i) threads_.emplace_back([this] { Loop(); });
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
    if (num_waiting_ >= options_.max_length) return false;
    auto its = std::ranges::find(lanes_, lane, &LaneState::lane);
    const size_t num_before = its == lanes_.end() ? 0 : its->waiting.size();
    if (lane.has_value() && num_before >= options_.max_waiting_per_lane) return false;
    if (its == lanes_.end()) its = lanes_.insert(its, {std::move(lane), {}, 0});
    its->waiting.push_back(std::move(work));
    ++num_waiting_;
  }
  wake_.notify_one();
  return true;
}

WorkQueue::Lanes::iterator WorkQueue::FindNext() {
  return std::ranges::find_if(lanes_, [this](const LaneState& state) {
    const bool has_thread =
        !state.lane.has_value() || state.num_running < options_.max_running_per_lane;
    return has_thread && !state.waiting.empty();
  });
}

void WorkQueue::ForgetIfIdle(Lanes::iterator lane) {
  if (lane->waiting.empty() && lane->num_running == 0) lanes_.erase(lane);
}

void WorkQueue::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    auto next = lanes_.end();
    wake_.wait(lock, [&] { return stop_ || (next = FindNext()) != lanes_.end(); });
    if (stop_) return;
    lanes_.splice(lanes_.end(), lanes_, next);  // the others' turns come first now
    std::function<void()> work = std::move(next->waiting.front());
    next->waiting.pop_front();
    --num_waiting_;
    ++next->num_running;
    lock.unlock();
    work();
    work = nullptr;  // what it holds may take time, too
    lock.lock();
    // This thread looks for the next of its lane itself: nobody has to be woken.
    --next->num_running;
    ForgetIfIdle(next);
  }
}

}  // namespace aril
