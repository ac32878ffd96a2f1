// What the server's steps held meanwhile, by its /metrics: the proof that a load was the one asked
// for.

#ifndef ARIL_APPS_BENCH_STEPS_H_
#define ARIL_APPS_BENCH_STEPS_H_

#include <optional>
#include <string>

#include "apps/bench_target.h"
#include "apps/bench_workload.h"
#include "apps/metrics_text.h"

namespace aril {

// What one scrape says about the steps so far.
struct StepScrape {
  MetricHistogram adapters;
  MetricHistogram rows;
  double adapter_loads = 0;
};

struct StepShape {
  double max_adapters = 0;  // different ones in one step
  double mean_adapters = 0;
  double mean_rows = 0;
  double adapter_loads = 0;  // adapters copied into the pool
};

// nullopt if the server has no such metrics.
std::optional<StepScrape> ScrapeSteps(const BenchTarget& target);
// nullopt also if there was no step.
std::optional<StepShape> StepsBetween(const std::optional<StepScrape>& before,
                                      const std::optional<StepScrape>& after);

// What contradicts that the steps ran this workload and no other, or "".
std::string JudgeSteps(const StepShape& steps, const WorkloadSpec& spec, const Workload& workload);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_STEPS_H_
