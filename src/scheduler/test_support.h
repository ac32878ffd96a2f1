// A scheduler with runners that do as they are told, driven by hand.

#ifndef ARIL_SCHEDULER_TEST_SUPPORT_H_
#define ARIL_SCHEDULER_TEST_SUPPORT_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "scheduler/scheduler.h"

namespace aril::scheduler {

inline const GatewayId kGateway(0);

// The actions of one kind.
template <typename T>
std::vector<T> Of(const Actions& actions) {
  std::vector<T> found;
  for (const Action& action : actions) {
    if (const auto* a = std::get_if<T>(&action)) found.push_back(*a);
  }
  return found;
}

// Runners whose sequences take pages by their tokens and neither grow nor end by themselves.
class TestCluster {
 public:
  explicit TestCluster(SchedulerOptions options = {}, Policies policies = {}, int64_t epoch = 1)
      : scheduler(options, std::move(policies), Epoch(epoch)),
        page_tokens_(options.pages.page_tokens) {}

  Actions Do(const Event& event) {
    Actions actions = scheduler.Handle(event, now);
    for (const Action& action : actions) {
      if (const auto* placement = std::get_if<wire::Placement>(&action)) Obey(*placement);
    }
    return actions;
  }
  void Advance(Duration by) { now += by; }

  void Join(int32_t id, int64_t pages = 100, int64_t max_running = 8,
            const std::string& numeric_class = "a") {
    runners[RunnerId(id)].info = {RunnerId(id), numeric_class, max_running, pages};
    Do(RunnerJoined{runners[RunnerId(id)].info});
    Report(id);
  }

  wire::Submission Make(int64_t id, int32_t num_tokens = 16, int32_t adapter = -1,
                        int64_t adapter_pages = 0) {
    wire::Submission submission;
    submission.sequence = SequenceId(id);
    submission.gateway = kGateway;
    submission.adapter = AdapterId(adapter);
    submission.adapter_pages = adapter_pages;
    submission.num_tokens = num_tokens;
    submission.max_tokens = num_tokens + 1;
    submission.arrival = now;
    return submission;
  }
  Actions Submit(const wire::Submission& submission) {
    submissions[submission.sequence] = submission;
    return Do(submission);
  }
  Actions Submit(int64_t id, int32_t num_tokens = 16, int32_t adapter = -1,
                 int64_t adapter_pages = 0) {
    return Submit(Make(id, num_tokens, adapter, adapter_pages));
  }

  // The runner's state as it is now.
  Actions Report(int32_t id) {
    Runner& runner = runners.at(RunnerId(id));
    wire::RunnerReport report{RunnerId(id), ++runner.number, runner.info.pages_total, {}};
    std::map<AdapterId, int64_t> adapters;
    for (const auto& [sequence, state] : runner.sequences) {
      const wire::Submission& s = submissions.at(sequence);
      report.sequences.push_back({.sequence = sequence,
                                  .gateway = s.gateway,
                                  .attempt = state.attempt,
                                  .state = state.state,
                                  .adapter = s.adapter,
                                  .adapter_pages = s.adapter_pages,
                                  .num_tokens = s.num_tokens + state.num_generated,
                                  .num_generated = state.num_generated,
                                  .arrival = s.arrival});
      if (state.state != wire::RunnerSequenceState::kRunning) continue;
      report.available_pages -=
          (s.num_tokens + state.num_generated + page_tokens_ - 1) / page_tokens_;
      adapters[s.adapter] = s.adapter_pages;
    }
    for (const auto& [adapter, pages] : adapters) report.available_pages -= pages;
    return Do(report);
  }
  void ReportAll() {
    for (const auto& [id, runner] : runners) Report(id.value());
  }
  // A sequence ends.
  void End(int64_t id) {
    for (auto& [runner_id, runner] : runners) runner.sequences.erase(SequenceId(id));
    Do(SequenceClosed{SequenceId(id)});
  }
  // Where it runs; the invalid id: nowhere.
  RunnerId Where(int64_t id) const {
    for (const auto& [runner_id, runner] : runners) {
      if (runner.sequences.contains(SequenceId(id))) return runner_id;
    }
    return RunnerId();
  }
  size_t Count(int32_t id) const { return runners.at(RunnerId(id)).sequences.size(); }

  struct Sequence {
    uint32_t attempt = 0;
    wire::RunnerSequenceState state = wire::RunnerSequenceState::kRunning;
    int32_t num_generated = 0;
  };
  struct Runner {
    wire::RunnerInfo info;
    int64_t number = 0;
    std::map<SequenceId, Sequence> sequences;
  };

  Scheduler scheduler;
  TimePoint now{std::chrono::seconds(1)};
  std::map<RunnerId, Runner> runners;
  std::map<SequenceId, wire::Submission> submissions;

 private:
  void Obey(const wire::Placement& placement) {
    for (auto& [id, runner] : runners) runner.sequences.erase(placement.sequence);
    runners.at(placement.runner).sequences[placement.sequence] = {.attempt = placement.attempt};
  }

  const int64_t page_tokens_;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_TEST_SUPPORT_H_
