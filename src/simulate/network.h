// Connections between nodes as gRPC's streams are: in order and complete while they last, nothing
// after they break, and each end learns of the break at its own time. And what real networks do
// besides: messages that are lost in a reconnection that nobody notices, or come twice.

#ifndef ARIL_SIMULATE_NETWORK_H_
#define ARIL_SIMULATE_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"
#include "delivery/runner_end.h"
#include "simulate/event_loop.h"
#include "simulate/random.h"

namespace aril::simulate {

// Nodes are numbers. Not thread-safe.
class Network {
 public:
  struct Handlers {
    // Runs a callback at a node, if it lives; later, if it is paused.
    std::function<void(int node, std::function<void()>)> run;
    std::function<bool(int node)> is_alive;
    std::function<void(int node, int peer, delivery::ConnectionId)> on_connected;
    std::function<void(int node, int peer, delivery::ConnectionId)> on_broken;
  };

  Network(EventLoop& loop, SimRandom& random, Handlers handlers)
      : loop_(loop), random_(random), handlers_(std::move(handlers)) {}

  // From now on the two keep a connection, whenever both live and nothing blocks it.
  void Link(int a, int b);
  bool IsUp(int a, int b) const { return Get(a, b).is_up; }
  delivery::ConnectionId Connection(int a, int b) const { return Get(a, b).id; }
  // Runs `deliver` at `to`; lost if there is no connection, or it breaks on the way.
  void Send(int from, int to, std::function<void()> deliver);

  // Breaks what `node` has, and keeps it broken until then; or one connection only.
  void BreakAll(int node, TimePoint until);
  void Break(int a, int b, TimePoint until);
  // What is under way is lost, and neither end notices.
  void LoseInFlight(int a, int b) { ++GetMutable(a, b).generation; }
  void Slow(int a, int b, Duration extra, TimePoint until);
  void Duplicate(int a, int b, TimePoint until) { GetMutable(a, b).duplicate_until = until; }

 private:
  struct State {
    delivery::ConnectionId id;
    bool is_up = false;
    int64_t generation = 0;
    TimePoint blocked_until, slow_until, duplicate_until;
    // When both ends have noticed the end of the last connection: there is no new one before.
    TimePoint noticed_at;
    Duration extra{};
    TimePoint last[2];  // arrivals, by direction
  };

  const State& Get(int a, int b) const { return links_.at(std::minmax(a, b)); }
  State& GetMutable(int a, int b) { return links_.at(std::minmax(a, b)); }
  void TryConnect(int a, int b);

  EventLoop& loop_;
  SimRandom& random_;
  const Handlers handlers_;
  std::map<std::pair<int, int>, State> links_;
  int64_t next_connection_ = 1;
};

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_NETWORK_H_
