// The same requests on simulated clusters that place them differently: GPU hours, and how long who
// waits.

#ifndef ARIL_APPS_SIMULATE_CLUSTER_H_
#define ARIL_APPS_SIMULATE_CLUSTER_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "scheduler/policies.h"
#include "scheduler/scheduler.h"
#include "simulate/step_model.h"
#include "simulate/trace_run.h"

namespace aril {

struct SimulateClusterOptions {
  int64_t num_gpus = 16;
  // Adapters have these in turn, on all projections of a 7B model.
  std::vector<int64_t> ranks = {16};
  scheduler::PolicyOptions policies;
  int64_t max_backlog_tokens = scheduler::SchedulerOptions().max_backlog_tokens;
  uint64_t seed = 1;
  std::string step_model_path;  // empty: StepModel's defaults
  std::string json_path, svg_path;
};

int64_t SimulatedAdapterPages(int64_t rank);

// Adapters with the popularity `skewed`: as many different ones as the shares of what a full
// cluster runs have.
Status GiveSkewedAdapters(const SimulateClusterOptions& options,
                          std::vector<simulate::TraceRequest>* requests);

// What no scheduler can go below: each prompt computed once, each token in a step of a full batch
// of 32 sequences as long as its own is on average; no adapters, no recomputation.
double GpuHoursLowerBound(const std::vector<simulate::TraceRequest>& requests,
                          const simulate::StepModel& steps);

// Runs them with consolidation, without, and with a least-loaded balancer, and prints how they
// compare. `duration`: of the arrivals. `about`: more members of the JSON file.
Status CompareClusters(const SimulateClusterOptions& options,
                       std::vector<simulate::TraceRequest> requests, Duration duration,
                       Json::Object about, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_SIMULATE_CLUSTER_H_
