// The model families of transformers that Aril serves, and how their configuration classes differ.
// Of a model that also sees, the text model is of one of these families.

#ifndef ARIL_SPEC_FAMILY_H_
#define ARIL_SPEC_FAMILY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace aril::internal {

// Which attention projections have a bias, and whether config.json decides.
enum class BiasRule {
  kAttentionBias,  // "attention_bias": all four or none
  kQkv,            // q, k and v always, o never
  kNone,
};

// What sliding-window attention a family has.
enum class WindowRule {
  kNone,
  kAllLayers,    // "sliding_window": on every layer, or null
  kUpperLayers,  // Qwen: on those from "max_window_layers", if "use_sliding_window" says so
  kMostLayers,   // Gemma 2, 3, gpt-oss: on all but one of so many
  kUnused,       // SmolLM3, Qwen3-MoE: none unless "use_sliding_window" says so: not supported
  kLinear,       // Qwen3.5: none, and "layer_types" is about other things
};

// What only the families of Gemma have. A field that such a family has not is named "" here.
struct GemmaRules {
  std::string_view activation_field;
  bool output_norms;
  bool two_ropes;  // layers with a window have a RoPE of their own
  std::string_view query_scalar_field;
  // The caps' defaults; 0: none. Of scores without one, none is supported.
  double attn_softcap;
  std::string_view logit_softcap_field;
  double logit_softcap;
};

// Of families whose MLPs are mixtures of experts.
struct ExpertsRules {
  std::string_view size_field;  // an expert's intermediate_size
  int64_t default_count;
  int64_t default_size;
  int64_t default_per_token;
  // Qwen3-MoE: "norm_topk_prob" says whether the weights are normalized, and "mlp_only_layers" and
  // "decoder_sparse_step" which layers have a mixture. Mixtral's always are, and all have.
  bool chooses;
};

// What published files leave out where it is the default.
struct DefaultSizes {
  int64_t vocab_size;
  int64_t hidden_size;
  int64_t intermediate_size;
  int64_t num_layers;
  int64_t num_heads;
};

// The defaults are those of the configuration class in transformers (4.40 to 5.x agree on them, of
// Gemma 2 and 3 those since 4.50; published files of these have what their defaults once were not).
struct Family {
  std::string_view architecture;
  std::string_view model_type;
  int64_t default_max_position_embeddings;
  // For a missing "num_key_value_heads"; 0 (and an explicit null): as many as attention heads.
  int64_t default_num_kv_heads;
  // For a missing "head_dim"; 0: hidden_size / num_attention_heads.
  int64_t default_head_dim;
  BiasRule bias;
  bool default_attention_bias = false;  // of kAttentionBias
  WindowRule window;
  // For a missing "sliding_window"; 0: none.
  int64_t default_sliding_window;
  // Of kMostLayers, without "layer_types": of so many layers the last one sees all keys; a field of
  // this name may say how many.
  int64_t default_window_pattern = 0;
  std::string_view window_pattern_field = "";
  bool qk_norm;
  bool default_tied = false;  // for a missing "tie_word_embeddings"
  double default_rms_norm_eps = 1e-6;
  std::optional<DefaultSizes> default_sizes = std::nullopt;  // absent: they are required
  std::optional<GemmaRules> gemma = std::nullopt;
  // Phi-3: q, k and v are one module, gate and up another; and of RoPE's types it has "longrope".
  bool fused_modules = false;
  bool long_rope = false;
  double default_rope_theta = 10000;  // of all but Gemma 3 and Phi-3, which have rules of their own
  bool layers_without_rope = false;   // SmolLM3: "no_rope_layers" says which
  bool multipliers = false;           // Granite
  bool is_gpt_oss = false;
  bool is_qwen35 = false;
  // The part of a head that RoPE rotates where nothing else is said; absent: all, whatever is said.
  std::optional<double> default_rope_part = std::nullopt;
  std::optional<ExpertsRules> experts = std::nullopt;
  std::optional<int32_t> default_bos_token_id;
  std::optional<int32_t> default_eos_token_id;
};

// What config.json says of the text model.
struct TextModel {
  const Family* family;
  const Json* config;  // config.json's object, or its "text_config" where the model also sees
  bool is_multimodal;
  bool has_lm_head;  // else it is the decoder alone ("MistralModel")
  std::string architecture;
};

// By "architectures", or where that is absent by "model_type". `config` must outlive the result.
StatusOr<TextModel> FindTextModel(const Json& config);

}  // namespace aril::internal

#endif  // ARIL_SPEC_FAMILY_H_
