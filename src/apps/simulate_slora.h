// `aril simulate --scenario s-lora-policies`: S-LoRA's ablations of what a scheduler does when more
// comes than one GPU can serve (Sheng et al., MLSys 2024, figures 10 to 12).

#ifndef ARIL_APPS_SIMULATE_SLORA_H_
#define ARIL_APPS_SIMULATE_SLORA_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace aril {

// The workload is S-LoRA's of table 2 for a 7B model on an A10G (`--preset s-lora-7b-a10g` of `aril
// bench serve`), but for what is varied.
struct SimulateSloraOptions {
  Duration duration = std::chrono::seconds(300);  // of the arrivals
  Duration slo = std::chrono::seconds(6);         // for the first token
  std::vector<double> cvs = {1, 2, 4, 6, 8};
  std::vector<double> alphas = {0.1, 0.3, 0.6, 1};
  std::vector<int64_t> clusters = {8, 16, 32};
  int64_t repeat = 5;  // workloads with successive seeds, of which means are shown
  uint64_t seed = 1;
  std::string step_model_path;  // empty: a 7B model on an A10G
  std::string json_path, svg_path;
};

// First come, last come and early abort as arrivals get burstier; then batches of at most d
// different adapters, if possible, by the popularity's exponent and by burstiness.
Status SimulateSlora(const SimulateSloraOptions& options, std::ostream& out);

}  // namespace aril

#endif  // ARIL_APPS_SIMULATE_SLORA_H_
