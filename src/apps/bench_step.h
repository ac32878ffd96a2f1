// `aril bench step`: the engine's steps against the least time that this machine could take.

#ifndef ARIL_APPS_BENCH_STEP_H_
#define ARIL_APPS_BENCH_STEP_H_

#include <cstdint>
#include <optional>
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
  std::string device = "cpu";  // or cuda
  std::string isa = "auto";
  int threads = 0;  // 0: one per core
  // Decoding at these numbers of sequences, each with so many tokens before the first timed step;
  // with `num_adapters` different adapters at that number of sequences, of the first length; and
  // prefills. Or, with `popularities` (bench_popularity.h): at all numbers and lengths with
  // adapters as popular as each of them says, and prefills with an adapter, too.
  std::vector<int64_t> batches = {1, 8, 16, 32};
  std::vector<int64_t> contexts = {128};
  int64_t num_adapters = 16;  // 0: none
  std::vector<std::string> popularities = {};
  int64_t rank = 16;
  std::vector<std::string> targets = {"all-linear"};  // or names of modules
  std::vector<int64_t> prefills = {512};              // tokens of each prompt; none of 0
  int64_t steps = 16;                                 // timed in each pass
  int64_t passes = 5;
  std::optional<int64_t> pool_bytes;                // nullopt: what the device has, as for a server
  size_t probe_bytes = MachineProbe::kMemoryBytes;  // of the bandwidth probe
  std::string json_path;                            // empty: none
  // Gets the coefficients for `aril simulate` (simulate/step_model.h) that fit these steps; needs
  // two contexts, adapters and a prefill. Empty: none.
  std::string step_model_path;
};

// Makes a model and adapters of random weights in a temporary folder, loads them, and times steps
// of the engine; the cases follow one another in every pass. Prints medians, and which cases were
// left out, as the pool has no room for their sequences; FailedPrecondition if it has for none.
Status BenchStep(const BenchStepOptions& options, std::ostream& out, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_STEP_H_
