#include "cluster/node_loop.h"

#include <utility>

#include "base/check.h"

namespace aril::cluster {
namespace {

constexpr Duration kTickInterval = std::chrono::milliseconds(100);

}  // namespace

void NodeLoop::Start(Node& node) {
  CHECK(!thread_.joinable());
  thread_ = std::thread([this, &node] { Run(node); });
}

void NodeLoop::Post(std::function<void(TimePoint now)> work) {
  PostToNode([work = std::move(work)](Node&, TimePoint now) { work(now); });
}

void NodeLoop::PostToNode(std::function<void(Node& node, TimePoint now)> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    posted_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void NodeLoop::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void NodeLoop::Run(Node& node) {
  TimePoint next_tick = clock_.Now();
  while (true) {
    std::deque<std::function<void(Node&, TimePoint)>> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, next_tick, [this] { return stopping_ || !posted_.empty(); });
      if (stopping_) return;
      work.swap(posted_);
    }
    // What each holds has gone before the next one runs.
    for (; !work.empty(); work.pop_front()) work.front()(node, clock_.Now());
    if (const TimePoint now = clock_.Now(); now >= next_tick) {
      node.OnTick(now);
      next_tick = now + kTickInterval;
    }
  }
}

}  // namespace aril::cluster
