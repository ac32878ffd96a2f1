// The tensors of an adapter's file, for who reads it (adapter.cc, outer_reader.cc).

#ifndef ARIL_ADAPTERS_ADAPTER_TENSORS_H_
#define ARIL_ADAPTERS_ADAPTER_TENSORS_H_

#include <set>
#include <string>
#include <string_view>

#include "adapters/adapter.h"
#include "base/status.h"
#include "spec/lora_spec.h"
#include "spec/model_spec.h"
#include "spec/module_naming.h"
#include "tensor/safetensors.h"
#include "tensor/weight_view.h"

namespace aril {

// Of a module.
struct LoraTensors {
  TensorView a;          // [rank, in]
  TensorView b;          // [out, rank]
  TensorView magnitude;  // [out] with DoRA

  // Of those outputs alone.
  LoraTensors Outputs(int64_t first, int64_t count) const {
    return {a, b.Rows(first, count),
            magnitude.shape.empty() ? magnitude : magnitude.Rows(first, count)};
  }
};

// Takes them out, checked, and remembers which. Names are those behind kPrefix.
class AdapterTensors {
 public:
  static constexpr std::string_view kPrefix = "base_model.model.";  // of all names

  // All must outlive it. `weights`: null if they are not known.
  AdapterTensors(const TensorMap& tensors, const ModuleNaming& naming, const ModelSpec& base,
                 const LoraSpec& spec, Adapter::Values values, const BaseWeights* weights)
      : tensors_(tensors),
        naming_(naming),
        base_(base),
        spec_(spec),
        values_(values),
        weights_(weights) {}

  const ModuleNaming& naming() const { return naming_; }
  const BaseWeights* weights() const { return weights_; }
  static std::string FullName(const std::string& name) { return std::string(kPrefix) + name; }

  // As it stands in the file; null without one.
  const TensorView* Find(const std::string& name) const;
  // InvalidArgument if it is missing, of another shape, or holds what is no weight.
  StatusOr<TensorView> Take(const std::string& name, const Shape& shape);
  // Those of a targeted module.
  StatusOr<LoraTensors> TakeModule(const std::string& module, int64_t rank, int64_t in,
                                   int64_t out);
  // Of taken ones: with DoRA's gains, if the base's weight, of that name and shape, is known.
  StatusOr<LoraPair> MakePair(const LoraTensors& tensors, const LoraModule& lora,
                              const std::string& base_module, const Shape& base_shape) const;
  // The base's, whose weights are known: kTextNaming's module.
  StatusOr<WeightView> BaseMatrix(const std::string& module, const Shape& shape) const;

  // Nothing may be left: serving an adapter without a part of it would change its results. But
  // what changes how images are seen does nothing for text.
  Status CheckAllTaken() const;

 private:
  const TensorMap& tensors_;
  const ModuleNaming& naming_;
  const ModelSpec& base_;
  const LoraSpec& spec_;
  const Adapter::Values values_;
  const BaseWeights* const weights_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_ADAPTER_TENSORS_H_
