#include "apps/synth_model.h"

#include <cmath>
#include <iomanip>
#include <sstream>

#include "apps/synth_files.h"
#include "apps/synth_shapes.h"
#include "base/strings.h"
#include "spec/module_naming.h"

namespace aril {
namespace {

// Small against the projections' outputs, which are of order 1, but not negligible.
constexpr double kBiasStd = 0.1;
constexpr double kNormOffsetStd = 0.1;

SynthTensor Matrix(const std::string& name, int64_t out, int64_t in) {
  return {name, {out, in}, 1.0 / std::sqrt(static_cast<double>(in))};
}

// Ones, or what is near them where a file holds the difference.
SynthTensor Norm(const ModelSpec& spec, const std::string& name, int64_t size) {
  return {name + ".weight", {size}, spec.unit_offset_norms ? kNormOffsetStd : 0};
}

bool HasBias(const ModelSpec& spec, Site site) {
  if (site.is_router()) return false;
  switch (site.projection()) {
    case Projection::kQ:
    case Projection::kK:
    case Projection::kV:
      return spec.qkv_bias;
    case Projection::kO:
      return spec.o_bias;
    case Projection::kGate:
    case Projection::kUp:
    case Projection::kDown:
    case Projection::kDeltaQkv:
    case Projection::kDeltaZ:
    case Projection::kDeltaB:
    case Projection::kDeltaA:
    case Projection::kDeltaOut:
      break;
  }
  return false;
}

// Of what is no linear module in linear attention.
void PlanLinearAttention(const LinearAttentionSpec& linear, const std::string& prefix,
                         std::vector<SynthTensor>* tensors) {
  tensors->push_back({prefix + "conv1d.weight",
                      {linear.num_channels(), 1, linear.conv_size},
                      1 / std::sqrt(static_cast<double>(linear.conv_size))});
  tensors->push_back({prefix + "A_log", {linear.num_value_heads}, 1});
  tensors->push_back({prefix + "dt_bias", {linear.num_value_heads}, 1});
  tensors->push_back({prefix + "norm.weight", {linear.value_dim}, 0});
}

void PlanLayer(const ModelSpec& spec, int64_t layer, std::vector<SynthTensor>* tensors) {
  const std::string prefix = kTextNaming.Layer(layer) + ".";
  const auto add_norm = [&](const char* name, int64_t size) {
    tensors->push_back(Norm(spec, prefix + name, size));
  };
  const auto add_norms_before_mlp = [&] {
    add_norm("post_attention_layernorm", spec.hidden_size);
    if (spec.output_norms) add_norm("pre_feedforward_layernorm", spec.hidden_size);
  };
  add_norm("input_layernorm", spec.hidden_size);
  for (const LinearModule& linear : spec.LinearModules(layer)) {
    // A router's scores are of order 1: neither all experts weigh alike, nor one alone.
    if (linear.first == Projection::kGate || linear.first.is_router()) add_norms_before_mlp();
    const std::string module = prefix + linear.path;
    const int64_t out = spec.OutFeatures(linear);
    tensors->push_back(Matrix(module + ".weight", out, spec.InFeatures(linear)));
    if (HasBias(spec, linear.first)) tensors->push_back({module + ".bias", {out}, kBiasStd});
  }
  if (spec.output_norms) add_norm("post_feedforward_layernorm", spec.hidden_size);
  if (spec.IsLinear(layer)) {
    PlanLinearAttention(*spec.linear_attention, prefix + "linear_attn.", tensors);
  } else if (spec.qk_norm) {
    add_norm("self_attn.q_norm", spec.head_dim);
    add_norm("self_attn.k_norm", spec.head_dim);
  }
}

using Shard = std::vector<SynthTensor>;

// In order; a new shard starts where the next tensor would not fit.
std::vector<Shard> SplitIntoShards(const std::vector<SynthTensor>& tensors, DType dtype,
                                   uint64_t max_shard_bytes) {
  std::vector<Shard> shards(1);
  uint64_t used_bytes = 0;
  for (const SynthTensor& tensor : tensors) {
    const uint64_t size_bytes = TotalBytes({tensor}, dtype);
    if (used_bytes > 0 && used_bytes + size_bytes > max_shard_bytes) {
      shards.emplace_back();
      used_bytes = 0;
    }
    shards.back().push_back(tensor);
    used_bytes += size_bytes;
  }
  return shards;
}

// "model-00002-of-00007.safetensors"
std::string ShardName(size_t index, size_t count) {
  if (count == 1) return "model.safetensors";
  std::ostringstream name;
  name << std::setfill('0') << "model-" << std::setw(5) << index + 1 << "-of-" << std::setw(5)
       << count << ".safetensors";
  return name.str();
}

Json MakeIndex(const std::vector<Shard>& shards, uint64_t total_bytes) {
  Json::Object weight_map;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const SynthTensor& tensor : shards[i]) {
      weight_map.emplace_back(tensor.name, ShardName(i, shards.size()));
    }
  }
  return Json::Object{{"metadata", Json::Object{{"total_size", static_cast<int64_t>(total_bytes)}}},
                      {"weight_map", std::move(weight_map)}};
}

Json MakeGenerationConfig(const Json& config) {
  return Json::Object{{"_from_model_config", true},
                      {"bos_token_id", *config.Find("bos_token_id")},
                      {"eos_token_id", *config.Find("eos_token_id")}};
}

}  // namespace

std::vector<SynthTensor> PlanModelTensors(const ModelSpec& spec) {
  std::vector<SynthTensor> tensors = {
      Matrix("model.embed_tokens.weight", spec.vocab_size, spec.hidden_size)};
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    PlanLayer(spec, layer, &tensors);
  }
  tensors.push_back(Norm(spec, "model.norm", spec.hidden_size));
  if (!spec.tie_word_embeddings) {
    tensors.push_back(Matrix("lm_head.weight", spec.vocab_size, spec.hidden_size));
  }
  return tensors;
}

uint64_t TotalBytes(const std::vector<SynthTensor>& tensors, DType dtype) {
  uint64_t total = 0;
  for (const SynthTensor& tensor : tensors) {
    total += static_cast<uint64_t>(tensor.num_elements()) * SizeOf(dtype);
  }
  return total;
}

StatusOr<SynthModel> PlanSynthModel(const SynthModelOptions& options) {
  SynthModel model;
  ASSIGN_OR_RETURN(model.config, SynthShapeConfig(options.shape, options.dtype));
  for (auto& [key, value] : *model.config.AsObject()) {
    if (key != "max_position_embeddings") continue;
    value = std::max(*value.AsInt(), options.min_positions);
  }
  ASSIGN_OR_RETURN(model.spec, ParseModelSpec(model.config, nullptr));
  model.tensors = PlanModelTensors(model.spec);
  model.total_bytes = TotalBytes(model.tensors, options.dtype);
  return model;
}

Status WriteSynthModel(const SynthModelOptions& options, const SynthModel& model, ThreadPool& pool,
                       const OnBytesWritten& on_bytes_written) {
  const std::string dir = options.out_dir + "/";
  RETURN_IF_ERROR(CreateEmptyDirectory(options.out_dir));
  if (!options.tokenizer_dir.empty()) {
    RETURN_IF_ERROR(CopyTokenizerFiles(options.tokenizer_dir, options.out_dir));
  }
  SynthWeights weights(options.dtype);
  const auto shards = SplitIntoShards(model.tensors, options.dtype, options.max_shard_bytes);
  for (size_t i = 0; i < shards.size(); ++i) {
    RETURN_IF_ERROR(weights.WriteFile(dir + ShardName(i, shards.size()), shards[i], options.seed,
                                      pool, on_bytes_written));
  }
  if (shards.size() > 1) {
    RETURN_IF_ERROR(
        WriteJsonFile(dir + "model.safetensors.index.json", MakeIndex(shards, model.total_bytes)));
  }
  // Last: a directory with a config.json is complete.
  RETURN_IF_ERROR(
      WriteJsonFile(dir + "generation_config.json", MakeGenerationConfig(model.config)));
  return WriteJsonFile(dir + "config.json", model.config);
}

}  // namespace aril
