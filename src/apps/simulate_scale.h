// `aril simulate --scenario scale`: what a decision of the scheduler costs, as runners grow.

#ifndef ARIL_APPS_SIMULATE_SCALE_H_
#define ARIL_APPS_SIMULATE_SCALE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace aril {

struct SimulateScaleOptions {
  std::vector<int64_t> num_runners = {16, 64, 256, 1024, 4096};
  int64_t num_adapters = 10'000;
  int64_t num_requests = 100'000;  // for each number of runners
  uint64_t seed = 1;
  std::string json_path;
};

// Fills a scheduler to nine tenths of its runners' seats, then has requests come and end at that
// level, with two reports of runners for each request: at 5,000 requests and 10,000 reports a
// second that is the load of 1,024 runners. Times every event by `clock` and prints a table.
Status SimulateScale(const SimulateScaleOptions& options, std::ostream& out, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_SIMULATE_SCALE_H_
