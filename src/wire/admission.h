// Who of the sequences that a runner has accepted is next.

#ifndef ARIL_WIRE_ADMISSION_H_
#define ARIL_WIRE_ADMISSION_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "wire/messages.h"

namespace aril::wire {

// Decides in which order accepted sequences join a runner's batch, and which of them are turned
// away while they wait. Used by one thread at a time.
class AdmissionControl {
 public:
  struct Decisions {
    std::vector<SequenceId> begin;  // in this order
    // Unavailable says when to try again. They do not wait any more.
    std::vector<std::pair<SequenceId, Status>> refuse;
  };

  virtual ~AdmissionControl() = default;
  // It waits from now on, unless the decisions are about it. `adapter_pages` of the pool are its
  // adapters'.
  virtual Decisions OnSubmitted(const SequenceRequest& request, int64_t adapter_pages,
                                TimePoint now) = 0;
  // Cancelled before it began.
  virtual Decisions OnClosed(SequenceId sequence, TimePoint now) = 0;
  // After every step, with those that it has finished. The statistics must list the sequences that
  // have begun. If none has, somebody begins, as long as anybody waits.
  virtual Decisions OnStep(const StepStats& stats, std::span<const SequenceId> finished,
                           TimePoint now) = 0;
};

}  // namespace aril::wire

#endif  // ARIL_WIRE_ADMISSION_H_
