// `aril bench growth`: how a step's time grows with the batch, with the adapters in it, with their
// rank, and with what sequences attend to.

#ifndef ARIL_APPS_BENCH_GROWTH_H_
#define ARIL_APPS_BENCH_GROWTH_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "apps/machine_limits.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

struct BenchGrowthOptions {
  std::string shape = "tinyllama-1.1b";
  std::string dtype = "auto";
  std::string quantization = "none";
  std::string isa = "auto";
  int threads = 0;  // 0: one per core
  // What grows while the others stay: sequences, each with an adapter of its own or all with none;
  // adapters, among as many sequences as the largest batch has; ranks, and tokens of each sequence,
  // at `sequences` of them.
  std::vector<int64_t> batches = {1, 2, 4, 8, 16, 32, 64};
  std::vector<int64_t> adapters = {1, 2, 4, 8, 16, 32, 64};
  std::vector<int64_t> ranks = {4, 8, 16, 32, 64, 128};
  std::vector<int64_t> contexts = {128, 512, 2048, 8192};
  int64_t sequences = 8;
  int64_t rank = 16;  // where ranks do not grow
  int64_t steps = 8;  // timed in each pass
  int64_t passes = 3;
  size_t probe_bytes = MachineProbe::kMemoryBytes;  // of the bandwidth probe
  std::string json_path, svg_path;                  // empty: none
};

// On random weights; the cases follow one another in every pass. Prints medians, and draws them
// beside the least that the machine could take.
Status BenchGrowth(const BenchGrowthOptions& options, std::ostream& out, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_GROWTH_H_
