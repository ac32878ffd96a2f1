// The thread on which a process' state machine lives.

#ifndef ARIL_CLUSTER_NODE_LOOP_H_
#define ARIL_CLUSTER_NODE_LOOP_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "cluster/links.h"

namespace aril::cluster {

// Runs what is posted, one after the other, and the node's ticks. Whoever posts bounds what is on
// its way: a link has one frame there at a time, an engine one step's events for each live
// sequence.
class NodeLoop {
 public:
  explicit NodeLoop(const Clock& clock) : clock_(clock) {}
  NodeLoop(const NodeLoop&) = delete;
  NodeLoop& operator=(const NodeLoop&) = delete;
  // Stops.
  ~NodeLoop() { Stop(); }

  // `node` must outlive the loop, or the call of Stop. At most once.
  void Start(Node& node);
  // Runs `work` on the loop's thread, soon, or never after Stop; what is posted before Start runs
  // after it. Any thread.
  void Post(std::function<void(TimePoint now)> work);
  // The same, with the node that the loop was started with: for links, which are there before it.
  void PostToNode(std::function<void(Node& node, TimePoint now)> work);
  // Waits for what runs; drops what waits. Not on the loop's thread. Idempotent.
  void Stop();

 private:
  void Run(Node& node);

  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void(Node&, TimePoint)>> posted_;  // guarded by mutex_
  bool stopping_ = false;                                     // guarded by mutex_
  std::thread thread_;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_NODE_LOOP_H_
