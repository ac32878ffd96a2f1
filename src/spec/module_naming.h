// How the modules of a text model are called. Where a model also sees, its text model lies inside
// of it, under names that differ between versions of transformers, as do those of a mixture's
// experts; embedding models, and adapters of them, are those of a decoder alone. An adapter has the
// names of the class that it was trained with, whatever its base model is served from.

#ifndef ARIL_SPEC_MODULE_NAMING_H_
#define ARIL_SPEC_MODULE_NAMING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "spec/model_spec.h"
#include "tensor/safetensors.h"

namespace aril {

// What a mixture of experts is made of: modules, called as in Qwen3-MoE ("mlp.gate" for the router,
// "mlp.experts.7.up_proj") or in Mixtral ("block_sparse_moe.gate",
// "block_sparse_moe.experts.7.w3"); or parameters only ("mlp.gate.weight",
// "mlp.experts.gate_up_proj"), as in transformers 5, and in gpt-oss ("mlp.router.weight") in all
// versions.
enum class ExpertsNaming { kModules, kMixtralModules, kParameters, kGptOss };

struct ModuleNaming {
  std::string_view
      decoder;  // "model", of "model.layers.0.self_attn.q_proj"; empty: there is no more
  std::string_view lm_head;  // empty: there is none
  ExpertsNaming experts = ExpertsNaming::kModules;

  bool is_multimodal() const { return !decoder.empty() && decoder != "model"; }
  bool has_experts_as_parameters() const {
    return experts == ExpertsNaming::kParameters || experts == ExpertsNaming::kGptOss;
  }
  // `path`: inside the decoder, "norm"; empty: itself.
  std::string InDecoder(std::string_view path) const;
  std::string Embedding() const;
  std::string Layer(int64_t layer) const;  // "model.layers.0"
  // `path`: inside the layer, as kTextNaming has it.
  std::string InLayer(int64_t layer, std::string_view path) const;
};

inline constexpr ModuleNaming kTextNaming = {"model", "lm_head"};
inline constexpr ModuleNaming kDecoderNaming = {"", ""};

// By the names of a file's tensors, which stand behind `prefix`. Where none tells, that of a text
// model; experts are parameters where no tensor is of one's own, or of the router alone.
ModuleNaming FindModuleNaming(const TensorMap& tensors, std::string_view prefix);
// Likewise, of a file of this model's or of an adapter to it.
ModuleNaming FindModuleNaming(const TensorMap& tensors, std::string_view prefix,
                              const ModelSpec& model);

// What kTextNaming calls a tensor of another naming; others stay as they are.
std::string TextName(std::string_view name, const ModuleNaming& naming);

// Whether a module, or a tensor in it, belongs to what sees: without images it does nothing.
bool IsOfVision(std::string_view module);

}  // namespace aril

#endif  // ARIL_SPEC_MODULE_NAMING_H_
