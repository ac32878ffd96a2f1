// The two interfaces between a gateway and whatever runs sequences for it: an in-process runner, or
// a cluster.

#ifndef ARIL_WIRE_PORTS_H_
#define ARIL_WIRE_PORTS_H_

#include <span>

#include "wire/messages.h"

namespace aril::wire {

// Receives what happened. Called from the runner's thread, once at the start and then once per
// step: must return quickly and must not call back into the runner.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void OnStep(const StepStats& stats, std::vector<TokenEvent> events) = 0;
};

// Accepts sequences. Thread-safe.
class SequencePort {
 public:
  virtual ~SequencePort() = default;
  // Queues a sequence. Afterwards the sink gets its events, ending with exactly one that has
  // `finish`. Errors: ResourceExhausted when the queue is full; Unavailable when shutting down;
  // InvalidArgument when the sequence can never run here (a prompt longer than the context or the
  // pool, …). On an error there are no events.
  virtual Status Submit(SequenceRequest request) = 0;
  // Ends a sequence at the next step boundary (finish = kCancelled). Unknown or finished: no
  // effect.
  virtual void Cancel(SequenceId sequence) = 0;
  // Why no sequence can be begun at present, for whoever balances load; OK if one can.
  virtual Status Readiness() const { return OkStatus(); }
};

}  // namespace aril::wire

#endif  // ARIL_WIRE_PORTS_H_
