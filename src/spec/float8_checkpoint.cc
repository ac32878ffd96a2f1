// Sources of the formats: transformers (integrations/finegrained_fp8.py, fbgemm_fp8.py); AutoFP8
// (auto_fp8/quantize.py); compressed-tensors (compressors/naive_quantized, "float-quantized").

#include "spec/float8_checkpoint.h"

#include <string_view>

#include "base/checked.h"
#include "base/strings.h"
#include "spec/module_tensors.h"

namespace aril {
namespace {

constexpr std::string_view kLevels = ".weight";
constexpr std::string_view kScales = ".weight_scale";
// Called so by who divided by it when the weights were made: they are multiplied with it.
constexpr std::string_view kScalesOfBlocks = ".weight_scale_inv";
constexpr std::string_view kScalesOfInputs[] = {".input_scale", ".activation_scale"};

Status ReadScales(const Float8Spec& spec, ModuleTensors& parts, Float8View* view) {
  const bool is_inverse = parts.Find(kScalesOfBlocks) != nullptr;
  const std::string_view name = is_inverse ? kScalesOfBlocks : kScales;
  const std::vector<DType> dtypes = {DType::kF32, DType::kBF16, DType::kF16};
  if (spec.block) {
    view->block_rows = spec.block->outputs;
    view->block_cols = spec.block->inputs;
    const std::string blocks =
        StrCat(" in blocks of ", spec.block->outputs, " by ", spec.block->inputs);
    ASSIGN_OR_RETURN(view->scales,
                     parts.Take(name, dtypes,
                                {CeilDiv(view->rows(), view->block_rows), view->blocks()}, blocks));
    return OkStatus();
  }
  ASSIGN_OR_RETURN(view->scales, parts.Take(name, dtypes));
  const Shape& shape = view->scales.shape;
  const bool is_of_outputs = shape == Shape{view->rows(), 1} || shape == Shape{view->rows()};
  if (!is_of_outputs && shape != Shape{} && shape != Shape{1} && shape != Shape{1, 1}) {
    return parts.OtherShape(name, view->scales,
                            StrCat(ToString({view->rows(), 1}), " or [1], as of ",
                                   parts.Quoted(kLevels), " without blocks"));
  }
  view->block_rows = is_of_outputs ? 1 : view->rows();
  view->block_cols = view->cols();
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
    RETURN_IF_ERROR(parts.Take(name, {DType::kF32, DType::kBF16, DType::kF16}).status());
  }
  return view;
}

}  // namespace

StatusOr<Float8Map> TakeFloat8Matrices(const Float8Spec& spec, TensorMap* tensors) {
  Float8Map matrices;
  for (const std::string& module : ModulesWith(kLevels, *tensors)) {
    if (tensors->at(StrCat(module, kLevels)).dtype != DType::kF8E4M3) continue;
    ASSIGN_OR_RETURN(matrices[StrCat(module, kLevels)], ReadModule(spec, module, tensors));
  }
  return matrices;
}

}  // namespace aril
