#include "spec/base_checkpoint.h"

#include <utility>

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

// Puts the projections of a module in its place. All of its outputs are rows of the weight.
Status Part(const Checkpoint& checkpoint, const ModelSpec& spec, int64_t layer,
            const LinearModule& module, TensorMap* tensors) {
  const std::string name = kTextNaming.InLayer(layer, module.path) + ".weight";
  ASSIGN_OR_RETURN(const TensorView whole,
                   checkpoint.Get(name, {spec.OutFeatures(module),
                                         spec.InFeatures(module.projections.front())}));
  tensors->erase(name);
  int64_t first = 0;
  for (const Projection projection : module.projections) {
    const int64_t count = spec.OutFeatures(projection);
    RETURN_IF_ERROR(Add(kTextNaming.InLayer(layer, ModulePath(projection)) + ".weight",
                        whole.Rows(first, count), name, tensors));
    first += count;
  }
  return OkStatus();
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

}  // namespace

StatusOr<Checkpoint> OpenBaseCheckpoint(const std::string& model_dir, const ModelSpec& spec) {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(model_dir));
  if (spec.is_multimodal) {
    auto tensors = TextTensors(checkpoint.tensors());
    if (!tensors.ok()) return Annotate(tensors.status(), model_dir);
    checkpoint.ShowAs(*std::move(tensors));
  }
  if (spec.fused_modules) {
    auto tensors = Parted(checkpoint, spec);
    if (!tensors.ok()) return Annotate(tensors.status(), model_dir);
    checkpoint.ShowAs(*std::move(tensors));
  }
  return checkpoint;
}

}  // namespace aril
