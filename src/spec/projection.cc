// Names and widths of the seven projections.

#include "spec/model_spec.h"

namespace aril {
namespace {

constexpr std::string_view kModulePaths[kNumProjections] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",
};

}  // namespace

std::string_view ModulePath(Projection projection) {
  return kModulePaths[static_cast<size_t>(projection)];
}

std::string_view Name(Projection projection) {
  const std::string_view path = ModulePath(projection);
  return path.substr(path.find('.') + 1);
}

int64_t ModelSpec::InFeatures(Projection projection) const {
  switch (projection) {
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

int64_t ModelSpec::OutFeatures(Projection projection) const {
  switch (projection) {
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

}  // namespace aril
