// What every process does with its links: says Hello, wants one in return, dials again what broke.

#ifndef ARIL_CLUSTER_PEER_H_
#define ARIL_CLUSTER_PEER_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/frames.h"
#include "cluster/links.h"

namespace aril::cluster {

// A link on which nobody says Hello is closed after this.
inline constexpr Duration kHelloTimeout = std::chrono::seconds(5);

// Sequences of different gateways have different ids, and say whose they are.
SequenceId MakeSequenceId(GatewayId gateway, uint32_t number);
GatewayId GatewayOf(SequenceId sequence);

// Why a peer's Hello is refused: another role than `role`, another release, or other models or
// adapters than ours. OK if it is not.
Status CheckPeer(const Hello& ours, const Hello& theirs, Role role);

// Keeps a link open to each of a number of addresses. Not thread-safe.
class Dialler {
 public:
  // What is dialled gets `hello` first.
  Dialler(Links& links, Duration retry_after) : links_(links), retry_after_(retry_after) {}

  void Add(const std::string& address) { targets_[address].is_wanted = true; }
  // Its link, if there is one, stays until it breaks, or is that of the address when it is added
  // again.
  void Remove(const std::string& address);
  bool Has(const std::string& address) const;

  // Dials what is due, and says `hello` there; closes links on which nobody has said Hello in time.
  void OnTick(const Hello& hello, TimePoint now);
  // The other end has said Hello.
  void OnHello(LinkId link);
  // The address of a link of this dialler; nullptr for others. Valid until the next change.
  const std::string* Find(LinkId link) const;
  // A link of this dialler is gone: it is dialled again after a while.
  void OnBroken(LinkId link, TimePoint now);

 private:
  // One that is not wanted has a link.
  struct Target {
    bool is_wanted = false;
    std::optional<LinkId> link = std::nullopt;
    bool has_hello = false;
    TimePoint since = {};  // of the link; or when to dial
  };

  Links& links_;
  const Duration retry_after_;
  std::map<std::string, Target> targets_;
  std::map<LinkId, std::string> addresses_;  // of the links there are
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_PEER_H_
