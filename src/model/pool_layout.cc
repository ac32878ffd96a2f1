#include "model/pool_layout.h"

#include "adapters/resident_adapter.h"
#include "base/strings.h"
#include "kernels/rope/rope_tile.h"
#include "model/kernel_settings.h"

namespace aril {
namespace {

constexpr int64_t kMaxPageTokens = 16;
constexpr int64_t kSmallRank = 8;
constexpr double kWaste = 0.15;

int64_t SmallAdapterBytes(const ModelSpec& spec, DType dtype) {
  int64_t elements = 0;
  for (const Projection projection : {Projection::kQ, Projection::kV}) {
    elements += kSmallRank * (spec.InFeatures(projection) + spec.OutFeatures(projection));
  }
  return spec.NumLayers(false) * elements * static_cast<int64_t>(SizeOf(dtype));
}

}  // namespace

StatusOr<kernels::KvLayout> ChooseKvLayout(const ModelSpec& spec, DType dtype) {
  if (spec.head_dim > kernels::kMaxHeadDim || spec.head_dim % 2 != 0) {
    return InvalidArgument(StrCat("config.json: head_dim is ", spec.head_dim,
                                  "; supported are even sizes up to ", kernels::kMaxHeadDim));
  }
  kernels::KvLayout layout{.num_layers = spec.NumLayers(false),
                           .num_kv_heads = spec.num_kv_heads,
                           .page_tokens = 1,
                           .head_dim = spec.head_dim,
                           .dtype = dtype};
  const int64_t token_bytes = layout.page_bytes();
  const double limit = kWaste * static_cast<double>(SmallAdapterBytes(spec, dtype));
  while (layout.page_tokens < kMaxPageTokens &&
         static_cast<double>(2 * layout.page_tokens * token_bytes) <= limit) {
    layout.page_tokens *= 2;
  }
  while (layout.page_bytes() < LongestAdapterRowBytes(spec, dtype)) layout.page_tokens *= 2;
  if (spec.linear_attention) {
    layout.state = {.num_layers = spec.NumLayers(true),
                    .shape = DeltaShapeOf(*spec.linear_attention),
                    .page_bytes = layout.page_bytes()};
    while (layout.page_bytes() < layout.state.row_bytes()) layout.page_tokens *= 2;
    layout.state.page_bytes = layout.page_bytes();
  }
  return layout;
}

}  // namespace aril
