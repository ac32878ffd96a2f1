// And their widths, and the modules that they are or are part of.

#include "spec/projection.h"

#include "base/strings.h"
#include "spec/model_spec.h"

namespace aril {
namespace {

constexpr std::string_view kPaths[kNumProjections] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",
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

std::vector<LinearModule> ModelSpec::LinearModules() const {
  if (fused_modules) {
    return {{"self_attn.qkv_proj", Projection::kQ, 3},
            {"self_attn.o_proj", Projection::kO},
            {"mlp.gate_up_proj", Projection::kGate, 2},
            {"mlp.down_proj", Projection::kDown}};
  }
  std::vector<LinearModule> modules;
  for (int64_t i = 0; i < num_sites(); ++i) {
    const Site site = Site::At(i);
    const bool is_of_experts = site.is_router() || site.is_of_expert();
    if (experts && !is_of_experts && site.projection() >= Projection::kGate) continue;
    modules.push_back({site.Path(), site});
  }
  return modules;
}

int64_t ModelSpec::InFeatures(Site site) const {
  if (site.is_router()) return hidden_size;
  switch (site.projection()) {
    case Projection::kO:
      return q_size();
    case Projection::kDown:
      return intermediate_size;
    case Projection::kQ:
    case Projection::kK:
    case Projection::kV:
    case Projection::kGate:
    case Projection::kUp:
      break;
  }
  return hidden_size;
}

int64_t ModelSpec::OutFeatures(Site site) const {
  if (site.is_router()) return experts->count;
  switch (site.projection()) {
    case Projection::kQ:
      return q_size();
    case Projection::kK:
    case Projection::kV:
      return kv_size();
    case Projection::kGate:
    case Projection::kUp:
      return intermediate_size;
    case Projection::kO:
    case Projection::kDown:
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
