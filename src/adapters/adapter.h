// A PEFT adapter on the host: its config and its mapped weights, verified against the base model.

#ifndef ARIL_ADAPTERS_ADAPTER_H_
#define ARIL_ADAPTERS_ADAPTER_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "spec/lora_spec.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"

namespace aril {

// The two matrices of one module, as PEFT stores them; views into the mapped file.
struct LoraPair {
  TensorView a;  // lora_A [rank, in]
  TensorView b;  // lora_B [out, rank]
};

// Immutable once opened; thread-safe. Costs address space and page cache, no private memory.
class Adapter {
 public:
  // Reads adapter_config.json and adapter_model.safetensors and checks everything: the config
  // (spec/lora_config.h, lora_spec.h), that each target module has both matrices with the base
  // model's shapes, that the file holds nothing else, that all values are finite, that no rank is
  // over `max_rank`. InvalidArgument or NotFound says what is wrong and where.
  //
  // With kFinite the values are known to be finite, from a time when the same file was checked:
  // only its header is read.
  enum class Values { kUnknown, kFinite };
  static StatusOr<Adapter> Open(const std::string& dir, const ModelSpec& base, int64_t max_rank,
                                Values values = Values::kUnknown);

  const LoraSpec& spec() const { return spec_; }
  // Of the weights' file.
  int64_t file_bytes() const { return static_cast<int64_t>(file_.bytes().size()); }
  int64_t num_layers() const { return static_cast<int64_t>(layers_.size()); }
  // The pair of a module, or nullptr if the adapter does not target it.
  const LoraPair* Find(int64_t layer, Projection projection) const;

 private:
  Adapter() = default;
  using Layer = std::array<std::optional<LoraPair>, kNumProjections>;

  LoraSpec spec_;
  SafetensorsFile file_;
  std::vector<Layer> layers_;
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_ADAPTER_H_
