#include "apps/synth_adapters.h"

#include <cmath>
#include <iomanip>
#include <set>
#include <sstream>

#include "apps/synth_files.h"
#include "apps/synth_model.h"
#include "base/strings.h"

namespace aril {
namespace {

// Wx is of order 1, and so is Ax: an adapter must show in the result without drowning the model.
constexpr double kDeltaStd = 0.25;
// The usual choice, lora_alpha = 2 r, gives s = 2.
constexpr int64_t kAlphaPerRank = 2;
constexpr int kMaxCount = 1'000'000;

Json MakeConfig(const SynthAdaptersOptions& options, const Json& target_modules, int64_t rank) {
  return Json::Object{{"peft_type", "LORA"},
                      {"task_type", "CAUSAL_LM"},
                      {"base_model_name_or_path", options.model_dir},
                      {"inference_mode", true},
                      {"r", rank},
                      {"lora_alpha", kAlphaPerRank * rank},
                      {"lora_dropout", 0.0},
                      {"use_rslora", false},
                      {"use_dora", false},
                      {"bias", "none"},
                      {"fan_in_fan_out", false},
                      {"init_lora_weights", true},
                      {"target_modules", target_modules},
                      {"modules_to_save", nullptr},
                      {"rank_pattern", Json::Object()},
                      {"alpha_pattern", Json::Object()}};
}

// PEFT saves what "all-linear" stood for, not the shorthand.
Json SavedTargets(const SynthAdaptersOptions& options, const ModelSpec& base) {
  const std::vector<std::string>& targets = options.targets;
  Json::Array names;
  std::set<std::string> seen;
  if (AreAllLinear(targets)) {
    for (const int64_t layer : base.LayersOfEachKind()) {
      for (const LinearModule& module : base.LinearModules(layer)) {
        const std::string name(Name(module));
        if (seen.insert(name).second) names.emplace_back(name);
        // All others' modules have the same names.
        if (module.first == Site::OfExpert(0, Projection::kDown)) break;
      }
    }
  } else {
    for (const std::string& target : targets) names.emplace_back(target);
  }
  return names;
}

std::string AdapterName(int index) {
  std::ostringstream name;
  name << "adapter-" << std::setfill('0') << std::setw(4) << index;
  return name.str();
}

Status CheckOptions(const SynthAdaptersOptions& options) {
  if (options.count < 1 || options.count > kMaxCount) {
    return InvalidArgument(StrCat("count is ", options.count, "; expected 1 to ", kMaxCount));
  }
  if (options.ranks.empty()) return InvalidArgument("ranks is empty; name at least one");
  if (options.targets.empty()) return InvalidArgument("targets is empty; name at least one");
  return OkStatus();
}

}  // namespace

bool AreAllLinear(const std::vector<std::string>& targets) {
  return targets.size() == 1 && targets.front() == "all-linear";
}

std::vector<SynthTensor> PlanAdapterTensors(const ModelSpec& model, const LoraSpec& adapter) {
  std::vector<SynthTensor> tensors;
  const LayerModules modules(model);
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    for (const LinearModule& linear : modules[layer]) {
      const LoraModule& lora = adapter.At(layer, linear.first);
      if (lora.rank == 0) continue;
      const double b_std = kDeltaStd / (lora.scale * std::sqrt(static_cast<double>(lora.rank)));
      const std::string module =
          StrCat("base_model.model.", kTextNaming.InLayer(layer, linear.path));
      const int64_t in = model.InFeatures(linear);
      const int64_t out = model.OutFeatures(linear);
      tensors.push_back(
          {module + ".lora_A.weight", {lora.rank, in}, 1.0 / std::sqrt(static_cast<double>(in))});
      tensors.push_back({module + ".lora_B.weight", {out, lora.rank}, b_std});
    }
  }
  return tensors;
}

StatusOr<SynthAdapters> PlanSynthAdapters(const SynthAdaptersOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  SynthAdapters adapters;
  ASSIGN_OR_RETURN(adapters.model, LoadModelSpec(options.model_dir));
  const Json targets = SavedTargets(options, adapters.model);
  std::vector<uint64_t> bytes;
  for (const int64_t rank : options.ranks) {
    adapters.configs.push_back(MakeConfig(options, targets, rank));
    ASSIGN_OR_RETURN(const LoraConfig config, ParseLoraConfig(adapters.configs.back()));
    ASSIGN_OR_RETURN(adapters.specs.emplace_back(), ResolveLora(config, adapters.model));
    if (const std::string& unmatched = adapters.specs.back().unmatched_targets;
        !unmatched.empty()) {
      return InvalidArgument(
          StrCat("\"target_modules\" names ", unmatched, ", which this base model does not have"));
    }
    bytes.push_back(
        TotalBytes(PlanAdapterTensors(adapters.model, adapters.specs.back()), options.dtype));
  }
  for (int i = 0; i < options.count; ++i) {
    adapters.total_bytes += bytes[static_cast<size_t>(i) % bytes.size()];
  }
  return adapters;
}

Status WriteSynthAdapters(const SynthAdaptersOptions& options, const SynthAdapters& adapters,
                          ThreadPool& pool, const OnBytesWritten& on_bytes_written) {
  RETURN_IF_ERROR(CreateEmptyDirectory(options.out_dir));
  SynthWeights weights(options.dtype);
  for (int i = 0; i < options.count; ++i) {
    const std::string name = AdapterName(i);
    const std::string dir = options.out_dir + "/" + name;
    const size_t kind = static_cast<size_t>(i) % adapters.specs.size();
    std::vector<SynthTensor> tensors = PlanAdapterTensors(adapters.model, adapters.specs[kind]);
    RETURN_IF_ERROR(CreateEmptyDirectory(dir));
    // Weights differ between adapters by their seeds.
    const uint64_t seed = SynthSeed(options.seed, name);
    RETURN_IF_ERROR(weights.WriteFile(dir + "/adapter_model.safetensors", tensors, seed, pool,
                                      on_bytes_written));
    RETURN_IF_ERROR(WriteJsonFile(dir + "/adapter_config.json", adapters.configs[kind]));
  }
  return OkStatus();
}

}  // namespace aril
