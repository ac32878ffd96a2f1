// What `aril bench serve` found: numbers of each run, medians over the runs, JSON.

#ifndef ARIL_APPS_BENCH_REPORT_H_
#define ARIL_APPS_BENCH_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench_load.h"
#include "apps/bench_steps.h"
#include "apps/bench_timeline.h"
#include "apps/bench_workload.h"
#include "base/json.h"

namespace aril {

// Of a set of times, in milliseconds. Percentiles are of the nearest rank.
struct Latency {
  double mean_ms = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double max_ms = 0;
};

Latency Summarize(std::vector<Duration> times);

// S-LoRA's measure of how content the user is who waits `first_token` for the first token (its
// slora/utils/metric.py): 1 - (t/slo)², and 0 from `slo` on.
double Satisfaction(Duration first_token, Duration slo);

struct BenchRun {
  double requests_per_s = 0;  // good ones
  double goodput_per_s = 0;   // of them, those whose first token came within the SLO
  double output_tokens_per_s = 0;
  double total_tokens_per_s = 0;  // prompts and outputs
  // In an open loop from the scheduled arrival, whenever the request was really sent.
  Latency request;
  Latency first_token;
  Latency between_tokens;  // between successive chunks
  Latency lateness;        // of the client: from the scheduled arrival to the sending
  Latency refusal;         // from the sending to the refusal
  // Of all requests; one that failed attains nothing and satisfies nobody.
  double slo_attainment = 0;       // the share whose first token came within the SLO
  double satisfaction = 0;         // mean
  std::optional<StepShape> steps;  // if the server tells
  double adapters_asked_for = 0;   // different ones
  // The share of the requests whose adapter was in the pool: for the others it was loaded.
  std::optional<double> found_in_pool;
  int64_t num_requests = 0;
  int64_t num_refused = 0;
  int64_t num_errors = 0;  // those that were refused not included
  Timeline timeline;
};

// `slo`: for the first token.
BenchRun Summarize(const LoadResult& load, Duration slo);

// Each number is the median over the runs (of an even count, the mean of the middle two); errors
// and refusals are added up, and the timeline is the first run's. There must be a run.
BenchRun Median(const std::vector<BenchRun>& runs);

// One row: a workload and its runs.
struct BenchResult {
  WorkloadSpec spec;
  std::string sweep_value;  // empty: no sweep
  std::vector<BenchRun> runs;

  std::string popularity() const {
    return spec.has_trace_adapters() ? "trace" : Name(spec.popularity);
  }
  bool is_base() const {
    return !spec.has_trace_adapters() && spec.popularity.kind == PopularityKind::kBase;
  }
};

Json ToJson(const std::vector<BenchResult>& results);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_REPORT_H_
