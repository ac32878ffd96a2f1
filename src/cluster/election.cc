#include "cluster/election.h"

#include <utility>

namespace aril::cluster {

StatusOr<std::optional<Epoch>> Election::Round() {
  if (lease_) {
    ASSIGN_OR_RETURN(const bool is_alive, store_.KeepAlive(*lease_));
    if (!is_alive) lease_.reset();
  }
  if (!lease_) {
    ASSIGN_OR_RETURN(lease_, store_.Grant(options_.ttl_seconds));
  }
  const auto found = store_.CreateOrGet(options_.key, options_.value, *lease_);
  // The lease has ended since; etcd 3.4 may even have renewed one that it had revoked.
  if (found.status().code() == StatusCode::kNotFound) lease_.reset();
  ASSIGN_OR_RETURN(const LeaseStore::Key leader, found);
  if (leader.lease != *lease_) return std::optional<Epoch>();
  return std::optional<Epoch>(leader.create_revision);
}

void Election::Resign() {
  if (!lease_) return;
  // If it fails, the lease ends by itself.
  store_.Revoke(*std::exchange(lease_, std::nullopt)).IgnoreError();
}

}  // namespace aril::cluster
