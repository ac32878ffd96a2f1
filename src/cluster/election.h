// Which scheduler leads: the election as a state machine over etcd, or over a test.
//
// Whoever creates the leader's key leads, and the key goes with its lease. The key's create
// revision is the epoch: etcd gives ascending ones, so gateways and runners refuse the commands of
// whoever led before, and nothing rests on leases or clocks being right (Jepsen's reports on etcd's
// locks).
//
// The key is read again in every round (a watch would only be a hint). While etcd does not answer,
// a leader goes on: nobody else can be elected, and if etcd answers others, their epoch is higher.

#ifndef ARIL_CLUSTER_ELECTION_H_
#define ARIL_CLUSTER_ELECTION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "wire/cluster.h"

namespace aril::cluster {

// What an election needs of etcd. Each call is one round trip; Unavailable when it does not answer.
class LeaseStore {
 public:
  virtual ~LeaseStore() = default;
  // A lease of this many seconds; its id.
  virtual StatusOr<int64_t> Grant(int64_t ttl_seconds) = 0;
  // False: there is no such lease any more.
  virtual StatusOr<bool> KeepAlive(int64_t lease) = 0;
  virtual Status Revoke(int64_t lease) = 0;
  struct Key {
    int64_t create_revision = 0;
    int64_t lease = 0;
  };
  // Creates `key` under the lease unless it is there; what is there then, either way.
  virtual StatusOr<Key> CreateOrGet(const std::string& key, const std::string& value,
                                    int64_t lease) = 0;
};

// Not thread-safe.
class Election {
 public:
  struct Options {
    std::string key;
    std::string value;  // for people who look at the key
    int64_t ttl_seconds = 5;
  };
  Election(Options options, LeaseStore& store) : options_(std::move(options)), store_(store) {}

  // One round; several times within a lease. OK with the epoch under which this process leads, or
  // nullopt if another one does. An error: etcd does not answer, and nothing has changed.
  StatusOr<std::optional<Epoch>> Round();
  // Gives the lead up at once, so that a successor need not wait for the lease's end.
  void Resign();

 private:
  const Options options_;
  LeaseStore& store_;
  std::optional<int64_t> lease_;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_ELECTION_H_
