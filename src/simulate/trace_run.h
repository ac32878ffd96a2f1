// A trace of requests through a simulated cluster without faults: what it costs and how long who
// waits.

#ifndef ARIL_SIMULATE_TRACE_RUN_H_
#define ARIL_SIMULATE_TRACE_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "simulate/world.h"

namespace aril::simulate {

struct TraceRequest {
  Duration arrival{};
  int64_t adapter = -1;  // -1: the base model
  int64_t adapter_pages = 0;
  int64_t prompt_tokens = 1;
  int64_t output_tokens = 1;
  std::vector<int32_t> blocks = {};  // as WorldRequest's
};

struct TraceSample {
  double seconds = 0;  // at the end of the interval
  double requests_per_s = 0;
  double tokens_per_s = 0;
  std::vector<int64_t> batches;  // sequences on each runner, at that moment
};

struct TraceResult {
  std::string violation;  // empty: none
  int64_t num_finished = 0;
  int64_t num_failed = 0;  // refused, or ended with an error
  int64_t num_tokens = 0;
  int64_t num_cached = 0;  // of the prompts' tokens, those that were not computed
  double seconds = 0;      // until the last one ended
  double gpu_hours = 0;    // of runners that had sequences
  int64_t peak_runners = 0;
  int64_t num_activations = 0;              // times that a runner went from idle to busy
  std::vector<double> queue_seconds;        // from arrival to the first attempt, ascending
  std::vector<double> first_token_seconds;  // from arrival, ascending
  std::vector<double> token_seconds;        // means between tokens of the finished, ascending
  scheduler::SchedulerStats scheduler;
  std::vector<TraceSample> samples;
};

// One scheduler and one gateway; `options`' runners. Samples are of `interval`.
TraceResult RunTrace(WorldOptions options, const std::vector<TraceRequest>& requests,
                     Duration interval);

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_TRACE_RUN_H_
