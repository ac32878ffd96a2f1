#include "apps/simulate_slora.h"

#include <utility>

#include "apps/bench_numbers.h"
#include "apps/bench_presets.h"
#include "apps/bench_report.h"
#include "apps/bench_workload.h"
#include "apps/output_file.h"
#include "apps/step_model_file.h"
#include "apps/svg_plot.h"
#include "apps/text_table.h"
#include "base/json.h"
#include "base/strings.h"
#include "scheduler/policies.h"
#include "simulate/trace_run.h"

namespace aril {
namespace {

using scheduler::PolicyOptions;
using scheduler::QueueOrder;
using simulate::StepModel;

constexpr const char* kPreset = "s-lora-7b-a10g";

// Llama 7B in fp16 on one A10G: 13.5 GB of weights and 512 KiB of keys and values per token at 480
// of its 600 GB/s; 2 * 6.7e9 operations per prompt token at 60 % of 70 TFLOP/s; adapters copied to
// it at 12 GB/s.
constexpr StepModel kA10g = {.base = 0.028,
                             .prefill_token = 3.2e-4,
                             .sequence = 6.5e-5,
                             .context_token = 1.1e-6,
                             .adapter_byte = 2.1e-12,
                             .load_byte = 8.3e-11,
                             .load_latency = 1e-3};
// 8 GiB of the 24 are left for 16 tokens a page. An adapter of rank 8 on q, k, v and o has 16 MiB.
constexpr int64_t kPageTokens = 16;
constexpr int64_t kPageBytes = 8 << 20;
constexpr int64_t kPages = 1024;
constexpr int64_t kAdapterPages = 2;
constexpr int64_t kMaxRunning = 256;  // memory is what bounds a batch

constexpr Duration kInterval = std::chrono::seconds(30);

// Means over the workloads of one row.
struct Outcome {
  double requests_per_s = 0;  // finished
  double attainment = 0;      // first token within the SLO, of all requests
  double satisfaction = 0;
  double first_token_s = 0;  // of those that had one
  double failed = 0;         // the share that was refused or aborted
};

constexpr std::pair<const char*, double Outcome::*> kNumbers[] = {
    {"requests_per_s", &Outcome::requests_per_s},
    {"slo_attainment", &Outcome::attainment},
    {"satisfaction", &Outcome::satisfaction},
    {"first_token_s", &Outcome::first_token_s},
    {"failed", &Outcome::failed}};

simulate::WorldOptions MakeWorld(const StepModel& steps, const PolicyOptions& policies,
                                 uint64_t seed) {
  simulate::WorldOptions world;
  world.seed = seed;
  world.num_runners = 1;
  world.runner = {.max_running = kMaxRunning,
                  .max_rows = 512,
                  .pages_total = kPages,
                  .page_tokens = kPageTokens,
                  .page_bytes = kPageBytes,
                  .steps = steps};
  world.scheduler.pages.page_tokens = kPageTokens;
  world.policies = [policies] { return scheduler::MakePolicies(policies); };
  world.max_waiting = policies.max_waiting;
  // Who waits for long has not lost its runner.
  world.gateway.silence_limit = std::chrono::hours(2);
  return world;
}

class Experiment {
 public:
  Experiment(const SimulateSloraOptions& options, const StepModel& steps)
      : options_(options), steps_(steps) {}

  StatusOr<Outcome> Run(double cv, double alpha, const PolicyOptions& policies) const {
    Outcome sum;
    for (int64_t i = 0; i < options_.repeat; ++i) {
      ASSIGN_OR_RETURN(const Outcome outcome,
                       RunOnce(cv, alpha, policies, options_.seed + static_cast<uint64_t>(i)));
      for (const auto& [name, member] : kNumbers) {
        sum.*member += outcome.*member / static_cast<double>(options_.repeat);
      }
    }
    return sum;
  }

 private:
  StatusOr<Outcome> RunOnce(double cv, double alpha, const PolicyOptions& policies,
                            uint64_t seed) const {
    ASSIGN_OR_RETURN(WorkloadSpec spec, FindPreset(kPreset));
    spec.arrivals.cv = cv;
    spec.popularity.alpha = alpha;
    spec.duration = options_.duration;
    spec.seed = seed;
    ASSIGN_OR_RETURN(const Workload workload, MakeWorkload(spec, spec.num_adapters));
    std::vector<simulate::TraceRequest> requests;
    for (const WorkloadRequest& request : workload.requests) {
      requests.push_back({.arrival = request.arrival,
                          .adapter = request.adapter,
                          .adapter_pages = kAdapterPages,
                          .prompt_tokens = request.prompt_tokens,
                          .output_tokens = request.output_tokens});
    }
    const simulate::TraceResult result =
        simulate::RunTrace(MakeWorld(steps_, policies, seed), requests, kInterval);
    if (!result.violation.empty()) return Internal(StrCat("seed ", seed, ": ", result.violation));
    const auto num_requests = static_cast<double>(requests.size());
    Outcome outcome;
    outcome.requests_per_s = static_cast<double>(result.num_finished) / result.seconds;
    outcome.failed = static_cast<double>(result.num_failed) / num_requests;
    for (const double seconds : result.first_token_seconds) {
      const Duration first_token = ToDuration(seconds);
      outcome.attainment += first_token <= options_.slo ? 1 / num_requests : 0;
      outcome.satisfaction += Satisfaction(first_token, options_.slo) / num_requests;
      outcome.first_token_s += seconds / static_cast<double>(result.first_token_seconds.size());
    }
    return outcome;
  }

  const SimulateSloraOptions& options_;
  const StepModel steps_;
};

// One figure: a row for each value of `varied` and each policy.
struct Row {
  std::string value;
  std::string policy;
  Outcome outcome;
};

std::string Table(const std::string& title, const std::string& varied, const std::string& policy,
                  const std::vector<Row>& rows) {
  std::vector<std::vector<std::string>> lines = {
      {varied, policy, "SLO attained", "satisfaction", "requests/s", "TTFT s", "failed"}};
  for (const auto& [value, name, outcome] : rows) {
    lines.push_back({value, name, Decimal(outcome.attainment, 3), Decimal(outcome.satisfaction, 3),
                     Decimal(outcome.requests_per_s, 2), Decimal(outcome.first_token_s, 2),
                     Decimal(outcome.failed, 3)});
  }
  return StrCat(title, "\n", AlignColumns(lines, 2), "\n");
}

Json ToJson(const std::string& varied, const std::vector<Row>& rows) {
  Json::Array array;
  for (const auto& [value, policy, outcome] : rows) {
    Json::Object object = {{varied, value}, {"policy", policy}};
    for (const auto& [name, member] : kNumbers) object.emplace_back(name, outcome.*member);
    array.emplace_back(std::move(object));
  }
  return array;
}

// Attainment and satisfaction by what is varied, with a line for each policy.
std::string Svg(const std::string& varied, const std::vector<Row>& rows) {
  std::vector<PlotLine> attainment, satisfaction;
  for (const auto& [value, policy, outcome] : rows) {
    size_t line = 0;
    while (line < attainment.size() && attainment[line].name != policy) ++line;
    if (line == attainment.size()) {
      attainment.push_back({policy, {}});
      satisfaction.push_back({policy, {}});
    }
    double x = 0;
    ParseNumber(value, &x);
    attainment[line].points.push_back({x, outcome.attainment});
    satisfaction[line].points.push_back({x, outcome.satisfaction});
  }
  return RenderSvg({{"First token within the SLO", varied, "share", std::move(attainment)},
                    {"User satisfaction", varied, "mean", std::move(satisfaction)}});
}

}  // namespace

Status SimulateSlora(const SimulateSloraOptions& options, std::ostream& out) {
  ASSIGN_OR_RETURN(const StepModel steps, ReadStepModelFile(options.step_model_path, kA10g));
  ASSIGN_OR_RETURN(const WorkloadSpec preset, FindPreset(kPreset));
  const Experiment experiment(options, steps);
  const std::pair<const char*, PolicyOptions> orders[] = {
      {"fcfs", {}},
      {"lcfs", {.order = QueueOrder::kLastComeFirstServed}},
      {"early abort",
       {.order = QueueOrder::kNewestWhenOverloaded, .slo = options.slo, .aborts_early = true}}};
  std::vector<Row> by_order, by_alpha, by_cv;
  for (const double cv : options.cvs) {
    for (const auto& [name, policies] : orders) {
      ASSIGN_OR_RETURN(const Outcome outcome,
                       experiment.Run(cv, preset.popularity.alpha, policies));
      by_order.push_back({StrCat(cv), name, outcome});
    }
  }
  const auto run_clusters = [&](double cv, double alpha, double value,
                                std::vector<Row>& rows) -> Status {
    std::vector<int64_t> clusters = options.clusters;
    clusters.push_back(INT64_MAX);
    for (const int64_t d : clusters) {
      ASSIGN_OR_RETURN(const Outcome outcome,
                       experiment.Run(cv, alpha, {.preferred_adapters = {.number = d}}));
      rows.push_back({StrCat(value), d == INT64_MAX ? "any" : StrCat(d), outcome});
    }
    return OkStatus();
  };
  for (const double alpha : options.alphas) {
    RETURN_IF_ERROR(run_clusters(preset.arrivals.cv, alpha, alpha, by_alpha));
  }
  for (const double cv : options.cvs) {
    RETURN_IF_ERROR(run_clusters(cv, preset.popularity.alpha, cv, by_cv));
  }
  out << preset.num_adapters << " adapters, " << preset.arrivals.rate << " requests/s for "
      << ToSeconds(options.duration) << " s on one GPU; means of " << options.repeat
      << " workloads\n\n"
      << Table("Figure 10: who goes first, and who is aborted", "cv", "policy", by_order)
      << Table("Figure 11: at most d adapters in a batch, by popularity", "alpha", "d", by_alpha)
      << Table("Figure 12: at most d adapters in a batch, by burstiness", "cv", "d", by_cv)
      << std::flush;
  if (!options.svg_path.empty()) {
    RETURN_IF_ERROR(WriteTextFile("--svg", options.svg_path, Svg("cv", by_order)));
  }
  if (options.json_path.empty()) return OkStatus();
  const Json json = Json::Object{{"rate", preset.arrivals.rate},
                                 {"adapters", preset.num_adapters},
                                 {"duration_s", ToSeconds(options.duration)},
                                 {"slo_s", ToSeconds(options.slo)},
                                 {"repeat", options.repeat},
                                 {"seed", static_cast<int64_t>(options.seed)},
                                 {"step_model", steps.ToJson()},
                                 {"figure_10", ToJson("cv", by_order)},
                                 {"figure_11", ToJson("alpha", by_alpha)},
                                 {"figure_12", ToJson("cv", by_cv)}};
  return WriteTextFile("--json", options.json_path, json.Dump() + "\n");
}

}  // namespace aril
