#include "adapters/adapter_tensors.h"

#include <utility>

#include "adapters/dora.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

// Of a name that a stranger's file brings into a message.
constexpr size_t kMaxShownName = 120;

bool IsWeightDType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

}  // namespace

const TensorView* AdapterTensors::Find(const std::string& name) const {
  const auto found = tensors_.find(FullName(name));
  return found == tensors_.end() ? nullptr : &found->second;
}

StatusOr<TensorView> AdapterTensors::Take(const std::string& short_name, const Shape& shape) {
  const std::string name = FullName(short_name);
  const TensorView* const tensor = Find(short_name);
  if (tensor == nullptr) {
    return InvalidArgument(StrCat("tensor ", name,
                                  " is missing, although adapter_config.json (target_modules, "
                                  "target_parameters, modules_to_save, "
                                  "trainable_token_indices, use_dora) asks for it"));
  }
  if (tensor->shape != shape) {
    return InvalidArgument(StrCat("tensor ", name, " has shape ", ToString(tensor->shape),
                                  ", but this base model and the config's rank need ",
                                  ToString(shape),
                                  ": was the adapter trained for another base model?"));
  }
  if (!IsWeightDType(tensor->dtype)) {
    return InvalidArgument(
        StrCat("tensor ", name, " has dtype ", tensor->dtype, "; supported are F32, F16 and BF16"));
  }
  if (values_ == Adapter::Values::kUnknown && !AllFinite(*tensor)) {
    return InvalidArgument(StrCat("tensor ", name, " holds NaN or infinite values"));
  }
  taken_.insert(name);
  return *tensor;
}

StatusOr<LoraTensors> AdapterTensors::TakeModule(const std::string& module, int64_t rank,
                                                 int64_t in, int64_t out) {
  const bool is_embedding = module == naming_.Embedding();
  LoraTensors tensors;
  ASSIGN_OR_RETURN(tensors.a, Take(module + (is_embedding ? ".lora_embedding_A" : ".lora_A.weight"),
                                   {rank, in}));
  ASSIGN_OR_RETURN(tensors.b, Take(module + (is_embedding ? ".lora_embedding_B" : ".lora_B.weight"),
                                   {out, rank}));
  if (spec_.use_dora) {
    ASSIGN_OR_RETURN(tensors.magnitude, Take(module + ".lora_magnitude_vector", {out}));
  }
  return tensors;
}

StatusOr<LoraPair> AdapterTensors::MakePair(const LoraTensors& tensors, const LoraModule& lora,
                                            const std::string& base_module,
                                            const Shape& base_shape) const {
  LoraPair pair{.a = tensors.a, .b = tensors.b};
  if (!spec_.use_dora || weights_ == nullptr) return pair;
  ASSIGN_OR_RETURN(const WeightView weight, BaseMatrix(base_module, base_shape));
  const DoraModule dora{weight, pair.a, pair.b, tensors.magnitude, lora.scale};
  auto gains = base_module == kTextNaming.Embedding() ? DoraEmbeddingGains(dora, weights_->isa)
                                                      : DoraGains(dora, weights_->isa);
  if (!gains.ok()) return Annotate(gains.status(), base_module);
  pair.gains = *std::move(gains);
  return pair;
}

StatusOr<WeightView> AdapterTensors::BaseMatrix(const std::string& module,
                                                const Shape& shape) const {
  const bool is_tied = module == kTextNaming.lm_head && base_.tie_word_embeddings;
  return weights_->checkpoint->GetMatrix((is_tied ? kTextNaming.Embedding() : module) + ".weight",
                                         shape);
}

Status AdapterTensors::CheckAllTaken() const {
  for (const auto& [name, tensor] : tensors_) {
    if (taken_.contains(name)) continue;
    if (naming_.is_multimodal() && name.starts_with(kPrefix) &&
        IsOfVision(std::string_view(name).substr(kPrefix.size()))) {
      continue;
    }
    const std::string unmatched =
        spec_.unmatched_targets.empty()
            ? ""
            : StrCat(", which names ", spec_.unmatched_targets, " in vain");
    return InvalidArgument(StrCat("tensor ", JsonQuote(name.substr(0, kMaxShownName)),
                                  " belongs to no target module of this base model (",
                                  base_.num_layers, " layers) and this config", unmatched,
                                  "; serving the adapter without it would change its results"));
  }
  return OkStatus();
}

}  // namespace aril
