// The transport as the state machines' shells see it: links that carry frames in order until they
// break. gRPC is behind it (grpc_links.h), or a test.

#ifndef ARIL_CLUSTER_LINKS_H_
#define ARIL_CLUSTER_LINKS_H_

#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/frames.h"
#include "delivery/runner_end.h"

namespace aril::cluster {

// One life of a link; never used again.
using LinkId = delivery::ConnectionId;

// Thread-safe. What happens to a link is told to the Node, never from within these functions.
class Links {
 public:
  virtual ~Links() = default;
  // Opens a link to "HOST:PORT"; if that fails, it breaks.
  virtual LinkId Dial(const std::string& address) = 0;
  // Queues a frame. A link whose queue is full breaks: its peer is slower than what comes for it,
  // and what a broken link means both ends know. Unknown or broken: no effect.
  virtual void Send(LinkId link, const Frame& frame) = 0;
  // Ends a link; whoever opened it is told `why`. The node hears of it as of any other break.
  virtual void Close(LinkId link, const Status& why) = 0;
};

// What a process does. One thread calls all of it, with times that do not fall. Links deliver
// nothing more while a frame is being handled, so that a node that is busy slows its peers down.
class Node {
 public:
  virtual ~Node() = default;
  // Somebody has opened a link to this process.
  virtual void OnAccepted(LinkId link, TimePoint now) = 0;
  virtual void OnFrame(LinkId link, Frame frame, TimePoint now) = 0;
  // Nothing more comes. Said once for each link that was dialled or accepted.
  virtual void OnBroken(LinkId link, const Status& why, TimePoint now) = 0;
  // Several times a second.
  virtual void OnTick(TimePoint now) = 0;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_LINKS_H_
