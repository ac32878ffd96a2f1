// A base model of any known shape with random weights, in Hugging Face layout.

#ifndef ARIL_APPS_SYNTH_MODEL_H_
#define ARIL_APPS_SYNTH_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "apps/synth_weights.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "spec/model_spec.h"

namespace aril {

// The tensors of a checkpoint of that model, in the order of the forward pass. Matrices have
// standard deviation 1/√in, so that activations stay of order 1 through any number of layers; norm
// weights are 1.
std::vector<SynthTensor> PlanModelTensors(const ModelSpec& spec);

// The bytes of all tensors.
uint64_t TotalBytes(const std::vector<SynthTensor>& tensors, DType dtype);

struct SynthModelOptions {
  std::string shape;
  std::string out_dir;
  std::string tokenizer_dir;  // empty: none is copied
  DType dtype = DType::kBF16;
  uint64_t seed = 0;
  int64_t min_positions = 0;  // a shape of fewer max_position_embeddings gets so many
  // transformers' own default; a larger model is written in shards.
  uint64_t max_shard_bytes = 5'000'000'000;
};

// A shape, resolved: what WriteSynthModel will write.
struct SynthModel {
  Json config;
  ModelSpec spec;
  std::vector<SynthTensor> tensors;
  uint64_t total_bytes = 0;
};
StatusOr<SynthModel> PlanSynthModel(const SynthModelOptions& options);

// Writes config.json, generation_config.json, weights and tokenizer into options.out_dir, which
// must be empty or absent.
Status WriteSynthModel(const SynthModelOptions& options, const SynthModel& model, ThreadPool& pool,
                       const OnBytesWritten& on_bytes_written);

}  // namespace aril

#endif  // ARIL_APPS_SYNTH_MODEL_H_
