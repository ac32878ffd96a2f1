#include "spec/mxfp4_checkpoint.h"

#include <string>
#include <string_view>

#include "base/strings.h"
#include "spec/module_naming.h"
#include "spec/module_tensors.h"

namespace aril {
namespace {

constexpr std::string_view kBlocks = "_blocks";
constexpr std::string_view kScales = "_scales";

constexpr int64_t kBlockSize = 32;  // inputs that share a scale
constexpr int64_t kBlockBytes = kBlockSize / 2;

// E2M1: what each code stands for.
constexpr Codebook4 kE2M1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// The matrices of a projection of all experts, or of two whose outputs lie in turns.
Status TakeStack(const ModelSpec& spec, int64_t layer, const StackedExperts& stack,
                 TensorMap* tensors, Codebook4Map* matrices) {
  const int64_t experts = spec.experts->count, out = spec.OutFeatures(stack.first);
  const int64_t rows = stack.num_projections * out, cols = spec.InFeatures(stack.first);
  const std::string module = kTextNaming.InLayer(layer, stack.path);
  ModuleTensors parts(module, kBlocks, tensors);
  if (cols % kBlockSize != 0) {
    return InvalidArgument(StrCat("tensor ", parts.Quoted(kBlocks), " has ", cols,
                                  " inputs, which are not whole blocks of ", kBlockSize));
  }
  Codebook4View view{.low_half_first = true,
                     .codebook = kE2M1,
                     .block_size = kBlockSize,
                     .row_step = stack.num_projections,
                     .rows = out,
                     .cols = cols};
  const int64_t blocks = cols / kBlockSize;
  ASSIGN_OR_RETURN(view.codes,
                   parts.Take(kBlocks, {DType::kU8}, {experts, rows, blocks, kBlockBytes}));
  ASSIGN_OR_RETURN(view.scales, parts.Take(kScales, {DType::kU8}, {experts, rows, blocks}));
  for (int64_t expert = 0; expert < experts; ++expert) {
    for (int64_t i = 0; i < stack.num_projections; ++i) {
      view.first_row = expert * rows + i;
      const std::string path = stack.At(expert, i).Path();
      matrices->emplace(StrCat(kTextNaming.InLayer(layer, path), ".weight"), view);
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<Codebook4Map> TakeMxfp4Matrices(const ModelSpec& spec, TensorMap* tensors) {
  Codebook4Map matrices;
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    for (const StackedExperts& stack : kStackedExperts) {
      const std::string blocks = StrCat(kTextNaming.InLayer(layer, stack.path), kBlocks);
      if (!tensors->contains(blocks)) continue;
      RETURN_IF_ERROR(TakeStack(spec, layer, stack, tensors, &matrices));
    }
  }
  return matrices;
}

}  // namespace aril
