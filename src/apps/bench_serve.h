// `aril bench serve`: what a server does under a load of many adapters, with proof that the load
// was the one asked for.

#ifndef ARIL_APPS_BENCH_SERVE_H_
#define ARIL_APPS_BENCH_SERVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench_popularity.h"
#include "apps/bench_presets.h"
#include "apps/bench_target.h"
#include "apps/bench_workload.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

struct BenchServeOptions {
  BenchTarget target;
  std::string model;  // the base model's name; empty: the first without a parent
  // The load: this, with each value of the sweep, with each popularity.
  WorkloadSpec workload;
  Sweep sweep;
  std::vector<Popularity> popularities;
  int32_t max_token_id = 500;
  int64_t max_in_flight = 1000;            // of an open loop
  Duration slo = std::chrono::seconds(6);  // for the first token
  int64_t repeat = 1;                      // all of them in turn, so many times
  bool cold = false;                       // no short request for each adapter before each run
  bool allow_refusals = false;             // 429 and 503 are counted, and nothing is wrong
  bool allow_unchecked = false;            // the server's /metrics may lack what proves the load
  std::string json_path;                   // empty: none
  std::string svg_path;                    // empty: none
};

// Prints the table to standard output, and progress to standard error. FailedPrecondition if the
// load was not what it claims to be: a request failed, a stream did not end, tokens are missing, or
// the steps did not hold the adapters they should.
Status BenchServe(const BenchServeOptions& options, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_SERVE_H_
