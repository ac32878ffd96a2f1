// `aril simulate --scenario chaos`.

#ifndef ARIL_APPS_SIMULATE_CHAOS_H_
#define ARIL_APPS_SIMULATE_CHAOS_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace aril {

struct SimulateChaosOptions {
  int64_t num_seeds = 100;
  int64_t first_seed = 1;
  int64_t threads = 0;  // 0: one per core
  std::string planted_bug = "none";
  std::string json_path;
};

// Runs the seeds and prints what they survived. An error, with the seed and how to replay it, if
// one of them violates an invariant; all of them are run.
Status SimulateChaos(const SimulateChaosOptions& options, std::ostream& out, std::ostream& progress,
                     const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_SIMULATE_CHAOS_H_
