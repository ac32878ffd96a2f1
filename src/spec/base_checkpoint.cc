#include "spec/base_checkpoint.h"

#include <utility>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "spec/module_naming.h"

namespace aril {
namespace {

Status Add(const std::string& name, const TensorView& tensor, const std::string& in_file,
           TensorMap* tensors) {
  if (tensors->emplace(name, tensor).second) return OkStatus();
  return InvalidArgument(StrCat("tensor ", JsonQuote(in_file), " stands for ", name,
                                ", which is there without it, too"));
}

StatusOr<TensorMap> TextTensors(const TensorMap& tensors) {
  const ModuleNaming& naming = FindModuleNaming(tensors, "");
  TensorMap text;
  for (const auto& [name, tensor] : tensors) {
    if (IsOfVision(name)) continue;
    RETURN_IF_ERROR(Add(TextName(name, naming), tensor, name, &text));
  }
  return text;
}

// A tensor's name and how many rows it has.
using NamedRows = std::pair<std::string, int64_t>;

// Puts `parts`, which are its rows, one below the other, in the place of a tensor.
Status Replace(const std::string& name, const TensorView& rows, const std::vector<NamedRows>& parts,
               TensorMap* tensors) {
  tensors->erase(name);
  int64_t first = 0;
  for (const auto& [part, count] : parts) {
    RETURN_IF_ERROR(Add(part, rows.Rows(first, count), name, tensors));
    first += count;
  }
  return OkStatus();
}

// Puts the projections of a module in its place.
Status Part(const Checkpoint& checkpoint, const ModelSpec& spec, int64_t layer,
            const LinearModule& module, TensorMap* tensors) {
  const std::string name = kTextNaming.InLayer(layer, module.path) + ".weight";
  ASSIGN_OR_RETURN(const TensorView whole,
                   checkpoint.Get(name, {spec.OutFeatures(module),
                                         spec.InFeatures(module.projections.front())}));
  std::vector<NamedRows> parts;
  for (const Projection projection : module.projections) {
    parts.emplace_back(kTextNaming.InLayer(layer, ModulePath(projection)) + ".weight",
                       spec.OutFeatures(projection));
  }
  return Replace(name, whole, parts, tensors);
}

StatusOr<TensorMap> Parted(const Checkpoint& checkpoint, const ModelSpec& spec) {
  TensorMap tensors = checkpoint.tensors();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const LinearModule& module : spec.LinearModules()) {
      if (module.projections.size() == 1) continue;
      RETURN_IF_ERROR(Part(checkpoint, spec, layer, module, &tensors));
    }
  }
  return tensors;
}

// Mixtral's name of what is in a layer, as Qwen3-MoE has it; others stay as they are.
std::string ExpertsName(const std::string& name) {
  constexpr std::string_view kMixture = ".block_sparse_moe.";
  constexpr std::pair<std::string_view, std::string_view> kProjections[] = {
      {".w1.weight", ".gate_proj.weight"},
      {".w3.weight", ".up_proj.weight"},
      {".w2.weight", ".down_proj.weight"}};
  const size_t mixture = name.find(kMixture);
  if (mixture == std::string::npos) return name;
  std::string renamed = name;
  renamed.replace(mixture, kMixture.size(), ".mlp.");
  for (const auto& [theirs, ours] : kProjections) {
    if (!renamed.ends_with(theirs)) continue;
    renamed.replace(renamed.size() - theirs.size(), theirs.size(), ours);
    break;
  }
  return renamed;
}

StatusOr<TensorMap> WithExpertsNames(const TensorMap& tensors) {
  TensorMap renamed;
  for (const auto& [name, tensor] : tensors) {
    RETURN_IF_ERROR(Add(ExpertsName(name), tensor, name, &renamed));
  }
  return renamed;
}

// What transformers 5 saves of a layer's experts with save_original_format=False: a matrix of each
// in one tensor [experts, rows, cols], its projections one below the other.
constexpr Projection kGateUp[] = {Projection::kGate, Projection::kUp};
constexpr Projection kDown[] = {Projection::kDown};
constexpr LinearModule kOfAllExperts[] = {{"mlp.experts.gate_up_proj", kGateUp},
                                          {"mlp.experts.down_proj", kDown}};

// Puts those of each expert in its place.
Status PartExperts(const Checkpoint& checkpoint, const ModelSpec& spec, int64_t layer,
                   const LinearModule& module, TensorMap* tensors) {
  const std::string name = kTextNaming.InLayer(layer, module.path);
  const int64_t rows = spec.OutFeatures(module);
  const int64_t cols = spec.InFeatures(module.projections.front());
  ASSIGN_OR_RETURN(const TensorView all, checkpoint.Get(name, {spec.experts->count, rows, cols}));
  std::vector<NamedRows> parts;
  for (int64_t expert = 0; expert < spec.experts->count; ++expert) {
    for (const Projection projection : module.projections) {
      parts.emplace_back(kTextNaming.InLayer(layer, ExpertPath(expert, projection)) + ".weight",
                         spec.OutFeatures(projection));
    }
  }
  const TensorView stacked{all.data, all.dtype, {spec.experts->count * rows, cols}};
  return Replace(name, stacked, parts, tensors);
}

StatusOr<TensorMap> WithPartedExperts(const Checkpoint& checkpoint, const ModelSpec& spec) {
  TensorMap tensors = checkpoint.tensors();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const LinearModule& module : kOfAllExperts) {
      if (!tensors.contains(kTextNaming.InLayer(layer, module.path))) continue;
      RETURN_IF_ERROR(PartExperts(checkpoint, spec, layer, module, &tensors));
    }
  }
  return tensors;
}

// Shows the checkpoint by the names of `tensors`.
Status Rename(StatusOr<TensorMap> tensors, const std::string& model_dir, Checkpoint* checkpoint) {
  if (!tensors.ok()) return Annotate(tensors.status(), model_dir);
  checkpoint->ShowAs(*std::move(tensors));
  return OkStatus();
}

}  // namespace

StatusOr<Checkpoint> OpenBaseCheckpoint(const std::string& model_dir, const ModelSpec& spec) {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(model_dir));
  if (spec.is_multimodal) {
    RETURN_IF_ERROR(Rename(TextTensors(checkpoint.tensors()), model_dir, &checkpoint));
  }
  if (spec.fused_modules) {
    RETURN_IF_ERROR(Rename(Parted(checkpoint, spec), model_dir, &checkpoint));
  }
  if (spec.experts) {
    RETURN_IF_ERROR(Rename(WithExpertsNames(checkpoint.tensors()), model_dir, &checkpoint));
    RETURN_IF_ERROR(Rename(WithPartedExperts(checkpoint, spec), model_dir, &checkpoint));
  }
  return checkpoint;
}

}  // namespace aril
