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

// What each of them is, as flags of `aril runner` say it: by default an A100 of 80 GB with Llama-2
// 7B in fp16, and Punica's limit of a batch.
struct SimulatedGpu {
  int64_t max_num_seqs = 32;
  int64_t max_num_batched_tokens = 512;
  int64_t pool_bytes = int64_t{60} << 30;
  int64_t kv_bytes_per_token = 512 << 10;
  // On all projections: 4 * (4096 + 4096) + 3 * (4096 + 11008) numbers in each of 32 layers.
  int64_t adapter_bytes_per_rank = int64_t{78'080} * 32 * 2;

  int64_t page_bytes() const { return kPageTokens * kv_bytes_per_token; }
  int64_t PagesOfAdapter(int64_t rank) const;

  static constexpr int64_t kPageTokens = 16;
};

struct SimulateClusterOptions {
  int64_t num_gpus = 16;
  SimulatedGpu gpu;
  std::vector<int64_t> ranks = {16};  // adapters have these in turn
  scheduler::PolicyOptions policies;
  int64_t max_backlog_tokens = scheduler::SchedulerOptions().max_backlog_tokens;
  int64_t drain_margin = scheduler::SchedulerOptions().drain_margin;
  uint64_t seed = 1;
  std::string step_model_path;  // empty: StepModel's defaults
  std::string json_path, svg_path;
};

// Adapters with the popularity `skewed`: as many different ones as the shares of what a full
// cluster runs have.
Status GiveSkewedAdapters(const SimulateClusterOptions& options,
                          std::vector<simulate::TraceRequest>* requests);

// What no scheduler can go below: each prompt computed once, but for what is known to have been
// computed before; each token in a step of a full batch of sequences as long as its own is on
// average; no adapters, no recomputation.
double GpuHoursLowerBound(const std::vector<simulate::TraceRequest>& requests,
                          const simulate::StepModel& steps, int64_t full_batch);

// Runs them with consolidation, without, and with a least-loaded balancer, and prints how they
// compare; where the requests say what their prompts begin with, also without the scheduler's
// affinity to it. `duration`: of the arrivals. `about`: more members of the JSON file.
Status CompareClusters(const SimulateClusterOptions& options,
                       std::vector<simulate::TraceRequest> requests, Duration duration,
                       Json::Object about, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_SIMULATE_CLUSTER_H_
