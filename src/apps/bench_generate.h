// `aril bench generate`: text generation by the engine alone, without HTTP (Punica, section 7.2 and
// figure 11). Requests of different adapters share batches; and beside it, in the same run, what
// the same engine does where a batch may hold one adapter only, as servers do that were not made
// for many.

#ifndef ARIL_APPS_BENCH_GENERATE_H_
#define ARIL_APPS_BENCH_GENERATE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "apps/bench_lengths.h"
#include "apps/bench_popularity.h"
#include "apps/machine_limits.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

struct BenchGenerateOptions {
  std::string shape = "tinyllama-1.1b";
  std::string dtype = "auto";
  std::string device = "cpu";  // or cuda
  std::string isa = "auto";
  int threads = 0;  // 0: one per core
  int64_t max_batch = 32;
  std::string lengths = "punica-short";  // ParseGenerationLengths
  int64_t num_requests = 1000;
  // Of these, how many are run with one adapter in a batch; 0: none. It takes long where adapters
  // are many.
  int64_t num_restricted = 32;
  int64_t num_adapters = 64;
  int64_t rank = 16;  // on all linear modules
  std::vector<std::string> popularities = {"distinct", "uniform", "skewed", "identical"};
  int64_t passes = 1;
  uint64_t seed = 1;
  size_t probe_bytes = MachineProbe::kMemoryBytes;  // of the bandwidth probe
  std::string json_path;                            // empty: none
};

// Makes a model and adapters of random weights in a temporary folder and generates on the engine;
// what is compared follows one another in every pass. Prints medians.
Status BenchGenerate(const BenchGenerateOptions& options, std::ostream& out,
                     std::ostream& progress_out, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_GENERATE_H_
