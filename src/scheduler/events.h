// What the scheduler is told, and what it wants done.

#ifndef ARIL_SCHEDULER_EVENTS_H_
#define ARIL_SCHEDULER_EVENTS_H_

#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "wire/cluster.h"

namespace aril::scheduler {

// The gateway is done with a sequence: finished, cancelled by its client, or failed for good.
struct SequenceClosed {
  SequenceId sequence;
};
// A gateway's process has ended; its sequences are void.
struct GatewayLost {
  GatewayId gateway;
};
// A runner is there, or there again after its connection broke. Its report follows.
struct RunnerJoined {
  wire::RunnerInfo info;
};
// Nothing is heard of a runner. Its sequences may go on all the same: it is for their gateways to
// say (by a Submission) that they do not.
struct RunnerLost {
  RunnerId runner;
};
// A runner is to end (an operator's order, SIGTERM): everything is to move away from it.
struct RunnerLeaving {
  RunnerId runner;
};
// A runner in the same process has made a step. Its sequences that ended are gone before anybody is
// placed by its report, which does not have them any more.
struct StepEnded {
  wire::RunnerReport report;
  std::vector<SequenceId> finished;
};
// Comes regularly, several times a second.
struct Tick {};

using Event = std::variant<wire::Submission, SequenceClosed, GatewayLost, RunnerJoined,
                           wire::RunnerReport, RunnerLost, RunnerLeaving, StepEnded, Tick>;

// Not to be placed: never (too large: `retry_after` is zero) or not now.
struct Refuse {
  SequenceId sequence;
  GatewayId gateway;
  Duration retry_after{};
  std::string reason;
};
// A sequence that waits will probably run there: what its adapter lacks can be fetched until then.
struct Prefetch {
  SequenceId sequence;
  GatewayId gateway;
  RunnerId runner;
};
// For whoever starts and ends runners. Sent when it changes.
struct ScaleAdvice {
  int64_t num_wanted = 0;            // runners to add; 0: enough are there
  std::vector<RunnerId> returnable;  // idle for a while, beyond the reserve

  bool operator==(const ScaleAdvice&) const = default;
};

using Action = std::variant<wire::Placement, Refuse, Prefetch, ScaleAdvice>;
using Actions = std::vector<Action>;

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_EVENTS_H_
