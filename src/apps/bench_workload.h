// A workload: who asks, when, for how much. It is drawn ahead from a seed, as plain data, so that
// the same can be sent to several servers and looked at without any (bench_load.h sends it).

#ifndef ARIL_APPS_BENCH_WORKLOAD_H_
#define ARIL_APPS_BENCH_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/bench_arrivals.h"
#include "apps/bench_lengths.h"
#include "apps/bench_popularity.h"
#include "apps/bench_trace.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"

namespace aril {

struct WorkloadRequest {
  Duration arrival{};    // since the start; of an open loop
  int64_t adapter = -1;  // index; -1: the base model
  int64_t prompt_tokens = 1;
  int64_t output_tokens = 1;
  bool counts = true;  // false: sent beside the load, and not part of what is measured

  bool operator==(const WorkloadRequest&) const = default;
};

struct Workload {
  std::vector<WorkloadRequest> requests;  // by arrival
  // Of a closed loop, whose requests are sent in their order; 0: an open loop.
  int64_t num_clients = 0;
};

struct WorkloadSpec {
  ArrivalSpec arrivals;
  Popularity popularity;
  LengthSpec lengths;
  int64_t num_requests = 32;  // 0: as many as `duration`, or the trace, has
  Duration duration{};        // of the arrivals of an open loop; 0: no limit
  int64_t num_adapters = 0;   // the first so many of the server's; 0: all
  int64_t prefix_tokens = 0;  // the first so many of a prompt are those of all prompts of a run
  uint64_t seed = 1;
  // Requests of one token beside those of an open loop, per second: to the server's other adapters
  // in turn, which are then loaded, or to those of the load, which shows what loading costs.
  double beside_rate = 0;
  double beside_cold = 1;  // the share of the former
  // What it records comes from it, the rest from the members above. May be null.
  std::shared_ptr<const Trace> trace;
  double trace_speed = 1;  // its arrivals come so many times faster

  bool has_trace_arrivals() const { return trace != nullptr && trace->has_arrivals; }
  bool has_trace_adapters() const { return trace != nullptr && trace->has_adapters; }
  bool has_trace_lengths() const { return trace != nullptr && trace->has_lengths; }
  bool is_open() const { return has_trace_arrivals() || arrivals.is_open(); }
};

// For a server with `num_server_adapters`. InvalidArgument if it has too few, or the workload would
// be too large, or nothing can be sent beside it.
StatusOr<Workload> MakeWorkload(const WorkloadSpec& spec, int64_t num_server_adapters);

// How many different adapters are asked for; the base model is none.
int64_t CountAdapters(const Workload& workload);

Json ToJson(const WorkloadSpec& spec);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_WORKLOAD_H_
