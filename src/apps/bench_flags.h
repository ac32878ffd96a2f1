// The flags of `aril bench serve`.

#ifndef ARIL_APPS_BENCH_FLAGS_H_
#define ARIL_APPS_BENCH_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "apps/bench_serve.h"
#include "base/status.h"

namespace aril {

// As given; what is not is taken from --preset, else has the default that --help shows.
struct BenchFlags {
  BenchServeOptions options;  // what needs no more than to be stored
  std::string url = "http://127.0.0.1:8000";
  std::string field = "model";
  std::string preset;
  std::string arrivals;
  std::optional<int64_t> concurrency;
  std::vector<std::string> popularities;
  std::string lengths;
  std::string prompt_tokens;
  std::string output_tokens;
  std::optional<int64_t> num_requests;
  std::optional<Duration> duration;
  std::optional<int64_t> num_adapters;
  std::string sweep;
  std::string trace;
  std::string trace_adapters;
  double trace_speed = 1;
  std::optional<int64_t> trace_max_tokens;
};

// `flags` must live until the command line is parsed.
void AddBenchFlags(CLI::App& app, BenchFlags& flags);

// InvalidArgument, with the flag, for a value that is none or contradicts another.
StatusOr<BenchServeOptions> ResolveBenchFlags(const BenchFlags& flags);

// Reads the trace, if one is asked for, into the options that ResolveBenchFlags made of the flags.
Status LoadBenchTrace(const BenchFlags& flags, BenchServeOptions* options);

// InvalidArgument if the workload lacks the parameter that is to be varied, or a value is none.
Status CheckBenchSweep(const BenchServeOptions& options);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_FLAGS_H_
