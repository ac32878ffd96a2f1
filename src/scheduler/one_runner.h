// The scheduler of a server whose gateway and runner are one process: the same decisions about who
// waits and who is next, without places to choose from.

#ifndef ARIL_SCHEDULER_ONE_RUNNER_H_
#define ARIL_SCHEDULER_ONE_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "base/clock.h"
#include "base/ids.h"
#include "scheduler/scheduler.h"
#include "wire/admission.h"

namespace aril::scheduler {

struct OneRunnerOptions {
  int64_t max_running = 32;  // sequences in a batch
  int64_t max_rows = 512;    // of a step; only fair share asks
  int64_t pages_total = 0;
  SequencePages pages;
  PolicyOptions policies;
};

// A sequence begins when the runner has a seat and the pages for its tokens and adapters; those of
// cached prefixes are counted as if they were not there. Under fair share, once a second tenant has
// come, a sixteenth of the seats (one at least, of eight or more) is kept for tenants that have
// less than their even part of them, and a tenant begins no more while prompts of its that are not
// computed yet have a quarter of the seats (two at least) and fill more than two steps. Used by one
// thread at a time.
class OneRunner final : public wire::AdmissionControl {
 public:
  // The runner may have this many waiting, so that it loads their adapters before it is their turn;
  // but none under early abort and fair share, which are to decide about all that have no seat.
  static constexpr int64_t kLookahead = 2;

  OneRunner(const OneRunnerOptions& options, TimePoint now);

  Decisions OnSubmitted(const wire::SequenceRequest& request, int64_t adapter_pages,
                        TimePoint now) override;
  Decisions OnClosed(SequenceId sequence, TimePoint now) override;
  Decisions OnStep(const wire::StepStats& stats, std::span<const SequenceId> finished,
                   TimePoint now) override;

 private:
  // What the runner's statistics do not tell of a sequence.
  struct Known {
    AdapterId adapter;
    int64_t adapter_pages = 0;
    uint32_t attempt = 0;      // 0: it waits
    int32_t num_at_start = 0;  // tokens
    TimePoint arrival;
  };

  void Forget(SequenceId sequence);
  wire::RunnerReport MakeReport(const wire::StepStats& stats);
  Decisions Take(const Actions& actions);

  const OneRunnerOptions options_;
  Scheduler scheduler_;
  std::unordered_map<SequenceId, Known> known_;  // waiting or begun
  size_t num_begun_ = 0;                         // of them
  int64_t num_reports_ = 0;
  TimePoint last_tick_;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_ONE_RUNNER_H_
