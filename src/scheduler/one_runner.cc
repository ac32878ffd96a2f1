#include "scheduler/one_runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "base/retry_after.h"

namespace aril::scheduler {
namespace {

const RunnerId kRunner(0);
const GatewayId kOwnGateway(0);

// Waiting too long is noticed by then.
constexpr Duration kTickInterval = std::chrono::milliseconds(50);

int64_t MostBegun(const OneRunnerOptions& options) {
  const bool decides_late = options.policies.aborts_early || options.policies.is_fair;
  return options.max_running + (decides_late ? 0 : OneRunner::kLookahead);
}

int64_t SpareSeats(int64_t seats) { return seats < 8 ? 0 : std::max<int64_t>(1, seats / 16); }

SchedulerOptions MakeOptions(const OneRunnerOptions& options) {
  SchedulerOptions scheduler;
  scheduler.pages = options.pages;
  scheduler.max_runner_sequences = MostBegun(options);
  // Nothing is lost within a process, and the runner is there from the start.
  scheduler.start_timeout = std::chrono::hours(24);
  scheduler.settle_time = Duration(0);
  scheduler.max_backlog_tokens = INT64_MAX;  // there is nowhere else to go
  if (options.policies.is_fair) {
    scheduler.spare_seats = SpareSeats(options.max_running);
    // Enough for every step to be full, also if one of the prompts ends at the beginning of it.
    scheduler.max_tenant_prompts = std::max<int64_t>(2, options.max_running / 4);
    scheduler.max_tenant_backlog_tokens = 2 * options.max_rows;
  }
  return scheduler;
}

}  // namespace

OneRunner::OneRunner(const OneRunnerOptions& options, TimePoint now)
    : options_(options),
      scheduler_(MakeOptions(options), MakePolicies(options.policies), Epoch(1)),
      last_tick_(now) {
  scheduler_.Handle(RunnerJoined{{.runner = kRunner,
                                  .max_running = MostBegun(options),
                                  .pages_total = options.pages_total}},
                    now);
  OnStep({}, {}, now);
}

OneRunner::Decisions OneRunner::OnSubmitted(const wire::SequenceRequest& request,
                                            int64_t adapter_pages, TimePoint now) {
  const AdapterId adapter = request.adapters.empty() ? kBaseModel : request.adapters.front().id;
  const auto num_prompt = static_cast<int32_t>(request.prompt.size());
  const auto num_output = static_cast<int32_t>(request.output.size());
  const auto [it, is_new] =
      known_.try_emplace(request.sequence, Known{.adapter = adapter,
                                                 .adapter_pages = adapter_pages,
                                                 .num_at_start = num_prompt + num_output,
                                                 .arrival = request.arrival});
  CHECK(is_new);
  wire::Submission submission;
  submission.sequence = request.sequence;
  submission.gateway = kOwnGateway;
  submission.tenant = request.tenant;
  submission.adapter = adapter;
  submission.adapter_pages = adapter_pages;
  submission.num_tokens = it->second.num_at_start;
  submission.num_generated = num_output;
  submission.max_tokens = num_prompt + request.max_tokens;
  submission.priority = request.priority;
  submission.arrival = request.arrival;
  submission.is_sibling = request.is_sibling;
  return Take(scheduler_.Handle(submission, now));
}

OneRunner::Decisions OneRunner::OnClosed(SequenceId sequence, TimePoint now) {
  Forget(sequence);
  return Take(scheduler_.Handle(SequenceClosed{sequence}, now));
}

OneRunner::Decisions OneRunner::OnStep(const wire::StepStats& stats,
                                       std::span<const SequenceId> finished, TimePoint now) {
  for (const SequenceId id : finished) Forget(id);
  Decisions decisions;
  const auto tell = [&](const Event& event) {
    Decisions more = Take(scheduler_.Handle(event, now));
    decisions.begin.insert(decisions.begin.end(), more.begin.begin(), more.begin.end());
    decisions.refuse.insert(decisions.refuse.end(), more.refuse.begin(), more.refuse.end());
  };
  tell(StepEnded{MakeReport(stats), {finished.begin(), finished.end()}});
  // Who is accepted fits an idle runner, whatever is pinned there.
  if (num_begun_ == 0) {
    wire::RunnerReport idle = MakeReport(stats);
    idle.available_pages = options_.pages_total;
    tell(idle);
  }
  if (now - last_tick_ >= kTickInterval) {
    last_tick_ = now;
    tell(Tick{});
  }
  return decisions;
}

void OneRunner::Forget(SequenceId sequence) {
  const auto found = known_.find(sequence);
  if (found == known_.end()) return;
  if (found->second.attempt > 0) --num_begun_;
  known_.erase(found);
}

wire::RunnerReport OneRunner::MakeReport(const wire::StepStats& stats) {
  wire::RunnerReport report;
  report.runner = kRunner;
  report.number = ++num_reports_;
  report.available_pages = stats.pages_available;
  for (const wire::SequenceState& state : stats.sequences) {
    const auto found = known_.find(state.sequence);
    if (found == known_.end()) continue;
    const Known& known = found->second;
    using State = wire::RunnerSequenceState;
    const State waiting = state.has_started ? State::kEvicted : State::kPending;
    report.sequences.push_back({.sequence = state.sequence,
                                .gateway = kOwnGateway,
                                .attempt = known.attempt,
                                .state = state.is_running ? State::kRunning : waiting,
                                .adapter = known.adapter,
                                .adapter_pages = known.adapter_pages,
                                .num_tokens = state.num_tokens,
                                .num_generated = state.num_tokens - known.num_at_start,
                                .arrival = known.arrival});
    if (report.sequences.back().state == State::kPending) {
      report.available_pages -= options_.pages.For(state.num_tokens);
    }
  }
  return report;
}

OneRunner::Decisions OneRunner::Take(const Actions& actions) {
  Decisions decisions;
  for (const Action& action : actions) {
    if (const auto* const placement = std::get_if<wire::Placement>(&action)) {
      Known& known = known_.at(placement->sequence);
      CHECK_EQ(known.attempt, uint32_t{0});
      known.attempt = placement->attempt;
      ++num_begun_;
      decisions.begin.push_back(placement->sequence);
    } else if (const auto* const refuse = std::get_if<Refuse>(&action)) {
      const bool is_for_good = refuse->retry_after == Duration(0);
      known_.erase(refuse->sequence);
      decisions.refuse.emplace_back(
          refuse->sequence, is_for_good
                                ? InvalidArgument(refuse->reason)
                                : WithRetryAfter(Unavailable(refuse->reason), refuse->retry_after));
    }
  }
  return decisions;
}

}  // namespace aril::scheduler
