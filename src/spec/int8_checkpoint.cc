// Source of the format: compressed-tensors (compressors/naive_quantized, "int-quantized").

#include "spec/int8_checkpoint.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/strings.h"
#include "spec/module_tensors.h"

namespace aril {
namespace {

constexpr std::string_view kLevels = ".weight";
constexpr std::string_view kScales = ".weight_scale";
constexpr std::string_view kZeros = ".weight_zero_point";

StatusOr<Int8View> ReadModule(const std::string& module, TensorMap* tensors) {
  ModuleTensors parts(module, kLevels, tensors);
  Int8View view;
  ASSIGN_OR_RETURN(view.levels, parts.Take(kLevels, {DType::kI8}));
  if (view.levels.shape.size() != 2 || view.levels.num_elements() == 0) {
    return parts.OtherShape(kLevels, view.levels, "a matrix");
  }
  const Shape of_outputs = {view.rows(), 1};
  ASSIGN_OR_RETURN(view.scales,
                   parts.Take(kScales, {DType::kF16, DType::kBF16, DType::kF32}, of_outputs));
  // Some versions write it, though it says nothing.
  if (parts.Find(kZeros) != nullptr) {
    ASSIGN_OR_RETURN(const TensorView zeros, parts.Take(kZeros, {DType::kI8}, of_outputs));
    if (std::any_of(zeros.data, zeros.data + zeros.size_bytes(),
                    [](std::byte zero) { return zero != std::byte{0}; })) {
      return Unimplemented(StrCat("tensor ", parts.Quoted(kZeros),
                                  " has zero points that are not 0, which bytes cannot have"));
    }
  }
  return view;
}

}  // namespace

StatusOr<Int8Map> TakeInt8Matrices(TensorMap* tensors) {
  Int8Map matrices;
  for (const std::string& module : ModulesWith(kLevels, *tensors)) {
    if (tensors->at(StrCat(module, kLevels)).dtype != DType::kI8) continue;
    ASSIGN_OR_RETURN(matrices[StrCat(module, kLevels)], ReadModule(module, tensors));
  }
  return matrices;
}

}  // namespace aril
