// Source of the format: bitsandbytes (functional.py: QuantState.as_dict).

#include "spec/codebook4_checkpoint.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/json.h"
#include "base/strings.h"
#include "spec/fields.h"
#include "spec/module_tensors.h"

namespace aril {
namespace {

constexpr std::string_view kCodes = ".weight";
constexpr std::string_view kScales = ".weight.absmax";
constexpr std::string_view kCodebook = ".weight.quant_map";
constexpr std::string_view kNestedScales = ".weight.nested_absmax";
constexpr std::string_view kNestedCodebook = ".weight.nested_quant_map";
constexpr std::string_view kStates[] = {".weight.quant_state.bitsandbytes__nf4",
                                        ".weight.quant_state.bitsandbytes__fp4"};

constexpr int64_t kMaxStateBytes = 4096;
constexpr int64_t kMaxBlockSize = int64_t{1} << 30;
constexpr int64_t kMaxDim = int64_t{1} << 31;
constexpr int64_t kBytes = 256;

// What is no tensor: JSON in bytes.
struct State {
  Shape shape;
  int64_t block_size = 0;
  int64_t nested_block_size = 0;
  float nested_offset = 0;
};

StatusOr<State> ParseState(std::string_view text, bool is_nested) {
  ASSIGN_OR_RETURN(const Json json, Json::Parse(text));
  if (json.AsObject() == nullptr) return InvalidArgument("expected an object");
  State state;
  ASSIGN_OR_RETURN(state.block_size, internal::ReadInt(json, {"blocksize", 1, kMaxBlockSize}));
  const Json* const shape = internal::FindField(json, "shape");
  const Json::Array* const sizes = shape == nullptr ? nullptr : shape->AsArray();
  const auto is_size = [](const Json& size) {
    return size.AsInt() != nullptr && *size.AsInt() > 0 && *size.AsInt() < kMaxDim;
  };
  if (sizes == nullptr || sizes->size() != 2 || !std::ranges::all_of(*sizes, is_size)) {
    return internal::BadField(json, "shape", "the two sizes of a matrix");
  }
  state.shape = {*(*sizes)[0].AsInt(), *(*sizes)[1].AsInt()};
  if (!is_nested) return state;
  constexpr double kMax = std::numeric_limits<float>::max();
  ASSIGN_OR_RETURN(state.nested_block_size,
                   internal::ReadInt(json, {"nested_blocksize", 1, kMaxBlockSize}));
  ASSIGN_OR_RETURN(const double offset, internal::ReadNumber(json, {"nested_offset", -kMax, kMax}));
  state.nested_offset = static_cast<float>(offset);
  return state;
}

StatusOr<State> TakeState(ModuleTensors& parts, bool is_nested) {
  const auto* const name = std::ranges::find_if(
      kStates, [&](std::string_view state) { return parts.Find(state) != nullptr; });
  if (name == std::end(kStates)) {
    return InvalidArgument(StrCat("neither tensor ", parts.Quoted(kStates[0]), " nor ",
                                  parts.Quoted(kStates[1]), " is there beside ",
                                  parts.Quoted(kScales)));
  }
  ASSIGN_OR_RETURN(const TensorView bytes, parts.Take(*name, {DType::kU8}));
  if (bytes.num_elements() > kMaxStateBytes) {
    return parts.OtherShape(*name, bytes, StrCat("at most ", kMaxStateBytes, " bytes"));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data), bytes.size_bytes());
  StatusOr<State> state = ParseState(text, is_nested);
  if (!state.ok()) return Annotate(state.status(), StrCat("tensor ", parts.Quoted(*name)));
  return state;
}

StatusOr<Codebook4View::NestedScales> TakeNested(ModuleTensors& parts, const State& state,
                                                 int64_t num_scales) {
  Codebook4View::NestedScales nested{.block_size = state.nested_block_size,
                                     .offset = state.nested_offset};
  ASSIGN_OR_RETURN(nested.codebook, parts.Take(kNestedCodebook, {DType::kF32}, {kBytes}));
  const int64_t blocks = CeilDiv(num_scales, nested.block_size);
  ASSIGN_OR_RETURN(nested.scales, parts.Take(kNestedScales, {DType::kF32}, {blocks},
                                             StrCat(" in blocks of ", nested.block_size)));
  return nested;
}

StatusOr<Codebook4View> ReadModule(const std::string& module, TensorMap* tensors) {
  ModuleTensors parts(module, kScales, tensors);
  const bool is_nested = parts.Find(kNestedScales) != nullptr;
  ASSIGN_OR_RETURN(const State state, TakeState(parts, is_nested));
  Codebook4View view{
      .block_size = state.block_size, .rows = state.shape[0], .cols = state.shape[1]};
  // FSDP wants parameters of one type: there the bytes are said to be numbers of it.
  ASSIGN_OR_RETURN(view.codes, parts.Take(kCodes, {DType::kU8, DType::kI8, DType::kBF16,
                                                   DType::kF16, DType::kF32}));
  if (view.codes.size_bytes() != view.size_bytes()) {
    return parts.OtherShape(
        kCodes, view.codes,
        StrCat(view.size_bytes(), " bytes, as of ", ToString(state.shape), " in its quant_state"));
  }
  ASSIGN_OR_RETURN(const TensorView codebook, parts.Take(kCodebook, {DType::kF32}, {16}));
  CopyAsFloat(codebook, 0, 16, view.codebook.data());
  const int64_t blocks = CeilDiv(view.rows * view.cols, view.block_size);
  ASSIGN_OR_RETURN(view.scales, parts.Take(kScales, {is_nested ? DType::kU8 : DType::kF32}));
  if (view.scales.shape != Shape{blocks}) {
    return parts.OtherShape(kScales, view.scales,
                            StrCat(ToString({blocks}), ", as of ", ToString(state.shape),
                                   " in blocks of ", view.block_size));
  }
  if (is_nested) {
    ASSIGN_OR_RETURN(view.nested, TakeNested(parts, state, blocks));
  }
  return view;
}

}  // namespace

StatusOr<Codebook4Map> TakeCodebook4Matrices(TensorMap* tensors) {
  Codebook4Map matrices;
  for (const std::string& module : ModulesWith(kScales, *tensors)) {
    ASSIGN_OR_RETURN(matrices[StrCat(module, kCodes)], ReadModule(module, tensors));
  }
  return matrices;
}

}  // namespace aril
