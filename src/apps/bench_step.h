// `aril bench step`: the engine's steps against the least time that this machine could take.

#ifndef ARIL_APPS_BENCH_STEP_H_
#define ARIL_APPS_BENCH_STEP_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "apps/machine_limits.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

struct BenchStepOptions {
  std::string shape = "tinyllama-1.1b";
  std::string dtype = "auto";
  std::string quantization = "none";
  std::string isa = "auto";
  int threads = 0;  // 0: one per core
  // Decoding at these numbers of sequences, without adapters and with `num_adapters` different ones
  // at that number of sequences; and a prefill.
  std::vector<int64_t> batches = {1, 8, 16, 32};
  int64_t num_adapters = 16;  // 0: none
  int64_t rank = 16;
  int64_t context = 128;         // tokens of each sequence before the first timed step
  int64_t prefill_tokens = 512;  // 0: no prefill
  int64_t steps = 16;            // timed in each pass
  int64_t passes = 5;
  size_t probe_bytes = MachineProbe::kMemoryBytes;  // of the bandwidth probe
  std::string json_path;                            // empty: none
};

// Makes a model and adapters of random weights in a temporary folder, loads them, and times steps
// of the engine; the cases follow one another in every pass. Prints medians.
Status BenchStep(const BenchStepOptions& options, std::ostream& out, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_STEP_H_
