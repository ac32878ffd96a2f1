// Events and bookkeeping; placing is in placement.cc, draining and scaling in consolidation.cc.

#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "base/strings.h"

namespace aril::scheduler {

Scheduler::Scheduler(const SchedulerOptions& options, Policies policies, Epoch epoch)
    : options_(options),
      policies_(std::move(policies)),
      epoch_(epoch),
      index_(options.headroom_pages, options.max_backlog_tokens),
      prefixes_(options.max_prefix_marks, options.prefix_secret),
      queue_(*policies_.tenants),
      rates_(std::chrono::seconds(1)) {}

Actions Scheduler::Handle(const Event& event, TimePoint now) {
  CHECK(now >= now_);
  now_ = now;
  if (!began_at_) began_at_ = now;
  rates_.Advance(now);
  actions_.clear();
  std::visit([this](const auto& e) { On(e); }, event);
  return std::move(actions_);
}

void Scheduler::On(const wire::Submission& submission) {
  const auto found = records_.find(submission.sequence);
  if (found == records_.end()) {
    Admit(submission);
  } else {
    Update(found->second, submission);
  }
  PlaceWaiting();
}

void Scheduler::Admit(const wire::Submission& submission) {
  rates_.OnArrival(now_);
  // What has had an attempt fits a runner, which may come back.
  const bool fits = max_pages_ == 0 ||  // no runner has been seen yet
                    MaxPages(submission.max_tokens, submission.adapter_pages) <= max_pages_;
  if (submission.attempt == 0 && !fits) {
    const bool is_settled = now_ - *began_at_ >= options_.settle_time;
    return Refuse(submission.sequence, submission.gateway,
                  is_settled ? Duration() : Duration(std::chrono::seconds(1)),
                  FitsNoRunner(submission.max_tokens, submission.adapter_pages));
  }
  // What has started is let in whatever the queue's length: it was let in once. So is what belongs
  // to a request whose first sequence was judged; if that one is refused, its gateway ends them
  // all.
  const int32_t tenant = TenantOf(submission.tenant);
  const size_t num_ahead = queue_.NumAhead(tenant);
  const auto retry = policies_.bound->RetryAfter(num_ahead, rates_);
  if (retry && submission.attempt == 0 && !submission.is_sibling) {
    return Refuse(submission.sequence, submission.gateway, *retry,
                  StrCat("too many requests are waiting (", num_ahead, "); try again later"));
  }
  Record& record = records_[submission.sequence];
  record.sequence = submission.sequence;
  record.gateway = submission.gateway;
  record.adapter = submission.adapter;
  record.adapter_pages = submission.adapter_pages;
  record.failed_on = submission.failed_on;
  record.failed_at = now_;
  record.tenant = tenant;
  record.priority = submission.priority;
  record.num_tokens = submission.num_tokens;
  record.max_tokens = submission.max_tokens;
  record.attempt = submission.attempt;
  record.arrival = submission.arrival;
  record.has_started = submission.num_generated > 0;
  record.numeric_class = submission.numeric_class;
  record.prefix = prefixes_.KeysOf(record.tenant, submission.prefix);
  Enqueue(record);
}

// Its gateway says once more that it waits.
void Scheduler::Update(Record& record, const wire::Submission& submission) {
  if (submission.gateway != record.gateway || submission.attempt < record.attempt) {
    // The placement is under way, or was lost: sent again it does no harm.
    if (record.runner.valid() && !record.is_queued && !record.is_reported &&
        submission.gateway == record.gateway && submission.attempt + 1 == record.attempt) {
      actions_.emplace_back(
          wire::Placement{epoch_, record.sequence, record.gateway, record.attempt, record.runner});
    }
    return;
  }
  // Nothing is new: it keeps its place, how often it was overtaken, and the runner kept for it.
  if (!record.runner.valid() && record.is_queued && submission.attempt == record.attempt) return;
  if (record.runner.valid()) Detach(record);  // that attempt has failed
  if (record.is_queued) Dequeue(record);
  record.tenant = TenantOf(submission.tenant);
  record.attempt = submission.attempt;
  record.failed_on = submission.failed_on;
  record.failed_at = now_;
  record.num_tokens = submission.num_tokens;
  record.max_tokens = submission.max_tokens;
  record.has_started = submission.num_generated > 0;
  record.numeric_class = submission.numeric_class;
  record.prefix = prefixes_.KeysOf(record.tenant, submission.prefix);
  record.num_generated = 0;
  Enqueue(record);
}

int64_t Scheduler::MaxPages(int32_t max_tokens, int64_t adapter_pages) const {
  return options_.pages.For(max_tokens) + adapter_pages;
}

std::string Scheduler::FitsNoRunner(int32_t max_tokens, int64_t adapter_pages) const {
  return StrCat("a sequence of up to ", max_tokens, " tokens and its adapter need ",
                MaxPages(max_tokens, adapter_pages), " pages, and no runner has more than ",
                max_pages_, "; ask for fewer tokens");
}

void Scheduler::ForgetLargest() {
  int64_t largest = 0;
  for (const auto& [id, runner] : runners_) {
    if (!runner.is_lost) largest = std::max(largest, index_.Get(id).info.pages_total);
  }
  // Without any runner it is not known what will come back.
  if (largest == 0 || largest == max_pages_) return smaller_since_.reset();
  if (!smaller_since_) smaller_since_ = now_;
  if (now_ - *smaller_since_ < options_.forget_lost_after) return;
  smaller_since_.reset();
  max_pages_ = largest;
  std::vector<SequenceId> hopeless;
  for (const auto& [id, record] : records_) {
    // Who has tokens goes on waiting: they are not given up.
    if (!record.is_queued || record.runner.valid() || record.has_started) continue;
    if (MaxPages(record.max_tokens, record.adapter_pages) > max_pages_) hopeless.push_back(id);
  }
  std::sort(hopeless.begin(), hopeless.end());
  for (const SequenceId id : hopeless) {
    const Record& record = records_.at(id);
    Refuse(id, record.gateway, Duration(), FitsNoRunner(record.max_tokens, record.adapter_pages));
    Drop(id);
  }
}

void Scheduler::On(const SequenceClosed& event) {
  Drop(event.sequence);
  PlaceWaiting();
}

void Scheduler::On(const GatewayLost& event) {
  std::vector<SequenceId> lost;
  for (const auto& [id, record] : records_) {
    if (record.gateway == event.gateway) lost.push_back(id);
  }
  std::sort(lost.begin(), lost.end());
  for (const SequenceId id : lost) Drop(id);
  PlaceWaiting();
}

void Scheduler::On(const RunnerJoined& event) {
  const RunnerId id = event.info.runner;
  max_pages_ = std::max(max_pages_, event.info.pages_total);
  const auto [it, is_new] = runners_.try_emplace(id);
  Runner& runner = it->second;
  runner.is_lost = false;
  lost_.erase(id);
  if (runner.is_leaving) moving_.insert(id);
  if (is_new) {
    runner.id = id;
    runner.active_since = now_;
    // Nothing is placed there before its first report.
    index_.Add({.info = event.info, .is_accepting = false});
    index_.Update(id, [&](RunnerLoad& load) {
      load.info.max_running = std::min(load.info.max_running, options_.max_runner_sequences);
    });
  }
}

void Scheduler::On(const RunnerLost& event) {
  const auto it = runners_.find(event.runner);
  if (it == runners_.end()) return;
  it->second.is_lost = true;
  it->second.is_draining = false;
  it->second.lost_at = now_;
  lost_.insert(event.runner);
  SetAccepting(it->second);
  for (auto r = reservations_.begin(); r != reservations_.end();) {
    const SequenceId sequence = (r++)->first;
    if (reservations_.at(sequence) == event.runner) Unreserve(sequence);
  }
  moving_.erase(event.runner);
  if (it->second.sequences.empty()) Forget(event.runner);
}

void Scheduler::On(const RunnerLeaving& event) {
  const auto it = runners_.find(event.runner);
  if (it == runners_.end() || it->second.is_lost) return;
  it->second.is_leaving = true;
  moving_.insert(event.runner);
  SetAccepting(it->second);
  MoveAway(it->second);
}

void Scheduler::On(const wire::RunnerReport& report) {
  const auto it = runners_.find(report.runner);
  if (it == runners_.end() || it->second.is_lost) return;
  Runner& runner = it->second;
  if (report.number <= runner.last_report) return;
  runner.last_report = report.number;
  for (const wire::RunnerSequence& sequence : report.sequences) {
    OnReported(runner, sequence, report.number);
  }
  DropUnreported(runner, report.number);
  index_.Update(report.runner,
                [&](RunnerLoad& load) { load.reported_pages = report.available_pages; });
  SetAccepting(runner);
  EmptyLeaving();
  PlaceWaiting();
}

void Scheduler::On(const StepEnded& event) {
  for (const SequenceId id : event.finished) Drop(id);
  On(event.report);
}

void Scheduler::OnReported(Runner& runner, const wire::RunnerSequence& sequence, int64_t number) {
  const auto found = records_.find(sequence.sequence);
  if (found == records_.end()) return Adopt(runner, sequence);
  Record& record = found->second;
  // An attempt that its gateway has given up, or soon will have.
  if (record.attempt > sequence.attempt) return;
  if (record.attempt < sequence.attempt || record.runner != runner.id) {
    // Begun on the word of an earlier scheduler, and this one heard of the sequence from its
    // gateway first.
    if (record.runner.valid()) Detach(record);
    if (record.is_queued) Dequeue(record);
    record.attempt = sequence.attempt;
    record.num_generated = sequence.num_generated;
    Attach(record, runner.id, 0);
  }
  if (record.promised_pages > 0) {
    const int64_t promised = std::exchange(record.promised_pages, 0);
    index_.Update(runner.id, [&](RunnerLoad& load) { load.promised_pages -= promised; });
  }
  record.is_reported = true;
  record.last_report = number;
  record.num_tokens = std::max(record.num_tokens, sequence.num_tokens);
  const bool is_loading = sequence.state == wire::RunnerSequenceState::kLoading;
  if (is_loading) record.placed_at = now_;  // it is not the prefill that takes so long
  const int32_t generated = sequence.num_generated - record.num_generated;
  if (generated > 0) {
    if (record.num_generated == 0) rates_.OnPrefill(now_ - record.placed_at);
    record.num_generated = sequence.num_generated;
    record.has_started = true;
    if (record.tenant != kNoTenant) policies_.tenants->OnOutput(record.tenant, generated);
  }
  SetBacklog(record, record.num_generated > 0 || is_loading ? 0 : BacklogOf(record));
  const bool is_evicted = sequence.state == wire::RunnerSequenceState::kEvicted;
  if (is_evicted == record.is_queued) return;
  if (is_evicted) {
    Enqueue(record);
  } else {
    Dequeue(record);
  }
  index_.Update(runner.id, [&](RunnerLoad& load) { load.num_evicted += is_evicted ? 1 : -1; });
}

// Also of one that is wholly in the cache a token is computed.
int64_t Scheduler::BacklogOf(const Record& record) {
  return std::max<int64_t>(1, record.num_tokens - record.cached_tokens);
}

void Scheduler::SetBacklog(Record& record, int64_t tokens) {
  const int64_t before = std::exchange(record.backlog_tokens, tokens);
  if (before == tokens) return;
  index_.Update(record.runner, [&](RunnerLoad& load) { load.backlog_tokens += tokens - before; });
  TenantLoad& of_tenant = tenant_loads_.at(record.tenant);
  of_tenant.num_prompts += (tokens > 0 ? 1 : 0) - (before > 0 ? 1 : 0);
  of_tenant.backlog_tokens += tokens - before;
}

// Placed by an earlier scheduler.
void Scheduler::Adopt(Runner& runner, const wire::RunnerSequence& sequence) {
  Record& record = records_[sequence.sequence];
  record.sequence = sequence.sequence;
  record.gateway = sequence.gateway;
  record.adapter = sequence.adapter;
  record.adapter_pages = sequence.adapter_pages;
  record.priority = sequence.priority;
  record.attempt = sequence.attempt;
  record.arrival = sequence.arrival;
  record.has_started = true;
  record.placed_at = now_;
  record.num_tokens = sequence.num_tokens;
  record.num_generated = sequence.num_generated;
  Attach(record, runner.id, 0);
  OnReported(runner, sequence, runner.last_report);
}

// What this report does not have has ended there, or the runner let go of it; unless it cannot
// have been there yet.
void Scheduler::DropUnreported(Runner& runner, int64_t number) {
  std::vector<SequenceId> gone;
  for (const auto& [arrival, id] : runner.sequences) {
    const Record& record = records_.at(id);
    const bool is_late = now_ - record.placed_at > options_.start_timeout;
    if (record.is_reported ? record.last_report < number : is_late) gone.push_back(id);
  }
  for (const SequenceId id : gone) Drop(id);
}

int32_t Scheduler::TenantOf(const std::string& name) {
  const auto [it, is_new] = tenants_.try_emplace(name, static_cast<int32_t>(tenants_.size()));
  if (is_new) policies_.tenants->OnNew(it->second, name);
  return it->second;
}

QueueKey Scheduler::KeyOf(const Record& record) const {
  return {.sequence = record.sequence,
          .tenant = record.tenant,
          .priority = record.priority,
          .arrival = record.arrival,
          // Or runs there, perhaps without a token yet: it has given way, and is not to be aborted.
          .has_started = record.has_started || record.runner.valid()};
}

void Scheduler::Enqueue(Record& record) {
  CHECK(!record.is_queued);
  queue_.Add(KeyOf(record));
  record.is_queued = true;
}

void Scheduler::Dequeue(Record& record) {
  queue_.Remove(record.sequence);
  record.is_queued = false;
  record.num_overtaken = 0;
  Unreserve(record.sequence);
}

void Scheduler::Attach(Record& record, RunnerId runner_id, int64_t promised_pages) {
  CHECK(!record.runner.valid());
  Runner& runner = runners_.at(runner_id);
  if (runner.sequences.empty()) runner.active_since = now_;
  runner.sequences.emplace(record.arrival, record.sequence);
  record.runner = runner_id;
  record.promised_pages = promised_pages;
  record.is_reported = false;
  record.cached_tokens = prefixes_.TokensOn(runner_id, record.prefix);
  const wire::RunnerInfo& info = index_.Get(runner_id).info;
  if (options_.prefers_prefixes && info.caches_prefixes) {
    const auto pool_tokens = CheckedMul(info.pages_total, options_.pages.page_tokens);
    prefixes_.Add(runner_id, pool_tokens.value_or(INT64_MAX), record.prefix);
  }
  ++tenant_loads_[record.tenant].num_sequences;
  ++num_placed_;
  index_.Update(runner_id, [&](RunnerLoad& load) {
    ++load.num_sequences;
    load.promised_pages += promised_pages;
    if (record.adapter != kBaseModel) load.Use(record.adapter, record.adapter_pages);
  });
  SetBacklog(record, record.num_generated == 0 ? BacklogOf(record) : 0);
}

// Not any more in its runner's working set.
void Scheduler::Detach(Record& record) {
  SetBacklog(record, 0);
  const RunnerId id = std::exchange(record.runner, RunnerId());
  Runner& runner = runners_.at(id);
  runner.sequences.erase({record.arrival, record.sequence});
  if (runner.sequences.empty()) runner.active_since = now_;
  const auto of_tenant = tenant_loads_.find(record.tenant);
  if (--of_tenant->second.num_sequences == 0) tenant_loads_.erase(of_tenant);
  --num_placed_;
  index_.Update(id, [&](RunnerLoad& load) {
    --load.num_sequences;
    load.promised_pages -= std::exchange(record.promised_pages, 0);
    if (record.is_queued) --load.num_evicted;
    if (record.adapter != kBaseModel) load.Unuse(record.adapter);
  });
  if (runner.is_lost && runner.sequences.empty()) Forget(id);
}

void Scheduler::Forget(RunnerId id) {
  index_.Remove(id);
  prefixes_.Forget(id);
  runners_.erase(id);
  lost_.erase(id);
}

void Scheduler::Drop(SequenceId sequence) {
  const auto found = records_.find(sequence);
  if (found == records_.end()) return;
  Record& record = found->second;
  if (record.runner.valid()) Detach(record);
  if (record.is_queued) Dequeue(record);
  records_.erase(found);
}

// Its gateways have been heard long ago, or what they said was lost.
void Scheduler::ForgetLost() {
  for (const RunnerId id : std::vector<RunnerId>(lost_.begin(), lost_.end())) {
    const Runner& runner = runners_.at(id);
    if (now_ - runner.lost_at < options_.forget_lost_after) continue;
    const auto sequences = runner.sequences;
    for (const auto& [arrival, sequence] : sequences) Drop(sequence);
  }
}

void Scheduler::Unreserve(SequenceId sequence) {
  const auto found = reservations_.find(sequence);
  if (found == reservations_.end()) return;
  index_.Update(found->second, [](RunnerLoad& load) { load.reserved_for = SequenceId(); });
  reservations_.erase(found);
}

void Scheduler::SetAccepting(const Runner& runner) {
  const bool is_accepting =
      !runner.is_lost && !runner.is_leaving && !runner.is_draining && runner.last_report > 0;
  if (index_.Get(runner.id).is_accepting == is_accepting) return;
  index_.Update(runner.id, [&](RunnerLoad& load) { load.is_accepting = is_accepting; });
}

void Scheduler::On(const Tick&) {
  ForgetLost();
  ForgetLargest();
  AbortExpired();
  EmptyLeaving();
  PlaceWaiting();
  Consolidate();
  Advise();
}

}  // namespace aril::scheduler
