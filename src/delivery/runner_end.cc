#include "delivery/runner_end.h"

namespace aril::delivery {

bool RunnerEnd::OnEpoch(Epoch epoch) {
  if (epoch < epoch_) return false;
  epoch_ = epoch;
  return true;
}

RunnerEnd::StartResult RunnerEnd::OnStart(const StartAttempt& start, ConnectionId connection) {
  if (!OnEpoch(start.epoch)) return {StartVerdict::kStaleEpoch, {}};
  const SequenceId id = start.request.sequence;
  const auto found = live_.find(id);
  const bool is_known = found != live_.end();
  if (is_known && found->second.attempt >= start.request.attempt) {
    return {StartVerdict::kStaleAttempt, {}};
  }
  if (is_draining_) return {StartVerdict::kDraining, {}};
  if (!is_known && live_.size() >= max_live_) return {StartVerdict::kFull, {}};
  StartResult result;
  if (is_known) {
    result.superseded.push_back({id, found->second.attempt});
    Forget(id);
  }
  live_[id] = {start.request.attempt, start.gateway, connection};
  by_connection_[connection].insert(id);
  return result;
}

bool RunnerEnd::OnRelease(const ReleaseAttempt& release) {
  const Attempt* const attempt = Find(release.sequence);
  if (attempt == nullptr || attempt->attempt != release.attempt) return false;
  Forget(release.sequence);
  return true;
}

void RunnerEnd::OnFinished(const ReleaseAttempt& attempt) { OnRelease(attempt); }

std::vector<ReleaseAttempt> RunnerEnd::OnConnectionBroken(ConnectionId connection) {
  std::vector<ReleaseAttempt> released;
  const auto found = by_connection_.find(connection);
  if (found == by_connection_.end()) return released;
  for (const SequenceId id : found->second) {
    released.push_back({id, live_.at(id).attempt});
    live_.erase(id);
  }
  by_connection_.erase(found);
  return released;
}

const RunnerEnd::Attempt* RunnerEnd::Find(SequenceId sequence) const {
  const auto found = live_.find(sequence);
  return found == live_.end() ? nullptr : &found->second;
}

void RunnerEnd::Forget(SequenceId sequence) {
  const auto found = live_.find(sequence);
  const auto connection = by_connection_.find(found->second.connection);
  connection->second.erase(sequence);
  if (connection->second.empty()) by_connection_.erase(connection);
  live_.erase(found);
}

}  // namespace aril::delivery
