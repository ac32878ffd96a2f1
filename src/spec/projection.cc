// Names and widths of the seven projections, and the modules that they are or are part of.

#include "base/strings.h"
#include "spec/model_spec.h"

namespace aril {
namespace {

constexpr std::string_view kModulePaths[kNumProjections] = {
    "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj",
};

constexpr size_t kNumAttentionProjections = 4;

std::span<const Projection> Projections(size_t first, size_t count) {
  return std::span(kAllProjections).subspan(first, count);
}

std::string_view LastPart(std::string_view path) { return path.substr(path.find('.') + 1); }

}  // namespace

std::string_view ModulePath(Projection projection) {
  return kModulePaths[static_cast<size_t>(projection)];
}

std::string_view Name(Projection projection) { return LastPart(ModulePath(projection)); }

std::string ExpertPath(int64_t expert, Projection projection) {
  return StrCat("mlp.experts.", expert, ".", Name(projection));
}

std::string_view Name(const LinearModule& module) { return LastPart(module.path); }

std::span<const LinearModule> ModelSpec::LinearModules() const {
  static const auto kOfTheirOwn = [] {
    std::array<LinearModule, kNumProjections> modules;
    for (size_t i = 0; i < modules.size(); ++i) modules[i] = {kModulePaths[i], Projections(i, 1)};
    return modules;
  }();
  static const LinearModule kFused[] = {{"self_attn.qkv_proj", Projections(0, 3)},
                                        {"self_attn.o_proj", Projections(3, 1)},
                                        {"mlp.gate_up_proj", Projections(4, 2)},
                                        {"mlp.down_proj", Projections(6, 1)}};
  if (fused_modules) return kFused;
  const std::span<const LinearModule> modules = kOfTheirOwn;
  return experts ? modules.first(kNumAttentionProjections) : modules;
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

int64_t ModelSpec::OutFeatures(const LinearModule& module) const {
  int64_t sum = 0;
  for (const Projection projection : module.projections) sum += OutFeatures(projection);
  return sum;
}

}  // namespace aril
