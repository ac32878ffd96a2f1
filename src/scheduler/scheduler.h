// Decides which runner runs which sequence: a pure state machine, (state, event, now) -> (state,
// actions). No clock, socket, thread or global state: the same code runs behind function calls,
// gRPC and the simulator.
//
// The scheduler holds counts and hashes, never tokens, and nothing that it must not lose: a
// successor under a higher epoch learns the counts from the runners' reports and the gateways'
// repeated submissions, and begins anew with the hashes. It commands nobody but gateways: a
// migration is a placement of a sequence that runs elsewhere, and the gateway, which begins the new
// attempt with the tokens that it has accepted, releases the old one. So decisions may rest on old
// news and be wrong, late, repeated or lost; then work is wasted or delayed, never a token. See
// docs/decisions/015-who-places-a-sequence.md.

#ifndef ARIL_SCHEDULER_SCHEDULER_H_
#define ARIL_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/sequence_pages.h"
#include "scheduler/admission.h"
#include "scheduler/events.h"
#include "scheduler/policies.h"
#include "scheduler/prefix_index.h"
#include "scheduler/runner_index.h"
#include "scheduler/step_curve.h"
#include "scheduler/wait_queue.h"

namespace aril::scheduler {

struct SchedulerOptions {
  SequencePages pages;
  int64_t headroom_pages = 1;  // per running sequence
  // A runner whose sequences have more tokens than this to compute before their first one takes
  // nobody else: prompts go where they are computed sooner, an idle runner included, or wait until
  // it is known where that is.
  int64_t max_backlog_tokens = 8192;
  // As soon as a second tenant is known, one that has its even part of all seats, or more, is given
  // nothing more while no more seats than these are free: they are for the others. Nor is one that
  // has so many sequences placed without a token, which have more than so many tokens.
  int64_t spare_seats = 0;
  int64_t max_tenant_prompts = 0;
  int64_t max_tenant_backlog_tokens = INT64_MAX;
  // The largest working set: it bounds the scheduler's work on a report.
  int64_t max_runner_sequences = 4096;
  // How many of the queue are tried when its first fits nowhere, and how often one may be overtaken
  // before a runner is kept free for it.
  size_t scan_limit = 32;
  int32_t max_overtakes = 64;
  // A placement that no report shows after this is taken to be lost; its gateway will say.
  Duration start_timeout = std::chrono::seconds(5);
  // A sequence whose attempt failed on a runner is placed there again, rather than nowhere, after
  // this: its gateway may have no connection to it.
  Duration retry_failed_after = std::chrono::seconds(1);
  // A reign does not say of any request that it fits no runner before the runners have had this
  // long to come.
  Duration settle_time = std::chrono::seconds(5);
  size_t max_prefetches = 2;  // at a time
  // Sequences go where most of their prompts has probably been computed, if there is room; what is
  // known for that, over all runners; and a random number (PrefixIndex).
  bool prefers_prefixes = true;
  size_t max_prefix_marks = size_t{1} << 20;
  uint64_t prefix_secret = 0;
  // What a lost runner ran is forgotten after this (should it come back, its report tells), and
  // what fits that one alone is refused.
  Duration forget_lost_after = std::chrono::seconds(30);

  // Consolidation. The end of the flat part of the step-time curve (StepCurve::FlatBatch): runners
  // are filled up to it by draining others; 0: no consolidation.
  int64_t flat_batch = 0;
  // Seats below flat_batch that must stay free after a drain, so that the next arrivals do not open
  // the runner again at once; and for how long a runner is left alone after its first sequence.
  int64_t drain_margin = 8;
  Duration min_active = std::chrono::seconds(10);
  int64_t migrations_per_tick = 2;
  // Scaling: idle runners kept in reserve, and how long others idle before they are offered back.
  int64_t num_reserve = 1;
  Duration idle_before_return = std::chrono::seconds(60);
};

struct SchedulerStats {
  int64_t placements = 0;      // migrations and resumptions included
  int64_t migrations = 0;      // from a runner that ran it
  int64_t consolidations = 0;  // of them, from runners being drained
  int64_t drains = 0;          // runners whose draining began
  int64_t refusals = 0;
  int64_t aborts = 0;
  int64_t reservations = 0;
  // Of the placements, those where some of the prompt had probably been computed; and how much.
  int64_t prefix_placements = 0;
  int64_t prefix_tokens = 0;
};

// Not thread-safe.
class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, Policies policies, Epoch epoch);

  // `now` must not fall. The time taken is logarithmic in the number of runners and of waiting
  // sequences, and linear in the batch limit and scan_limit for each placement made.
  Actions Handle(const Event& event, TimePoint now);

  Epoch epoch() const { return epoch_; }
  size_t num_waiting() const { return queue_.size(); }
  size_t num_sequences() const { return records_.size(); }
  const RunnerIndex& runners() const { return index_; }
  const SchedulerStats& stats() const { return stats_; }

 private:
  // What is known of a live sequence.
  struct Record {
    SequenceId sequence;
    GatewayId gateway;
    AdapterId adapter;
    RunnerId runner;  // that runs it, or will; invalid: none
    RunnerId failed_on;
    TimePoint failed_at;
    int32_t tenant = kNoTenant;
    int32_t priority = 0;
    int32_t num_tokens = 0;
    int32_t max_tokens = 0;     // that it may come to; 0: adopted, its gateway has not said yet
    int32_t num_generated = 0;  // in this attempt, as charged to the tenant
    int32_t num_overtaken = 0;
    uint32_t attempt = 0;  // the latest known, begun or placed
    int64_t adapter_pages = 0;
    int64_t promised_pages = 0;  // on `runner`, until a report shows it there
    int64_t backlog_tokens = 0;  // on `runner`, until a report shows a token
    int64_t cached_tokens = 0;   // that `runner` probably had when it was placed there
    int64_t last_report = 0;
    TimePoint arrival;
    TimePoint placed_at;
    bool has_started = false;  // its client has had tokens
    bool is_queued = false;    // with a runner: evicted there
    bool is_reported = false;  // by `runner`, in this attempt
    bool is_prefetched = false;
    std::string numeric_class;
    std::vector<wire::PrefixMark> prefix;  // as PrefixIndex::KeysOf has them
  };
  // A runner's side of the records.
  struct Runner {
    int64_t last_report = 0;
    bool is_lost = false;
    bool is_leaving = false;
    bool is_draining = false;  // for consolidation
    TimePoint active_since;    // since when it has sequences, or is idle
    TimePoint lost_at;
    RunnerId id;
    std::set<std::pair<TimePoint, SequenceId>> sequences;  // by arrival
  };

  // Of a tenant's records with a runner.
  struct TenantLoad {
    int64_t num_sequences = 0;
    int64_t num_prompts = 0;     // of them, without a token yet
    int64_t backlog_tokens = 0;  // of these
  };

  static constexpr int32_t kNoTenant = -1;  // adopted, its gateway has not said yet

  void On(const wire::Submission& submission);
  void On(const SequenceClosed& event);
  void On(const GatewayLost& event);
  void On(const RunnerJoined& event);
  void On(const wire::RunnerReport& report);
  void On(const RunnerLost& event);
  void On(const RunnerLeaving& event);
  void On(const StepEnded& event);
  void On(const Tick& tick);

  void Admit(const wire::Submission& submission);
  void Update(Record& record, const wire::Submission& submission);
  // The pages of a sequence that has all its tokens, and of its adapter.
  int64_t MaxPages(int32_t max_tokens, int64_t adapter_pages) const;
  std::string FitsNoRunner(int32_t max_tokens, int64_t adapter_pages) const;
  // What fits none of the runners that are left has waited for one that may come back.
  void ForgetLargest();
  void OnReported(Runner& runner, const wire::RunnerSequence& sequence, int64_t number);
  void Adopt(Runner& runner, const wire::RunnerSequence& sequence);
  void DropUnreported(Runner& runner, int64_t number);

  int32_t TenantOf(const std::string& name);
  QueueKey KeyOf(const Record& record) const;
  void Enqueue(Record& record);
  void Dequeue(Record& record);
  void Attach(Record& record, RunnerId runner, int64_t promised_pages);
  void Detach(Record& record);
  void Drop(SequenceId sequence);
  void Forget(RunnerId id);
  void ForgetLost();
  void Unreserve(SequenceId sequence);
  void SetAccepting(const Runner& runner);

  // Of an attached record, on its runner and of its tenant.
  void SetBacklog(Record& record, int64_t tokens);
  // Of one without a token yet.
  static int64_t BacklogOf(const Record& record);
  bool HasItsShare(const Record& record) const;
  PlacementNeed NeedOf(const Record& record) const;
  std::optional<RunnerId> FindRunner(const Record& record, const AdapterLimit& limit) const;
  // Rather than on `otherwise`.
  RunnerId FindWithPrefix(const Record& record, PlacementNeed need, RunnerId otherwise) const;
  void PlaceWaiting();
  void PlaceReserved();
  bool PlaceOne(const std::vector<SequenceId>& heads, const AdapterLimit& limit);
  void Overtake(const std::vector<SequenceId>& heads, SequenceId placed);
  void Place(Record& record, RunnerId runner);
  void Refuse(SequenceId sequence, GatewayId gateway, Duration retry_after,
              const std::string& reason);
  void PrefetchForWaiting();
  std::optional<RunnerId> LikelyRunner(SequenceId sequence) const;
  void AbortExpired();

  // What has to move goes before what waits: its client has tokens already. With every report that
  // may have made room, and not at ticks alone, or those that wait would always be there first.
  void EmptyLeaving();
  void Consolidate();
  std::optional<RunnerId> FindLightlyLoaded() const;
  PlacementNeed NeedOfDrained(const Record& record) const;
  bool FitsElsewhere(const Runner& runner) const;
  void MoveAway(Runner& runner);
  void Advise();

  const SchedulerOptions options_;
  const Policies policies_;
  const Epoch epoch_;
  TimePoint now_;
  std::optional<TimePoint> began_at_;
  Actions actions_;  // of the event at hand

  RunnerIndex index_;
  PrefixIndex prefixes_;
  RunnerId last_prefetch_;  // for whom
  WaitQueue queue_;
  QueueRates rates_;
  std::unordered_map<SequenceId, Record> records_;
  std::unordered_map<RunnerId, Runner> runners_;
  std::map<SequenceId, RunnerId> reservations_;
  std::unordered_map<std::string, int32_t> tenants_;
  std::unordered_map<int32_t, TenantLoad> tenant_loads_;  // of those that have any
  int64_t num_placed_ = 0;                                // records with a runner
  std::set<RunnerId> moving_;                             // being drained or leaving
  std::set<RunnerId> lost_;
  int64_t max_pages_ = 0;                   // of the largest runner, which may be back soon
  std::optional<TimePoint> smaller_since_;  // since when all that are there are smaller
  ScaleAdvice advice_;
  SchedulerStats stats_;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_SCHEDULER_H_
