// `aril simulate --scenario trace`: recorded requests on simulated GPUs.

#ifndef ARIL_APPS_SIMULATE_TRACE_H_
#define ARIL_APPS_SIMULATE_TRACE_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "apps/simulate_cluster.h"
#include "base/clock.h"
#include "base/status.h"
#include "simulate/trace_run.h"

namespace aril {

struct SimulateTraceOptions {
  std::string path;  // of a trace with times and lengths (bench_trace.h)
  std::string
      adapters_path;  // of another one, which says who asks in turn; empty: the trace itself
  double speed = 1;   // requests arrive so many times faster
  std::optional<int64_t> max_tokens;  // leaves out requests of more, prompt and output together
  std::optional<Duration> duration;   // what arrives later is left out
  SimulateClusterOptions cluster;
};

// Where neither trace has adapters, their popularity is `skewed`. InvalidArgument for what is no
// trace, has no times or lengths, or no requests that are not left out.
StatusOr<std::vector<simulate::TraceRequest>> ReadTraceRequests(
    const SimulateTraceOptions& options);

Status SimulateTrace(const SimulateTraceOptions& options, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_SIMULATE_TRACE_H_
