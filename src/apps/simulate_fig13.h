// `aril simulate --scenario punica-fig13`: Punica's cluster experiment (section 7.3, figure 13) on
// simulated GPUs.

#ifndef ARIL_APPS_SIMULATE_FIG13_H_
#define ARIL_APPS_SIMULATE_FIG13_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "simulate/step_model.h"
#include "simulate/trace_run.h"

namespace aril {

struct SimulateFig13Options {
  int64_t num_gpus = 16;
  Duration duration = std::chrono::hours(1);
  // Requests per second in the middle; the rate rises to it from nothing and falls back to nothing.
  double peak_rate = 20;
  int64_t max_tokens = 2048;  // of prompt and output together (Punica's lengths)
  uint64_t seed = 1;
  std::string step_model_path;  // empty: StepModel's defaults
  std::string json_path, svg_path;
};

// The requests: a Poisson process whose rate is a triangle, Punica's lengths, popularity `skewed`.
StatusOr<std::vector<simulate::TraceRequest>> Fig13Requests(const SimulateFig13Options& options);

// What no scheduler can go below: each prompt computed once, each token in a step of a full batch
// of 32 sequences as long as its own is on average; no adapters, no recomputation.
double GpuHoursLowerBound(const std::vector<simulate::TraceRequest>& requests,
                          const simulate::StepModel& steps);

// Runs it with consolidation, without, and with a least-loaded balancer, and prints how they
// compare.
Status SimulateFig13(const SimulateFig13Options& options, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_SIMULATE_FIG13_H_
