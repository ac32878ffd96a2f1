// Source: transformers, models/qwen3_5/configuration_qwen3_5.py.

#include "spec/linear_attention.h"

#include <algorithm>

#include "base/strings.h"
#include "spec/fields.h"

namespace aril::internal {
namespace {

constexpr int64_t kMaxHeads = 1024;
constexpr int64_t kMaxInterval = 1024;
// What the kernels serve (kernels/gated_delta/gated_delta_tile.h), and far beyond published models.
constexpr int64_t kMaxKeyDim = 256;
constexpr int64_t kMaxValueDim = 1024;
constexpr int64_t kMaxConvSize = 16;

constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kLinear = "linear_attention";

StatusOr<std::vector<bool>> ReadLayers(const Json& config, int64_t num_layers) {
  std::vector<bool> layers;
  const Json* types = FindField(config, "layer_types");
  if (types == nullptr) {
    ASSIGN_OR_RETURN(const int64_t interval,
                     ReadInt(config, {"full_attention_interval", 1, kMaxInterval, 4}));
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      layers.push_back((layer + 1) % interval != 0);
    }
    return layers;
  }
  const Status bad =
      BadField(config, "layer_types",
               StrCat("\"", kFull, "\" or \"", kLinear, "\" for each of ", num_layers, " layers"));
  if (types->AsArray() == nullptr || std::ssize(*types->AsArray()) != num_layers) return bad;
  for (const Json& type : *types->AsArray()) {
    const std::string* name = type.AsString();
    if (name == nullptr || (*name != kFull && *name != kLinear)) return bad;
    layers.push_back(*name == kLinear);
  }
  return layers;
}

StatusOr<LinearAttentionSpec> ReadSizes(const Json& config) {
  LinearAttentionSpec linear;
  ASSIGN_OR_RETURN(linear.num_key_heads,
                   ReadInt(config, {"linear_num_key_heads", 1, kMaxHeads, 16}));
  constexpr std::string_view kValueHeads = "linear_num_value_heads";
  ASSIGN_OR_RETURN(linear.num_value_heads, ReadInt(config, {kValueHeads, 1, kMaxHeads, 32}));
  if (linear.num_value_heads % linear.num_key_heads != 0) {
    return BadField(config, kValueHeads,
                    StrCat("a multiple of linear_num_key_heads, which is ", linear.num_key_heads));
  }
  ASSIGN_OR_RETURN(linear.key_dim, ReadInt(config, {"linear_key_head_dim", 1, kMaxKeyDim, 128}));
  ASSIGN_OR_RETURN(linear.value_dim,
                   ReadInt(config, {"linear_value_head_dim", 1, kMaxValueDim, 128}));
  ASSIGN_OR_RETURN(linear.conv_size,
                   ReadInt(config, {"linear_conv_kernel_dim", 1, kMaxConvSize, 4}));
  return linear;
}

}  // namespace

Status ReadQwen35(const Json& config, ModelSpec* spec) {
  ASSIGN_OR_RETURN(std::vector<bool> layers, ReadLayers(config, spec->num_layers));
  // The pool's pages are made of K and V.
  if (std::ranges::all_of(layers, [](bool is_linear) { return is_linear; })) {
    const bool has_types = FindField(config, "layer_types") != nullptr;
    return UnsupportedField(config, has_types ? "layer_types" : "full_attention_interval",
                            StrCat("what leaves one layer, at least, with \"", kFull, "\""));
  }
  if (std::ranges::any_of(layers, [](bool is_linear) { return is_linear; })) {
    ASSIGN_OR_RETURN(spec->linear_attention, ReadSizes(config));
    spec->linear_layers = std::move(layers);
  }
  // Neither is in transformers, which always has the one, and SiLU for the other.
  constexpr std::string_view kGate = "attn_output_gate";
  ASSIGN_OR_RETURN(spec->gated_queries, ReadBool(config, kGate, true));
  if (!spec->gated_queries) return UnsupportedField(config, kGate, "true or absent");
  constexpr std::string_view kGateType = "output_gate_type";
  if (const Json* type = FindField(config, kGateType); type != nullptr) {
    const std::string* name = type->AsString();
    if (name == nullptr || (*name != "silu" && *name != "swish")) {
      return UnsupportedField(config, kGateType, "\"silu\", \"swish\" or absent");
    }
  }
  spec->unit_offset_norms = true;
  return OkStatus();
}

}  // namespace aril::internal
