// Sources of the formats: transformers (integrations/finegrained_fp8.py, fbgemm_fp8.py); AutoFP8
// (auto_fp8/quantize.py); compressed-tensors (compressors/naive_quantized, "float-quantized").

#include "spec/float8_checkpoint.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/strings.h"
#include "spec/module_tensors.h"

namespace aril {
namespace {

constexpr std::string_view kLevels = ".weight";
constexpr std::string_view kScales = ".weight_scale";
// Called so by who divided by it when the weights were made: they are multiplied with it.
constexpr std::string_view kScalesInv = ".weight_scale_inv";
// Of what nobody rounds: of a module's inputs, and of KV.
constexpr std::string_view kScalesOfInputs[] = {".input_scale", ".activation_scale", ".act_scale"};
constexpr std::string_view kScalesOfKv[] = {".k_scale",  ".v_scale",
                                            ".q_scale",  ".k_proj.output_scale",
                                            ".kv_scale", ".v_proj.output_scale"};
std::vector<DType> ScaleDTypes() { return {DType::kF32, DType::kBF16, DType::kF16}; }

// transformers', where config.json does not say it (FineGrainedFP8Config).
constexpr Float8Spec::Block kUsualBlock = {.outputs = 128, .inputs = 128};

Shape BlocksOf(const Shape& shape, const Float8Spec::Block& block) {
  return {CeilDiv(shape[0], block.outputs), CeilDiv(shape[1], block.inputs)};
}

void SetBlocks(const Float8Spec::Block& block, Float8View* view) {
  view->block_rows = block.outputs;
  view->block_cols = block.inputs;
}

Status ReadScales(const Float8Spec& spec, ModuleTensors& parts, Float8View* view) {
  if (parts.Find(kScalesInv) == nullptr && parts.Find(kScales) == nullptr) {
    return InvalidArgument(StrCat("neither tensor ", parts.Quoted(kScales), " nor ",
                                  parts.Quoted(kScalesInv), " is there beside ",
                                  parts.Quoted(kLevels)));
  }
  const std::string_view name = parts.Find(kScalesInv) != nullptr ? kScalesInv : kScales;
  const Shape& of_levels = view->shape();
  if (spec.block) {
    SetBlocks(*spec.block, view);
    const std::string blocks = StrCat(" in blocks of ", spec.block->outputs, " by ",
                                      spec.block->inputs, ", as quantization_config says");
    ASSIGN_OR_RETURN(view->scales,
                     parts.Take(name, ScaleDTypes(), BlocksOf(of_levels, *spec.block), blocks));
    return OkStatus();
  }
  ASSIGN_OR_RETURN(view->scales, parts.Take(name, ScaleDTypes()));
  const Shape& shape = view->scales.shape;
  const int64_t rows = of_levels[0], cols = of_levels[1];
  if (shape == Shape{rows, 1} || shape == Shape{rows}) {
    SetBlocks({.outputs = 1, .inputs = cols}, view);
  } else if (view->scales.num_elements() == 1) {
    SetBlocks({.outputs = rows, .inputs = cols}, view);
  } else if (shape == BlocksOf(of_levels, kUsualBlock)) {
    SetBlocks(kUsualBlock, view);
  } else {
    return parts.OtherShape(name, view->scales,
                            StrCat(ToString({rows, 1}), " or [1], as of ", parts.Quoted(kLevels),
                                   ", or quantization_config to say the size of blocks"));
  }
  return OkStatus();
}

StatusOr<Float8View> ReadModule(const Float8Spec& spec, const std::string& module,
                                TensorMap* tensors) {
  ModuleTensors parts(module, kLevels, tensors);
  Float8View view;
  ASSIGN_OR_RETURN(view.levels, parts.Take(kLevels, {DType::kF8E4M3}));
  if (view.levels.shape.size() != 2 || view.levels.num_elements() == 0) {
    return parts.OtherShape(kLevels, view.levels, "a matrix");
  }
  RETURN_IF_ERROR(ReadScales(spec, parts, &view));
  for (const std::string_view name : kScalesOfInputs) {
    if (parts.Find(name) == nullptr) continue;
    RETURN_IF_ERROR(parts.Take(name, ScaleDTypes()).status());
  }
  return view;
}

// Also of what is refused, by its type.
bool IsFloat8(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }

bool IsOfKv(const std::string& name) {
  return std::ranges::any_of(kScalesOfKv,
                             [&](std::string_view end) { return name.ends_with(end); });
}

}  // namespace

StatusOr<Float8Map> TakeFloat8Matrices(const Float8Spec& spec, TensorMap* tensors) {
  Float8Map matrices;
  for (const std::string& module : ModulesWith(kLevels, *tensors)) {
    if (!IsFloat8(tensors->at(StrCat(module, kLevels)).dtype)) continue;
    ASSIGN_OR_RETURN(matrices[StrCat(module, kLevels)], ReadModule(spec, module, tensors));
  }
  std::erase_if(*tensors, [](const auto& tensor) { return IsOfKv(tensor.first); });
  return matrices;
}

}  // namespace aril
