// What an adapter *is* on a base model: the rank and the scale of each module, without weights.

#ifndef ARIL_SPEC_LORA_SPEC_H_
#define ARIL_SPEC_LORA_SPEC_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "spec/lora_config.h"
#include "spec/model_spec.h"

namespace aril {

// One module's y = xW + scale·(xAᵀ)Bᵀ; rank 0 where the adapter leaves the module alone.
struct LoraModule {
  int64_t rank = 0;
  // lora_alpha / rank, or lora_alpha / sqrt(rank) with rsLoRA.
  double scale = 0;

  friend bool operator==(const LoraModule&, const LoraModule&) = default;
};

struct LoraSpec {
  std::vector<std::array<LoraModule, kNumProjections>> layers;  // [num_layers]

  const LoraModule& At(int64_t layer, Projection projection) const {
    return layers[static_cast<size_t>(layer)][static_cast<size_t>(projection)];
  }
  // The largest rank of a module.
  int64_t MaxRank() const;
};

// Finds the modules that a configuration targets, as PEFT does. An error names each target that
// matches no projection of the base model: PEFT trains nothing there, so it is a mistake or the
// adapter belongs to another model.
StatusOr<LoraSpec> ResolveLora(const LoraConfig& config, const ModelSpec& base);

}  // namespace aril

#endif  // ARIL_SPEC_LORA_SPEC_H_
