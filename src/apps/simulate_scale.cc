#include "apps/simulate_scale.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "apps/output_file.h"
#include "apps/text_table.h"
#include "base/json.h"
#include "base/mix64.h"
#include "base/strings.h"
#include "scheduler/scheduler.h"
#include "simulate/random.h"

namespace aril {
namespace {

constexpr int64_t kSeats = 32;
constexpr int64_t kPages = 7680;
constexpr int64_t kPageTokens = 16;
constexpr double kFill = 0.9;

struct Sequence {
  wire::Submission submission;
  RunnerId runner;
  uint32_t attempt = 0;
  size_t position = 0;  // in its runner's list
};

struct Costs {
  int64_t num_runners = 0;
  int64_t num_live = 0;
  double bytes_per_live = 0;
  std::vector<double> submit_us, close_us, report_us;  // ascending
  int64_t num_waited = 0;
};

double Percentile(const std::vector<double>& ascending, double p) {
  if (ascending.empty()) return 0;
  return ascending[static_cast<size_t>(p * static_cast<double>(ascending.size() - 1))];
}

// Runners that only remember what they were given.
class ScaleRun {
 public:
  ScaleRun(const SimulateScaleOptions& options, int64_t num_runners, const Clock& clock)
      : options_(options),
        clock_(clock),
        random_(options.seed),
        scheduler_(scheduler::SchedulerOptions{}, MakePolicies(), Epoch(1)),
        runners_(static_cast<size_t>(num_runners)),
        numbers_(static_cast<size_t>(num_runners)) {
    costs_.num_runners = num_runners;
  }

  Costs Run() {
    for (size_t r = 0; r < runners_.size(); ++r) {
      const wire::RunnerInfo info = {RunnerId(static_cast<int32_t>(r)), "a", kSeats, kPages};
      Handle(scheduler::RunnerJoined{info});
      Report(r);
    }
    // Of the scheduler, and of this load's own lists, which are not taken out.
    const auto before = static_cast<double>(mallinfo2().uordblks);
    const auto num_live =
        static_cast<size_t>(kFill * static_cast<double>(runners_.size()) * kSeats);
    sequences_.resize(num_live);
    for (size_t i = 0; i < num_live; ++i) {
      Open(i);
      // What has been computed makes room for more prompts.
      if ((i + 1) % runners_.size() == 0) ReportAll();
    }
    costs_.num_live = static_cast<int64_t>(num_live);
    costs_.bytes_per_live =
        (static_cast<double>(mallinfo2().uordblks) - before) / static_cast<double>(num_live);
    ReportAll();
    costs_.submit_us.clear();
    costs_.report_us.clear();
    for (int64_t i = 0; i < options_.num_requests; ++i) {
      const auto slot = static_cast<size_t>(random_.Int(0, static_cast<int64_t>(num_live) - 1));
      Close(slot);
      Open(slot);
      for (int j = 0; j < 2; ++j) Report(next_report_++ % runners_.size());
      now_ += std::chrono::microseconds(200);
    }
    for (auto* times : {&costs_.submit_us, &costs_.close_us, &costs_.report_us}) {
      std::sort(times->begin(), times->end());
    }
    return std::move(costs_);
  }

 private:
  static scheduler::Policies MakePolicies() {
    scheduler::Policies policies;
    policies.tenants = std::make_unique<scheduler::FairShare>(scheduler::FairShareOptions{});
    return policies;
  }

  double Handle(const scheduler::Event& event) {
    const TimePoint start = clock_.Now();
    const scheduler::Actions actions = scheduler_.Handle(event, now_);
    const double us = std::chrono::duration<double, std::micro>(clock_.Now() - start).count();
    for (const scheduler::Action& action : actions) {
      const auto* placement = std::get_if<wire::Placement>(&action);
      if (placement != nullptr) Obey(*placement);
    }
    return us;
  }

  void Obey(const wire::Placement& placement) {
    const size_t slot = slots_.at(placement.sequence);
    Sequence& sequence = sequences_[slot];
    auto& list = runners_[static_cast<size_t>(placement.runner.value())];
    sequence.runner = placement.runner;
    sequence.attempt = placement.attempt;
    sequence.position = list.size();
    list.push_back(slot);
  }

  // Half of the requests are for a hundredth of the adapters.
  void Open(size_t slot) {
    Sequence& sequence = sequences_[slot];
    sequence = Sequence();
    wire::Submission& s = sequence.submission;
    s.sequence = SequenceId(next_id_++);
    s.gateway = GatewayId(0);
    s.tenant = StrCat("tenant-", random_.Int(0, 99));
    const int64_t popular = std::max<int64_t>(1, options_.num_adapters / 100);
    const int64_t last = random_.Chance(0.5) ? popular : options_.num_adapters;
    s.adapter = AdapterId(static_cast<int32_t>(random_.Int(0, last - 1)));
    s.adapter_pages = random_.Int(1, 10);
    s.num_tokens = static_cast<int32_t>(random_.Int(16, 1024));
    s.max_tokens = s.num_tokens + 512;
    s.arrival = now_;
    s.prefix = MarkPrompt(s);
    slots_[s.sequence] = slot;
    const wire::Submission submission = s;
    costs_.submit_us.push_back(Handle(submission));
    if (!sequences_[slot].runner.valid()) ++costs_.num_waited;
  }

  // The first half of a prompt is that of all of its tenant and adapter.
  static std::vector<wire::PrefixMark> MarkPrompt(const wire::Submission& s) {
    std::vector<wire::PrefixMark> marks;
    uint64_t mark =
        Mix64(std::hash<std::string>()(s.tenant), static_cast<uint64_t>(s.adapter.value()));
    for (size_t i = 0; wire::PrefixDepth(i) <= s.num_tokens; ++i) {
      const bool is_its_own = wire::PrefixDepth(i) * 2 > s.num_tokens;
      mark = Mix64(mark, is_its_own ? static_cast<uint64_t>(s.sequence.value()) : 0);
      marks.push_back(mark);
    }
    return marks;
  }

  void Close(size_t slot) {
    Sequence& sequence = sequences_[slot];
    if (sequence.runner.valid()) {
      auto& list = runners_[static_cast<size_t>(sequence.runner.value())];
      list[sequence.position] = list.back();
      sequences_[list.back()].position = sequence.position;
      list.pop_back();
    }
    const SequenceId id = sequence.submission.sequence;
    costs_.close_us.push_back(Handle(scheduler::SequenceClosed{id}));
    slots_.erase(id);
  }

  void ReportAll() {
    for (size_t r = 0; r < runners_.size(); ++r) Report(r);
  }

  void Report(size_t runner) {
    wire::RunnerReport report;
    report.runner = RunnerId(static_cast<int32_t>(runner));
    report.number = ++numbers_[runner];
    report.available_pages = kPages;
    for (const size_t slot : runners_[runner]) {
      const Sequence& s = sequences_[slot];
      report.sequences.push_back({.sequence = s.submission.sequence,
                                  .gateway = s.submission.gateway,
                                  .attempt = s.attempt,
                                  .state = wire::RunnerSequenceState::kRunning,
                                  .adapter = s.submission.adapter,
                                  .adapter_pages = s.submission.adapter_pages,
                                  .num_tokens = s.submission.num_tokens,
                                  .num_generated = 1,
                                  .arrival = s.submission.arrival});
      report.available_pages -=
          s.submission.num_tokens / kPageTokens + 1 + s.submission.adapter_pages;
    }
    costs_.report_us.push_back(Handle(std::move(report)));
  }

  const SimulateScaleOptions& options_;
  const Clock& clock_;
  simulate::SimRandom random_;
  scheduler::Scheduler scheduler_;
  std::vector<std::vector<size_t>> runners_;  // slots of their sequences
  std::vector<int64_t> numbers_;
  std::vector<Sequence> sequences_;
  std::unordered_map<SequenceId, size_t> slots_;
  TimePoint now_{std::chrono::seconds(1)};
  int64_t next_id_ = 1;
  size_t next_report_ = 0;
  Costs costs_;
};

}  // namespace

Status SimulateScale(const SimulateScaleOptions& options, std::ostream& out, const Clock& clock) {
  std::vector<std::vector<std::string>> lines = {{"runners", "live", "bytes/live", "submit p50 us",
                                                  "p99", "close p50 us", "p99", "report p50 us",
                                                  "p99", "waited"}};
  Json::Array results;
  for (const int64_t num_runners : options.num_runners) {
    const Costs costs = ScaleRun(options, num_runners, clock).Run();
    const auto p = [](const std::vector<double>& us, double q) {
      return Decimal(Percentile(us, q), 1);
    };
    lines.push_back({std::to_string(num_runners), std::to_string(costs.num_live),
                     Decimal(costs.bytes_per_live, 0), p(costs.submit_us, 0.5),
                     p(costs.submit_us, 0.99), p(costs.close_us, 0.5), p(costs.close_us, 0.99),
                     p(costs.report_us, 0.5), p(costs.report_us, 0.99),
                     std::to_string(costs.num_waited)});
    results.emplace_back(Json::Object{{"runners", num_runners},
                                      {"live", costs.num_live},
                                      {"bytes_per_live", costs.bytes_per_live},
                                      {"submit_p50_us", Percentile(costs.submit_us, 0.5)},
                                      {"submit_p99_us", Percentile(costs.submit_us, 0.99)},
                                      {"close_p50_us", Percentile(costs.close_us, 0.5)},
                                      {"close_p99_us", Percentile(costs.close_us, 0.99)},
                                      {"report_p50_us", Percentile(costs.report_us, 0.5)},
                                      {"report_p99_us", Percentile(costs.report_us, 0.99)},
                                      {"waited", costs.num_waited}});
  }
  out << AlignColumns(lines, 0) << std::flush;
  if (options.json_path.empty()) return OkStatus();
  const Json json = Json::Object{{"adapters", options.num_adapters},
                                 {"requests", options.num_requests},
                                 {"results", Json(std::move(results))}};
  return WriteTextFile("--json", options.json_path, json.Dump() + "\n");
}

}  // namespace aril
