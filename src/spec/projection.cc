// And their widths, and the modules that they are or are part of.

#include "spec/projection.h"

#include "base/check.h"
#include "base/strings.h"
#include "spec/model_spec.h"

namespace aril {
namespace {

constexpr std::string_view kPaths[kNumProjections] = {
    "self_attn.q_proj",      "self_attn.k_proj",        "self_attn.v_proj",
    "self_attn.o_proj",      "mlp.gate_proj",           "mlp.up_proj",
    "mlp.down_proj",         "linear_attn.in_proj_qkv", "linear_attn.in_proj_z",
    "linear_attn.in_proj_b", "linear_attn.in_proj_a",   "linear_attn.out_proj",
};
constexpr std::string_view kRouterPath = "mlp.gate";

std::string_view LastPart(std::string_view path) { return path.substr(path.rfind('.') + 1); }

}  // namespace

std::string_view Name(Projection projection) {
  return LastPart(kPaths[static_cast<size_t>(projection)]);
}

std::string_view Name(const LinearModule& module) { return LastPart(module.path); }

std::string Site::Path() const {
  if (is_of_expert()) return StrCat("mlp.experts.", expert(), ".", Name(projection()));
  return std::string(is_router() ? kRouterPath : kPaths[static_cast<size_t>(index_)]);
}

std::vector<LinearModule> ModelSpec::LinearModules(int64_t layer) const {
  if (fused_modules) {
    return {{"self_attn.qkv_proj", Projection::kQ, 3},
            {"self_attn.o_proj", Projection::kO},
            {"mlp.gate_up_proj", Projection::kGate, 2},
            {"mlp.down_proj", Projection::kDown}};
  }
  std::vector<LinearModule> modules;
  for (int64_t i = 0; i < num_sites(); ++i) {
    const Site site = Site::At(i);
    if (site.is_router() || site.is_of_expert() || Has(layer, site.projection())) {
      modules.push_back({site.Path(), site});
    }
  }
  return modules;
}

std::vector<int64_t> ModelSpec::LayersOfEachKind() const {
  CHECK_GT(num_layers, 0);
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < num_layers && layers.size() < 2; ++layer) {
    if (layers.empty() || IsLinear(layer) != IsLinear(layers.front())) layers.push_back(layer);
  }
  return layers;
}

LayerModules::LayerModules(const ModelSpec& spec) : linear_layers_(spec.linear_layers) {
  for (const int64_t layer : spec.LayersOfEachKind()) {
    of_kind_[spec.IsLinear(layer) ? 1 : 0] = spec.LinearModules(layer);
  }
}

bool ModelSpec::Has(int64_t layer, Projection projection) const {
  if (IsOfMlp(projection)) return !experts;
  return IsOfDelta(projection) == IsLinear(layer);
}

int64_t ModelSpec::InFeatures(Site site) const {
  if (site.is_router()) return hidden_size;
  switch (site.projection()) {
    case Projection::kO:
      return q_size();
    case Projection::kDown:
      return intermediate_size;
    case Projection::kDeltaOut:
      return linear_attention->value_size();
    case Projection::kQ:
    case Projection::kK:
    case Projection::kV:
    case Projection::kGate:
    case Projection::kUp:
    case Projection::kDeltaQkv:
    case Projection::kDeltaZ:
    case Projection::kDeltaB:
    case Projection::kDeltaA:
      break;
  }
  return hidden_size;
}

int64_t ModelSpec::OutFeatures(Site site) const {
  if (site.is_router()) return experts->count;
  switch (site.projection()) {
    case Projection::kQ:
      return gated_queries ? 2 * q_size() : q_size();
    case Projection::kK:
    case Projection::kV:
      return kv_size();
    case Projection::kGate:
    case Projection::kUp:
      return intermediate_size;
    case Projection::kDeltaQkv:
      return linear_attention->num_channels();
    case Projection::kDeltaZ:
      return linear_attention->value_size();
    case Projection::kDeltaB:
    case Projection::kDeltaA:
      return linear_attention->num_value_heads;
    case Projection::kO:
    case Projection::kDown:
    case Projection::kDeltaOut:
      break;
  }
  return hidden_size;
}

int64_t ModelSpec::OutFeatures(const LinearModule& module) const {
  int64_t sum = 0;
  for (int64_t i = 0; i < module.num_sites; ++i) {
    sum += OutFeatures(module.At(i));
  }
  return sum;
}

}  // namespace aril
