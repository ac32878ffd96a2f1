#include "spec/family.h"

#include <string>
#include <vector>

#include "base/strings.h"
#include "spec/fields.h"

namespace aril::internal {
namespace {

// transformers: models/<model_type>/configuration_<model_type>.py and modeling_<model_type>.py.
constexpr Family kFamilies[] = {
    {.architecture = "LlamaForCausalLM",
     .model_type = "llama",
     .default_max_position_embeddings = 2048,
     .default_num_kv_heads = 0,
     .default_head_dim = 0,
     .bias = BiasRule::kAttentionBias,
     .window = WindowRule::kNone,
     .default_sliding_window = 0,
     .qk_norm = false,
     .default_bos_token_id = 1,
     .default_eos_token_id = 2},
    {.architecture = "MistralForCausalLM",
     .model_type = "mistral",
     .default_max_position_embeddings = 4096 * 32,
     .default_num_kv_heads = 8,
     .default_head_dim = 0,
     .bias = BiasRule::kNone,
     .window = WindowRule::kAllLayers,
     .default_sliding_window = 4096,
     .qk_norm = false,
     .default_bos_token_id = 1,
     .default_eos_token_id = 2},
    {.architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .default_max_position_embeddings = 32768,
     .default_num_kv_heads = 32,
     .default_head_dim = 0,
     .bias = BiasRule::kQkv,
     .window = WindowRule::kUpperLayers,
     .default_sliding_window = 4096,
     .qk_norm = false,
     .default_bos_token_id = std::nullopt,
     .default_eos_token_id = std::nullopt},
    {.architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .default_max_position_embeddings = 32768,
     .default_num_kv_heads = 32,
     .default_head_dim = 128,
     .bias = BiasRule::kAttentionBias,
     .window = WindowRule::kUpperLayers,
     .default_sliding_window = 4096,
     .qk_norm = true,
     .default_bos_token_id = std::nullopt,
     .default_eos_token_id = std::nullopt},
    {.architecture = "GemmaForCausalLM",
     .model_type = "gemma",
     .default_max_position_embeddings = 8192,
     .default_num_kv_heads = 16,
     .default_head_dim = 256,
     .bias = BiasRule::kAttentionBias,
     .window = WindowRule::kNone,
     .default_sliding_window = 0,
     .qk_norm = false,
     .default_tied = true,
     .gemma = GemmaRules{.activation_field = "hidden_act",
                         .output_norms = false,
                         .two_ropes = false,
                         .query_scalar_field = "",
                         .attn_softcap = 0,
                         .logit_softcap_field = "",
                         .logit_softcap = 0},
     .default_bos_token_id = 2,
     .default_eos_token_id = 1},
    {.architecture = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .default_max_position_embeddings = 8192,
     .default_num_kv_heads = 4,
     .default_head_dim = 256,
     .bias = BiasRule::kAttentionBias,
     .window = WindowRule::kMostLayers,
     .default_sliding_window = 4096,
     .default_window_pattern = 2,
     .qk_norm = false,
     .default_tied = true,
     .gemma = GemmaRules{.activation_field = "hidden_activation",
                         .output_norms = true,
                         .two_ropes = false,
                         .query_scalar_field = "query_pre_attn_scalar",
                         .attn_softcap = 50,
                         .logit_softcap_field = "final_logit_softcapping",
                         .logit_softcap = 30},
     .default_bos_token_id = 2,
     .default_eos_token_id = 1},
    {.architecture = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .default_max_position_embeddings = 131072,
     .default_num_kv_heads = 4,
     .default_head_dim = 256,
     .bias = BiasRule::kAttentionBias,
     .window = WindowRule::kMostLayers,
     .default_sliding_window = 4096,
     .default_window_pattern = 6,
     .window_pattern_field = "sliding_window_pattern",
     .qk_norm = true,
     .default_tied = true,
     // transformers has "attn_logit_softcapping" here, too, and does not apply it.
     .gemma = GemmaRules{.activation_field = "hidden_activation",
                         .output_norms = true,
                         .two_ropes = true,
                         .query_scalar_field = "query_pre_attn_scalar",
                         .attn_softcap = 0,
                         .logit_softcap_field = "final_logit_softcapping",
                         .logit_softcap = 0},
     .default_bos_token_id = 2,
     .default_eos_token_id = 1},
};

std::string SupportedArchitectures() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.architecture);
  return Join(names, ", ");
}

// "architectures" has one element in every published model.
StatusOr<std::string> SoleArchitecture(const Json& config) {
  const Json::Array* names = config.Find("architectures")->AsArray();
  if (names == nullptr || names->size() != 1 || names->front().AsString() == nullptr) {
    return BadField(config, "architectures", "an array of one string");
  }
  return *names->front().AsString();
}

}  // namespace

StatusOr<const Family*> FindFamily(const Json& config) {
  ASSIGN_OR_RETURN(const std::string model_type, ReadString(config, "model_type", ""));
  if (FindField(config, "architectures") == nullptr) {
    for (const Family& family : kFamilies) {
      if (family.model_type == model_type) return &family;
    }
    return UnsupportedField(config, "architectures", SupportedArchitectures());
  }
  ASSIGN_OR_RETURN(const std::string architecture, SoleArchitecture(config));
  for (const Family& family : kFamilies) {
    if (family.architecture != architecture) continue;
    // transformers chooses the class by model_type, so the two must agree.
    if (!model_type.empty() && family.model_type != model_type) {
      return BadField(config, "model_type",
                      StrCat("\"", family.model_type, "\", as the architecture is ", architecture));
    }
    return &family;
  }
  return UnsupportedField(config, "architectures", SupportedArchitectures());
}

}  // namespace aril::internal
