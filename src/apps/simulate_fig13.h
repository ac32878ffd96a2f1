// `aril simulate --scenario punica-fig13`: Punica's cluster experiment (section 7.3, figure 13) on
// simulated GPUs.

#ifndef ARIL_APPS_SIMULATE_FIG13_H_
#define ARIL_APPS_SIMULATE_FIG13_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "apps/simulate_cluster.h"
#include "base/clock.h"
#include "base/status.h"
#include "simulate/trace_run.h"

namespace aril {

struct SimulateFig13Options {
  SimulateClusterOptions cluster;
  Duration duration = std::chrono::hours(1);  // of the arrivals
  // Requests per second in the middle; the rate rises to it from nothing and falls back to nothing.
  double peak_rate = 20;
  int64_t max_tokens = 2048;    // of prompt and output together (Punica's lengths)
  std::string save_trace_path;  // where the requests are written to, for `aril bench serve --trace`
};

// The requests: a Poisson process whose rate is a triangle, Punica's lengths, popularity `skewed`.
StatusOr<std::vector<simulate::TraceRequest>> Fig13Requests(const SimulateFig13Options& options);

Status SimulateFig13(const SimulateFig13Options& options, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_SIMULATE_FIG13_H_
