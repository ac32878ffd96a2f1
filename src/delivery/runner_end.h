// The runner's end: which attempts it may run, for whom, and on whose word.
//
// Commands of an older epoch than the highest heard of are refused, and of one sequence only the
// latest attempt runs. A gateway whose connection breaks has given up the attempts that came over
// it (GatewayEnd::OnRunnerBroken), so they are released; a gateway that only falls silent breaks
// its connection by the transport's keep-alive.
//
// A pure state machine; the engine is behind whoever calls it.

#ifndef ARIL_DELIVERY_RUNNER_END_H_
#define ARIL_DELIVERY_RUNNER_END_H_

#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "delivery/messages.h"

namespace aril::delivery {

// One life of a connection from a gateway; never used again.
using ConnectionId = StrongId<struct ConnectionTag, int64_t>;

enum class StartVerdict {
  kAccepted,
  kStaleEpoch,
  kStaleAttempt,  // a later one, or this one, runs already
  kFull,
  kDraining,
};

// Not thread-safe.
class RunnerEnd {
 public:
  // Refuses more than `max_live` at a time.
  explicit RunnerEnd(size_t max_live) : max_live_(max_live) {}

  // A scheduler of this epoch has been heard of. False if it is of the past: it must not be obeyed.
  bool OnEpoch(Epoch epoch);
  Epoch epoch() const { return epoch_; }
  // The lease is lost, or the process is to end: takes no new attempts, finishes those it has.
  void SetDraining(bool is_draining) { is_draining_ = is_draining; }

  struct StartResult {
    StartVerdict verdict = StartVerdict::kAccepted;
    // An older attempt of the sequence, which the engine must drop first.
    std::vector<ReleaseAttempt> superseded;
  };
  StartResult OnStart(const StartAttempt& start, ConnectionId connection);
  // True if it runs here: the engine must drop it.
  bool OnRelease(const ReleaseAttempt& release);
  // The engine must drop these.
  std::vector<ReleaseAttempt> OnConnectionBroken(ConnectionId connection);
  // The engine has ended it. Unknown: no effect.
  void OnFinished(const ReleaseAttempt& attempt);

  struct Attempt {
    uint32_t attempt = 0;
    GatewayId gateway;
    ConnectionId connection;
  };
  // nullptr if none runs. Valid until the next change.
  const Attempt* Find(SequenceId sequence) const;
  size_t num_live() const { return live_.size(); }

 private:
  void Forget(SequenceId sequence);

  const size_t max_live_;
  Epoch epoch_;
  bool is_draining_ = false;
  std::unordered_map<SequenceId, Attempt> live_;
  std::map<ConnectionId, std::set<SequenceId>> by_connection_;
};

}  // namespace aril::delivery

#endif  // ARIL_DELIVERY_RUNNER_END_H_
