#include "apps/bench_serve.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "apps/bench_load.h"
#include "apps/bench_numbers.h"
#include "apps/bench_report.h"
#include "apps/bench_steps.h"
#include "apps/bench_table.h"
#include "apps/output_file.h"
#include "apps/progress.h"
#include "apps/svg_plot.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr int64_t kWarmUpTokens = 4;
constexpr int64_t kWarmUpClients = 16;
constexpr size_t kShownErrors = 3;
// A client later than this is part of what is measured.
constexpr double kNotableLatenessMs = 50;

// One short request for each model of the load: adapters become resident, pages are touched.
Workload WarmUpFor(const Workload& workload) {
  std::map<int64_t, WorkloadRequest> first_of;
  for (const WorkloadRequest& request : workload.requests) {
    if (request.counts) first_of.emplace(request.adapter, request);
  }
  Workload warm_up;
  warm_up.num_clients = workload.num_clients > 0 ? workload.num_clients : kWarmUpClients;
  for (auto& [adapter, request] : first_of) {
    request.output_tokens = std::min(request.output_tokens, kWarmUpTokens);
    warm_up.requests.push_back(request);
  }
  return warm_up;
}

// Without what was only sent beside the load.
LoadResult OnlyWhatCounts(const Workload& workload, LoadResult result) {
  std::vector<RequestRecord> counting;
  for (size_t i = 0; i < result.requests.size(); ++i) {
    if (workload.requests[i].counts) counting.push_back(std::move(result.requests[i]));
  }
  result.requests = std::move(counting);
  return result;
}

// "rate=2, power:1"
std::string Label(const Sweep& sweep, const BenchResult& result) {
  if (sweep.parameter.empty()) return result.popularity();
  return StrCat(sweep.parameter, "=", result.sweep_value, ", ", result.popularity());
}

class Bench {
 public:
  Bench(const BenchServeOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  Status Run() {
    RETURN_IF_ERROR(FindModels());
    RETURN_IF_ERROR(PlanResults());
    for (int64_t round = 0; round < options_.repeat; ++round) {
      for (BenchResult& result : results_) RETURN_IF_ERROR(RunOne(round, &result));
    }
    std::cout << FormatTable(options_.sweep.parameter, results_) << std::flush;
    RETURN_IF_ERROR(WriteJson());
    RETURN_IF_ERROR(WriteSvg());
    return problems_.empty() ? OkStatus() : FailedPrecondition(Join(problems_, "\n"));
  }

 private:
  Status FindModels() {
    auto models = ListModels(options_.target, options_.model);
    if (models.status().code() == StatusCode::kUnavailable) {
      return Unavailable(Message(models.status()) +
                         "; start a server there, or say with --url where it is");
    }
    ASSIGN_OR_RETURN(models_, std::move(models));
    return OkStatus();
  }

  // Also says, before anything is measured, whether every workload is possible.
  Status PlanResults() {
    const Sweep& sweep = options_.sweep;
    const std::vector<double> no_sweep = {0};
    for (const double value : sweep.parameter.empty() ? no_sweep : sweep.values) {
      for (const Popularity& popularity : options_.popularities) {
        BenchResult result = {.spec = options_.workload, .sweep_value = "", .runs = {}};
        result.spec.popularity = popularity;
        if (!sweep.parameter.empty()) {
          RETURN_IF_ERROR(ApplySweep(sweep.parameter, value, &result.spec));
          result.sweep_value = StrCat(value);
        }
        RETURN_IF_ERROR(MakeLoad(result.spec).status());
        results_.push_back(std::move(result));
      }
    }
    return OkStatus();
  }

  StatusOr<Workload> MakeLoad(const WorkloadSpec& spec) const {
    return MakeWorkload(spec, static_cast<int64_t>(models_.adapters.size()));
  }

  // Of other prompts each time: those of the last load may be in the server's prefix cache.
  LoadOptions MakeLoadOptions(const WorkloadSpec& spec) {
    const uint64_t seed = spec.seed * 1000 + num_loads_++;
    return {.request = {.max_token_id = options_.max_token_id,
                        .seed = seed,
                        .prefix_tokens = spec.prefix_tokens},
            .max_in_flight = options_.max_in_flight,
            .on_done = {}};
  }

  Status WarmUp(const WorkloadSpec& spec, const Workload& workload) {
    const LoadResult result =
        RunLoad(options_.target, models_, WarmUpFor(workload), MakeLoadOptions(spec), clock_);
    for (const RequestRecord& request : result.requests) {
      if (!request.is_good()) {
        return FailedPrecondition("a request to warm up failed: " + request.error);
      }
    }
    return OkStatus();
  }

  Status RunOne(int64_t round, BenchResult* result) {
    ASSIGN_OR_RETURN(const Workload workload, MakeLoad(result->spec));
    if (!options_.cold) RETURN_IF_ERROR(WarmUp(result->spec, workload));
    const std::string where =
        StrCat(Label(options_.sweep, *result), ", run ", round + 1, " of ", options_.repeat);
    const auto before = ScrapeSteps(options_.target);
    LoadResult measured = RunShowingProgress(where, result->spec, workload);
    CheckErrors(where, measured);
    BenchRun run = Summarize(OnlyWhatCounts(workload, std::move(measured)), options_.slo);
    run.steps = StepsBetween(before, ScrapeSteps(options_.target));
    run.adapters_asked_for = static_cast<double>(CountAdapters(workload));
    if (run.steps && run.adapters_asked_for > 0) {
      run.found_in_pool =
          1 - run.steps->adapter_loads / static_cast<double>(workload.requests.size());
    }
    std::cerr << where << ": " << run.output_tokens_per_s << " output tok/s" << std::endl;
    CheckSteps(where, *result, workload, run.steps);
    WarnIfLate(where, run);
    result->runs.push_back(std::move(run));
    return OkStatus();
  }

  LoadResult RunShowingProgress(const std::string& where, const WorkloadSpec& spec,
                                const Workload& workload) {
    Progress progress({.label = where,
                       .total = workload.requests.size(),
                       .unit = "requests",
                       .is_terminal = isatty(STDERR_FILENO) == 1},
                      std::cerr, clock_);
    LoadOptions options = MakeLoadOptions(spec);
    options.on_done = [&] { progress.Add(1); };
    LoadResult result = RunLoad(options_.target, models_, workload, options, clock_);
    progress.Finish();
    return result;
  }

  void CheckErrors(const std::string& where, const LoadResult& measured) {
    size_t num_errors = 0;
    for (const RequestRecord& request : measured.requests) {
      if (request.is_good() || (request.was_refused && options_.allow_refusals)) continue;
      if (num_errors < kShownErrors) {
        problems_.push_back(where + ": a request failed: " + request.error);
      }
      ++num_errors;
    }
    if (num_errors > kShownErrors) {
      problems_.push_back(StrCat(where, ": ", num_errors, " requests failed in all"));
    }
  }

  void CheckSteps(const std::string& where, const BenchResult& result, const Workload& workload,
                  const std::optional<StepShape>& steps) {
    if (steps) {
      const std::string problem = JudgeSteps(*steps, result.spec, workload);
      if (!problem.empty()) problems_.push_back(where + ": " + problem);
    } else if (!options_.allow_unchecked) {
      problems_.push_back(
          where +
          ": the server's /metrics has no steps in aril_step_adapters, so that nothing "
          "shows which adapters shared its steps (--allow-unchecked accepts that)");
    }
  }

  void WarnIfLate(const std::string& where, const BenchRun& run) const {
    if (run.lateness.p99_ms < kNotableLatenessMs) return;
    std::cerr << where << ": requests were sent late by up to " << run.lateness.max_ms
              << " ms, which counts in their times: is this machine too busy, or are more than "
                 "--max-in-flight "
              << options_.max_in_flight << " requests unanswered?" << std::endl;
  }

  Status WriteJson() const {
    if (options_.json_path.empty()) return OkStatus();
    const Json json = Json::Object{{"cold", options_.cold},
                                   {"repeat", options_.repeat},
                                   {"slo_s", ToSeconds(options_.slo)},
                                   {"max_in_flight", options_.max_in_flight},
                                   {"valid", problems_.empty()},
                                   {"results", ToJson(results_)}};
    return WriteTextFile("--json", options_.json_path, json.Dump() + "\n");
  }

  Status WriteSvg() const {
    if (options_.svg_path.empty()) return OkStatus();
    std::vector<std::pair<std::string, Timeline>> timelines;
    for (const BenchResult& result : results_) {
      timelines.emplace_back(Label(options_.sweep, result), result.runs.front().timeline);
    }
    return WriteTextFile("--svg", options_.svg_path, RenderSvg(TimelinePlots(timelines)));
  }

  const BenchServeOptions& options_;
  const Clock& clock_;
  BenchModels models_;
  std::vector<BenchResult> results_;
  uint64_t num_loads_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace

Status BenchServe(const BenchServeOptions& options, const Clock& clock) {
  return Bench(options, clock).Run();
}

}  // namespace aril
