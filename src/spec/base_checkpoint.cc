#include "spec/base_checkpoint.h"

#include <functional>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "spec/codebook4_checkpoint.h"
#include "spec/float8_checkpoint.h"
#include "spec/int4_checkpoint.h"
#include "spec/int8_checkpoint.h"
#include "spec/module_naming.h"
#include "spec/mxfp4_checkpoint.h"

namespace aril {
namespace {

template <typename View>
Status Add(const std::string& name, const View& view, const std::string& in_file,
           std::map<std::string, View, std::less<>>* views) {
  if (views->emplace(name, view).second) return OkStatus();
  return InvalidArgument(StrCat("tensor ", JsonQuote(in_file), " stands for ", name,
                                ", which is there without it, too"));
}

bool IsQwen35(const ModelSpec& spec) { return spec.gated_queries; }

// transformers reads text models of Qwen3.5 from the files of those that see, too, and saves them
// by the names that it has read.
bool MayHaveVision(const ModelSpec& spec) { return spec.is_multimodal || IsQwen35(spec); }

// What transformers does not read of a text model's files either: what it sees with, and what
// Qwen3.5 guesses tokens ahead with.
bool IsPassedOver(std::string_view name, const ModelSpec& spec) {
  return (MayHaveVision(spec) && IsOfVision(name)) || (IsQwen35(spec) && name.starts_with("mtp."));
}

Status CallAsText(const ModelSpec& spec, Checkpoint* checkpoint) {
  const TensorMap& tensors = checkpoint->tensors();
  ModuleNaming naming = FindModuleNaming(tensors, "", spec);
  if (naming.is_multimodal() && !MayHaveVision(spec)) {
    naming = {kTextNaming.decoder, kTextNaming.lm_head, naming.experts};
  }
  TensorMap text;
  for (const auto& [name, tensor] : tensors) {
    if (IsPassedOver(name, spec)) continue;
    RETURN_IF_ERROR(Add(TextName(name, naming), tensor, name, &text));
  }
  checkpoint->ShowAs(std::move(text), {});
  return OkStatus();
}

StatusOr<MatrixMap> TakeQuantized(const ModelSpec& model, TensorMap* tensors) {
  const QuantizedSpec& spec = *model.quantized;
  if (const auto* const int4 = std::get_if<Int4Spec>(&spec); int4 != nullptr) {
    ASSIGN_OR_RETURN(const Int4Map matrices, TakeInt4Matrices(*int4, tensors));
    return MatrixMap(matrices.begin(), matrices.end());
  }
  if (const auto* const float8 = std::get_if<Float8Spec>(&spec); float8 != nullptr) {
    ASSIGN_OR_RETURN(const Float8Map matrices, TakeFloat8Matrices(*float8, tensors));
    return MatrixMap(matrices.begin(), matrices.end());
  }
  if (std::holds_alternative<Codebook4Spec>(spec)) {
    ASSIGN_OR_RETURN(const Codebook4Map matrices, TakeCodebook4Matrices(tensors));
    return MatrixMap(matrices.begin(), matrices.end());
  }
  if (std::holds_alternative<Mxfp4Spec>(spec)) {
    ASSIGN_OR_RETURN(const Codebook4Map matrices, TakeMxfp4Matrices(model, tensors));
    return MatrixMap(matrices.begin(), matrices.end());
  }
  ASSIGN_OR_RETURN(const Int8Map matrices, TakeInt8Matrices(tensors));
  return MatrixMap(matrices.begin(), matrices.end());
}

Status FindQuantized(const ModelSpec& spec, Checkpoint* checkpoint) {
  TensorMap tensors = checkpoint->tensors();
  ASSIGN_OR_RETURN(MatrixMap quantized, TakeQuantized(spec, &tensors));
  if (quantized.empty()) {
    return InvalidArgument(
        "no tensor is one of a module that is quantized as config.json's quantization_config says: "
        "if none is quantized at all, take it out there to serve the model as it is");
  }
  checkpoint->ShowAs(std::move(tensors), std::move(quantized));
  return OkStatus();
}

// A tensor's name and how many rows it has.
using NamedRows = std::pair<std::string, int64_t>;

// Puts `parts`, which are its rows, one below the other, in the place of a matrix.
template <typename View>
Status Replace(const std::string& name, const View& rows, const std::vector<NamedRows>& parts,
               std::map<std::string, View, std::less<>>* matrices) {
  matrices->erase(name);
  int64_t first = 0;
  for (const auto& [part, count] : parts) {
    RETURN_IF_ERROR(Add(part, RowsOf(rows, first, count), name, matrices));
    first += count;
  }
  return OkStatus();
}

// Puts the projections of a module in its place.
Status Part(const Checkpoint& checkpoint, const ModelSpec& spec, int64_t layer,
            const LinearModule& module, TensorMap* tensors, MatrixMap* quantized) {
  const std::string name = kTextNaming.InLayer(layer, module.path) + ".weight";
  ASSIGN_OR_RETURN(const WeightView whole,
                   checkpoint.GetMatrix(name, {spec.OutFeatures(module), spec.InFeatures(module)}));
  std::vector<NamedRows> parts;
  for (int64_t i = 0; i < module.num_sites; ++i) {
    const Site site = module.At(i);
    parts.emplace_back(kTextNaming.InLayer(layer, site.Path()) + ".weight", spec.OutFeatures(site));
  }
  if (IsQuantized(whole)) return Replace(name, whole, parts, quantized);
  return Replace(name, std::get<TensorView>(whole), parts, tensors);
}

Status PartModules(const ModelSpec& spec, Checkpoint* checkpoint) {
  TensorMap tensors = checkpoint->tensors();
  MatrixMap quantized = checkpoint->matrices();
  const LayerModules modules(spec);
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const LinearModule& module : modules[layer]) {
      if (module.num_sites == 1) continue;
      RETURN_IF_ERROR(Part(*checkpoint, spec, layer, module, &tensors, &quantized));
    }
  }
  checkpoint->ShowAs(std::move(tensors), std::move(quantized));
  return OkStatus();
}

// Puts the matrices of each expert in the place of one tensor, which transformers 5 saves with
// save_original_format=False.
Status PartExperts(const Checkpoint& checkpoint, const ModelSpec& spec, int64_t layer,
                   const StackedExperts& stack, TensorMap* tensors) {
  const std::string name = kTextNaming.InLayer(layer, stack.path);
  const int64_t rows = stack.num_projections * spec.OutFeatures(stack.first);
  const int64_t cols = spec.InFeatures(stack.first);
  if (tensors->at(name).dtype == DType::kF8E4M3) {
    return Unimplemented(
        StrCat("tensor ", JsonQuote(name),
               " has all experts in FP8, which is read only if each has tensors of "
               "its own: save the model with save_original_format=True"));
  }
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

// Likewise of gpt-oss, where a tensor has a row for each input, and the outputs of gate and up in
// turns.
Status PartTurnedExperts(const Checkpoint& checkpoint, const ModelSpec& spec, int64_t layer,
                         const StackedExperts& stack, TensorMap* tensors, MatrixMap* matrices) {
  const std::string name = kTextNaming.InLayer(layer, stack.path);
  const int64_t out = spec.OutFeatures(stack.first), in = spec.InFeatures(stack.first);
  const int64_t width = stack.num_projections * out;
  ASSIGN_OR_RETURN(const TensorView all, checkpoint.Get(name, {spec.experts->count, in, width}));
  tensors->erase(name);
  for (int64_t expert = 0; expert < spec.experts->count; ++expert) {
    for (int64_t i = 0; i < stack.num_projections; ++i) {
      const auto first = static_cast<size_t>(expert * in * width + i);
      const StridedView view{.data = all.data + first * SizeOf(all.dtype),
                             .dtype = all.dtype,
                             .rows = out,
                             .cols = in,
                             .row_stride = stack.num_projections,
                             .col_stride = width};
      const std::string path = stack.At(expert, i).Path();
      RETURN_IF_ERROR(Add(StrCat(kTextNaming.InLayer(layer, path), ".weight"), WeightView(view),
                          name, matrices));
    }
  }
  return OkStatus();
}

Status PartAllExperts(const ModelSpec& spec, Checkpoint* checkpoint) {
  TensorMap tensors = checkpoint->tensors();
  MatrixMap matrices = checkpoint->matrices();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const StackedExperts& stack : kStackedExperts) {
      if (!tensors.contains(kTextNaming.InLayer(layer, stack.path))) continue;
      if (spec.experts->is_gpt_oss) {
        RETURN_IF_ERROR(PartTurnedExperts(*checkpoint, spec, layer, stack, &tensors, &matrices));
      } else {
        RETURN_IF_ERROR(PartExperts(*checkpoint, spec, layer, stack, &tensors));
      }
    }
  }
  checkpoint->ShowAs(std::move(tensors), std::move(matrices));
  return OkStatus();
}

Status ShowByKnownNames(const ModelSpec& spec, Checkpoint* checkpoint) {
  RETURN_IF_ERROR(CallAsText(spec, checkpoint));
  if (spec.quantized) RETURN_IF_ERROR(FindQuantized(spec, checkpoint));
  if (spec.fused_modules) RETURN_IF_ERROR(PartModules(spec, checkpoint));
  if (spec.experts) RETURN_IF_ERROR(PartAllExperts(spec, checkpoint));
  for (const auto& [name, matrix] : checkpoint->matrices()) {
    if (!checkpoint->tensors().contains(name)) continue;
    return InvalidArgument(StrCat("tensor ", JsonQuote(name), " is there twice, ",
                                  IsQuantized(matrix) ? "quantized" : "in one of all experts",
                                  " and as it is"));
  }
  return OkStatus();
}

}  // namespace

StatusOr<Checkpoint> OpenBaseCheckpoint(const std::string& model_dir, const ModelSpec& spec) {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(model_dir));
  const Status shown = ShowByKnownNames(spec, &checkpoint);
  if (!shown.ok()) return Annotate(shown, model_dir);
  return checkpoint;
}

}  // namespace aril
