// Sends a workload to a server as streaming completions.

#ifndef ARIL_APPS_BENCH_LOAD_H_
#define ARIL_APPS_BENCH_LOAD_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "apps/bench_stream.h"
#include "apps/bench_target.h"
#include "apps/bench_workload.h"
#include "base/clock.h"

namespace aril {

struct LoadOptions {
  RequestOptions request;
  // Threads, and so streams, of an open loop at most. When all are busy, requests are sent late;
  // their times still count from the arrivals, and RequestRecord tells by how much.
  int64_t max_in_flight = 1000;
  // Called after each request, by one thread at a time; may be empty.
  std::function<void()> on_done;
};

struct LoadResult {
  Duration wall{};                      // from the start to the last answer
  std::vector<RequestRecord> requests;  // in the order of the workload
};

// Returns when all requests are answered or have failed. `clock` must move by itself.
LoadResult RunLoad(const BenchTarget& target, const BenchModels& models, const Workload& workload,
                   const LoadOptions& options, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_LOAD_H_
