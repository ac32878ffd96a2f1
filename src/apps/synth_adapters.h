// LoRA adapters with random weights for a given base model, in PEFT layout.

#ifndef ARIL_APPS_SYNTH_ADAPTERS_H_
#define ARIL_APPS_SYNTH_ADAPTERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/synth_weights.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "spec/lora_spec.h"
#include "spec/model_spec.h"

namespace aril {

// The tensors of one adapter, named as PEFT names them: A [rank, in], B [out, rank] for each target
// of each layer. Both are random (PEFT starts B at zero: such an adapter would do nothing), scaled
// so that s·BAx is a quarter of Wx.
std::vector<SynthTensor> PlanAdapterTensors(const ModelSpec& model, const LoraSpec& adapter);

// Whether targets are {"all-linear"}, and no names of modules.
bool AreAllLinear(const std::vector<std::string>& targets);

struct SynthAdaptersOptions {
  std::string model_dir;
  std::string out_dir;
  int count = 1;
  std::vector<int64_t> ranks = {16};  // adapter i has ranks[i % size]
  // "all-linear", or names of modules.
  std::vector<std::string> targets = {"all-linear"};
  DType dtype = DType::kBF16;
  uint64_t seed = 0;
};

// What WriteSynthAdapters will write: one adapter_config.json per rank, parsed and not.
struct SynthAdapters {
  ModelSpec model;
  std::vector<Json> configs;    // [options.ranks.size()]
  std::vector<LoraSpec> specs;  // [options.ranks.size()]
  uint64_t total_bytes = 0;     // of all `count` adapters
};
StatusOr<SynthAdapters> PlanSynthAdapters(const SynthAdaptersOptions& options);

// Writes options.out_dir/adapter-0000, adapter-0001, …; out_dir must be empty or absent.
Status WriteSynthAdapters(const SynthAdaptersOptions& options, const SynthAdapters& adapters,
                          ThreadPool& pool, const OnBytesWritten& on_bytes_written);

}  // namespace aril

#endif  // ARIL_APPS_SYNTH_ADAPTERS_H_
