// etcd's leases and keys over its gRPC API (https://etcd.io/docs/v3.4/learning/api/).

#ifndef ARIL_CLUSTER_ETCD_STORE_H_
#define ARIL_CLUSTER_ETCD_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/election.h"
#include "cluster/grpc_links.h"
#include "cluster/key_value_store.h"

namespace aril::cluster {

// Used by one thread.
class EtcdStore final : public LeaseStore, public KeyValueStore {
 public:
  struct Options {
    std::vector<std::string> endpoints;          // "HOST:PORT" of the members; tried in turn
    TlsFiles tls;                                // not set: without TLS
    bool allows_insecure = false;                // without TLS beyond this machine, too
    Duration timeout = std::chrono::seconds(1);  // of one call at one member
  };
  // InvalidArgument says what is wrong with an address or a file. Connects with the first call.
  static StatusOr<std::unique_ptr<EtcdStore>> Create(const Options& options);
  ~EtcdStore() override;

  StatusOr<int64_t> Grant(int64_t ttl_seconds) override;
  StatusOr<bool> KeepAlive(int64_t lease) override;
  Status Revoke(int64_t lease) override;
  StatusOr<Key> CreateOrGet(const std::string& key, const std::string& value,
                            int64_t lease) override;
  StatusOr<Listing> List(const std::string& prefix, int64_t after) override;
  StatusOr<std::optional<int64_t>> Commit(const std::vector<Condition>& conditions,
                                          const std::vector<Write>& writes) override;

 private:
  class Impl;
  explicit EtcdStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_ETCD_STORE_H_
