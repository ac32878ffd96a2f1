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

StatusOr<TensorMap> TextTensors(const TensorMap& tensors, const ModelSpec& spec) {
  ModuleNaming naming = FindModuleNaming(tensors, "");
  if (!spec.is_multimodal) naming = {kTextNaming.decoder, kTextNaming.lm_head, naming.experts};
  if (!spec.experts) naming.experts = kTextNaming.experts;
  TensorMap text;
  for (const auto& [name, tensor] : tensors) {
    if (spec.is_multimodal && IsOfVision(name)) continue;
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
                   checkpoint.Get(name, {spec.OutFeatures(module), spec.InFeatures(module)}));
  std::vector<NamedRows> parts;
  for (int64_t i = 0; i < module.num_sites; ++i) {
    const Site site = module.At(i);
    parts.emplace_back(kTextNaming.InLayer(layer, site.Path()) + ".weight", spec.OutFeatures(site));
  }
  return Replace(name, whole, parts, tensors);
}

StatusOr<TensorMap> Parted(const Checkpoint& checkpoint, const ModelSpec& spec) {
  TensorMap tensors = checkpoint.tensors();
  const std::vector<LinearModule> modules = spec.LinearModules();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const LinearModule& module : modules) {
      if (module.num_sites == 1) continue;
      RETURN_IF_ERROR(Part(checkpoint, spec, layer, module, &tensors));
    }
  }
  return tensors;
}

// Puts the matrices of each expert in the place of one tensor, which transformers 5 saves with
// save_original_format=False.
Status PartExperts(const Checkpoint& checkpoint, const ModelSpec& spec, int64_t layer,
                   const StackedExperts& stack, TensorMap* tensors) {
  const std::string name = kTextNaming.InLayer(layer, stack.path);
  const int64_t rows = stack.num_projections * spec.OutFeatures(stack.first);
  const int64_t cols = spec.InFeatures(stack.first);
  ASSIGN_OR_RETURN(const TensorView all, checkpoint.Get(name, {spec.experts->count, rows, cols}));
  std::vector<NamedRows> parts;
  for (int64_t expert = 0; expert < spec.experts->count; ++expert) {
    for (int64_t i = 0; i < stack.num_projections; ++i) {
      const Site site = stack.At(expert, i);
      parts.emplace_back(kTextNaming.InLayer(layer, site.Path()) + ".weight",
                         spec.OutFeatures(site));
    }
  }
  const TensorView stacked{all.data, all.dtype, {spec.experts->count * rows, cols}};
  return Replace(name, stacked, parts, tensors);
}

StatusOr<TensorMap> WithPartedExperts(const Checkpoint& checkpoint, const ModelSpec& spec) {
  TensorMap tensors = checkpoint.tensors();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const StackedExperts& stack : kStackedExperts) {
      if (!tensors.contains(kTextNaming.InLayer(layer, stack.path))) continue;
      RETURN_IF_ERROR(PartExperts(checkpoint, spec, layer, stack, &tensors));
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
  if (spec.is_multimodal || spec.experts) {
    RETURN_IF_ERROR(Rename(TextTensors(checkpoint.tensors(), spec), model_dir, &checkpoint));
  }
  if (spec.fused_modules) {
    RETURN_IF_ERROR(Rename(Parted(checkpoint, spec), model_dir, &checkpoint));
  }
  if (spec.experts) {
    RETURN_IF_ERROR(Rename(WithPartedExperts(checkpoint, spec), model_dir, &checkpoint));
  }
  return checkpoint;
}

}  // namespace aril
