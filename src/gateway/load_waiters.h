// Requests for adapters that are being loaded. They wait without a thread, and not forever.

#ifndef ARIL_GATEWAY_LOAD_WAITERS_H_
#define ARIL_GATEWAY_LOAD_WAITERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"
#include "gateway/adapter_loads.h"
#include "gateway/event_inbox.h"

namespace aril::gateway {

// Runs a function on the server's thread after a while; never, if the server has ended by then.
using PostAfterFunction = std::function<void(Duration after, std::function<void()> function)>;

// On the server's thread.
class LoadWaiters {
 public:
  // What `post` and `post_after` hold must not run after the end of this object.
  LoadWaiters(size_t max_waiting, PostFunction post, PostAfterFunction post_after)
      : max_waiting_(max_waiting), post_(std::move(post)), post_after_(std::move(post_after)) {}
  LoadWaiters(const LoadWaiters&) = delete;
  LoadWaiters& operator=(const LoadWaiters&) = delete;

  using Ticket = int64_t;
  enum class Outcome { kOver, kTimeIsUp };
  // Calls `then` once: when the load is over, or `at_most` later. nullopt, without calling it, if
  // too many wait already.
  std::optional<Ticket> Wait(AdapterLoads& loads, const std::string& tenant,
                             const std::string& name, Duration at_most,
                             std::function<void(Outcome)> then);
  // Nothing is called any more. Harmless for one that is over.
  void Cancel(Ticket ticket);
  // Ends all waits.
  void EndAll(Outcome outcome);

 private:
  using Key = std::pair<std::string, std::string>;  // tenant, name
  struct Waiter {
    Key key;
    std::function<void(Outcome)> then;
  };

  void OnOver(const Key& key);
  void End(Ticket ticket, Outcome outcome);

  const size_t max_waiting_;
  const PostFunction post_;
  const PostAfterFunction post_after_;
  Ticket next_ticket_ = 0;
  std::map<Ticket, Waiter> waiters_;
  // Of each load that is asked about. It stays until that load says that it is over, so that each
  // is asked only once.
  std::map<Key, std::set<Ticket>> by_load_;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_LOAD_WAITERS_H_
