// `aril bench ablation`: what three of the product's ideas bring, each against the server that
// lacks it, in one run (S-LoRA, section 7.4 and figure 9, and drafts). S-LoRA's third, the operator
// against gathered and padded adapters, is a comparison of kernels: kernels/lora/lora_bench.cc.

#ifndef ARIL_APPS_BENCH_ABLATION_H_
#define ARIL_APPS_BENCH_ABLATION_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "apps/machine_limits.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/drafts.h"

namespace aril {

struct BenchAblationOptions {
  std::string shape = "qwen2.5-0.5b";
  std::string isa = "auto";
  int threads = 0;  // 0: one per core
  int64_t passes = 3;
  int64_t max_num_seqs = 32;
  std::vector<std::string> parts = {"pool", "merging", "drafts"};

  // The pool: a load whose wants change, on one pool for all and on pools that are split.
  std::vector<double> splits = {0.1, 0.25, 0.5, 0.75, 0.9};  // adapters' shares
  std::optional<int64_t> pool_bytes;  // nullopt: what a batch of the longer requests takes
  int64_t num_adapters = 96;
  std::vector<int64_t> ranks = {8, 16, 32, 64};
  int64_t phases = 4;                            // in turns of short requests and of long ones
  int64_t phase_requests = 32;                   // of each
  int64_t short_prompt = 16, short_output = 16;  // each an adapter drawn from all
  int64_t long_prompt = 192, long_output = 48;   // of four adapters

  // Merging: requests spread evenly over so many adapters.
  std::vector<int64_t> merged_adapters = {1, 2, 4, 6, 8, 10};
  int64_t merged_requests = 64;
  int64_t merged_prompt = 32, merged_output = 32;
  int64_t merged_rank = 16;

  // Drafts: sequences in which each token is one of so many, all alike, so that a guess is right as
  // seldom.
  std::vector<int64_t> alternatives = {1, 2, 4, 8};
  std::vector<int64_t> draft_batches = {1, 2, 4, 8};  // sequences at once
  int64_t draft_prompt = 64, draft_output = 64;
  DraftOptions drafts = {.max_tokens = 8};

  size_t probe_bytes = MachineProbe::kMemoryBytes;  // of the bandwidth probe
  std::string json_path;                            // empty: none
};

// Makes a model and adapters of random weights in a temporary folder and runs the loads on the
// engine; what is compared follows one another in every pass. Prints medians.
Status BenchAblation(const BenchAblationOptions& options, std::ostream& out,
                     std::ostream& progress_out, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_ABLATION_H_
