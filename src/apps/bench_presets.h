// Workloads with a name, as published, and variations of one parameter of a workload.

#ifndef ARIL_APPS_BENCH_PRESETS_H_
#define ARIL_APPS_BENCH_PRESETS_H_

#include <string>
#include <vector>

#include "apps/bench_workload.h"
#include "base/status.h"

namespace aril {

// S-LoRA's default synthetic workloads (table 2 of the paper; the numbers are those of its
// benchmarks/exp_suite.py): n adapters by a power law of exponent α, gamma arrivals of rate R and
// coefficient of variation cv, lengths uniform, for 300 s.
StatusOr<WorkloadSpec> FindPreset(const std::string& name);
std::vector<std::string> PresetNames();

// One parameter and the values it takes in turn.
struct Sweep {
  std::string parameter;  // empty: nothing is varied
  std::vector<double> values;
};

// "rate=1,2,4". The parameters: rate, cv, concurrency, adapters, alpha, prompt-tokens,
// output-tokens, prefix-tokens, beside-cold, trace-speed.
StatusOr<Sweep> ParseSweep(const std::string& text);

// Sets the parameter in the spec. InvalidArgument if this workload has no such parameter, or the
// value is none for it.
Status ApplySweep(const std::string& parameter, double value, WorkloadSpec* spec);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_PRESETS_H_
