// `aril bench machine`: what this machine can do at best.

#ifndef ARIL_APPS_BENCH_MACHINE_H_
#define ARIL_APPS_BENCH_MACHINE_H_

#include <ostream>
#include <string>

#include "apps/machine_limits.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

struct BenchMachineOptions {
  int threads = 0;                                     // 0: one per core
  std::string isa = "auto";                            // as of `aril serve`
  Duration duration = std::chrono::milliseconds(250);  // of each measurement
  size_t probe_bytes = MachineProbe::kMemoryBytes;     // of the bandwidth probe
  std::string json_path;                               // empty: none
};

// Prints a row for one thread, for each power of two below `threads`, and for `threads`.
Status BenchMachine(const BenchMachineOptions& options, std::ostream& out, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_MACHINE_H_
