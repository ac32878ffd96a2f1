#include "spec/family.h"

#include <span>
#include <string>
#include <vector>

#include "base/check.h"
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
    {.architecture = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .default_max_position_embeddings = 32768,
     .default_num_kv_heads = 4,
     .default_head_dim = 0,
     .bias = BiasRule::kAttentionBias,
     .window = WindowRule::kUnused,
     .default_sliding_window = 4096,
     .qk_norm = true,
     .experts = ExpertsRules{.size_field = "moe_intermediate_size",
                             .default_count = 128,
                             .default_size = 768,
                             .default_per_token = 8,
                             .chooses = true},
     .default_bos_token_id = std::nullopt,
     .default_eos_token_id = std::nullopt},
    {.architecture = "Qwen3_5ForCausalLM",
     .model_type = "qwen3_5_text",
     .default_max_position_embeddings = 32768,
     .default_num_kv_heads = 4,
     .default_head_dim = 256,
     .bias = BiasRule::kAttentionBias,
     .window = WindowRule::kLinear,
     .default_sliding_window = 0,
     .qk_norm = true,
     .default_sizes = DefaultSizes{.vocab_size = 248320,
                                   .hidden_size = 4096,
                                   .intermediate_size = 12288,
                                   .num_layers = 32,
                                   .num_heads = 16},
     .is_qwen35 = true,
     .default_rope_part = 0.25,
     .default_bos_token_id = std::nullopt,
     .default_eos_token_id = std::nullopt},
    {.architecture = "MixtralForCausalLM",
     .model_type = "mixtral",
     .default_max_position_embeddings = 4096 * 32,
     .default_num_kv_heads = 8,
     .default_head_dim = 0,
     .bias = BiasRule::kNone,
     .window = WindowRule::kAllLayers,
     .default_sliding_window = 0,
     .qk_norm = false,
     .default_rms_norm_eps = 1e-5,
     .default_rope_theta = 1e6,
     .experts = ExpertsRules{.size_field = "intermediate_size",
                             .default_count = 8,
                             .default_size = 14336,
                             .default_per_token = 2,
                             .chooses = false},
     .default_bos_token_id = 1,
     .default_eos_token_id = 2},
    {.architecture = "GptOssForCausalLM",
     .model_type = "gpt_oss",
     .default_max_position_embeddings = 131072,
     .default_num_kv_heads = 8,
     .default_head_dim = 64,
     .bias = BiasRule::kAttentionBias,
     .default_attention_bias = true,
     .window = WindowRule::kMostLayers,
     .default_sliding_window = 128,
     .default_window_pattern = 2,
     .qk_norm = false,
     .default_rms_norm_eps = 1e-5,
     .default_sizes = DefaultSizes{.vocab_size = 201088,
                                   .hidden_size = 2880,
                                   .intermediate_size = 2880,
                                   .num_layers = 36,
                                   .num_heads = 64},
     .default_rope_theta = 150000,
     .is_gpt_oss = true,
     .experts = ExpertsRules{.size_field = "intermediate_size",
                             .default_count = 128,
                             .default_size = 2880,
                             .default_per_token = 4,
                             .chooses = false},
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
     .default_sizes = DefaultSizes{.vocab_size = 262208,
                                   .hidden_size = 2304,
                                   .intermediate_size = 9216,
                                   .num_layers = 26,
                                   .num_heads = 8},
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
    {.architecture = "Phi3ForCausalLM",
     .model_type = "phi3",
     .default_max_position_embeddings = 4096,
     .default_num_kv_heads = 0,
     .default_head_dim = 0,
     .bias = BiasRule::kNone,
     .window = WindowRule::kAllLayers,
     .default_sliding_window = 0,
     .qk_norm = false,
     .default_rms_norm_eps = 1e-5,
     .fused_modules = true,
     .long_rope = true,
     .default_bos_token_id = 1,
     .default_eos_token_id = 32000},
    {.architecture = "GraniteForCausalLM",
     .model_type = "granite",
     .default_max_position_embeddings = 2048,
     .default_num_kv_heads = 0,
     .default_head_dim = 0,
     .bias = BiasRule::kAttentionBias,
     .window = WindowRule::kNone,
     .default_sliding_window = 0,
     .qk_norm = false,
     .multipliers = true,
     .default_bos_token_id = 1,
     .default_eos_token_id = 2},
    {.architecture = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .default_max_position_embeddings = 32768,
     .default_num_kv_heads = 4,
     .default_head_dim = 0,
     .bias = BiasRule::kAttentionBias,
     .window = WindowRule::kUnused,
     .default_sliding_window = 0,
     .qk_norm = false,
     .default_tied = true,
     .default_rope_theta = 2e6,
     .layers_without_rope = true,
     .default_bos_token_id = 128000,
     .default_eos_token_id = 128001},
};

// Models that also see, by what their text model is.
struct MultimodalModel {
  std::string_view architecture;
  std::string_view model_type;
  std::string_view text_model_type;
};
constexpr MultimodalModel kMultimodalModels[] = {
    {"Gemma3ForConditionalGeneration", "gemma3", "gemma3_text"},
    {"Mistral3ForConditionalGeneration", "mistral3", "mistral"},
    {"Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_5_text"},
};

std::string SupportedArchitectures() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) names.push_back(family.architecture);
  for (const MultimodalModel& model : kMultimodalModels) names.push_back(model.architecture);
  return StrCat(Join(names, ", "),
                ", or for embeddings a text model's decoder alone (MistralModel)");
}

// "architectures" has one element in every published model. Empty where it is absent.
StatusOr<std::string> SoleArchitecture(const Json& config) {
  const Json* field = FindField(config, "architectures");
  if (field == nullptr) return std::string();
  const Json::Array* names = field->AsArray();
  if (names == nullptr || names->size() != 1 || names->front().AsString() == nullptr) {
    return BadField(config, "architectures", "an array of one string");
  }
  return *names->front().AsString();
}

// The class of a family's decoder alone, which embedding models are saved as.
std::string DecoderOf(const Family& family) {
  constexpr std::string_view kWithHead = "ForCausalLM";
  if (family.architecture == "Gemma3ForCausalLM") return "Gemma3TextModel";
  if (family.architecture == "Qwen3_5ForCausalLM") return "Qwen3_5TextModel";
  CHECK(family.architecture.ends_with(kWithHead));
  return StrCat(family.architecture.substr(0, family.architecture.size() - kWithHead.size()),
                "Model");
}

bool IsCalled(const Family& family, std::string_view architecture) {
  return family.architecture == architecture || DecoderOf(family) == architecture;
}
bool IsCalled(const MultimodalModel& model, std::string_view architecture) {
  return model.architecture == architecture;
}

// Of the models (families, or those that also see), the one that is called so; null if none is.
template <typename Model>
StatusOr<const Model*> FindModel(const Json& config, std::span<const Model> models,
                                 std::string_view architecture, std::string_view model_type) {
  for (const Model& model : models) {
    const bool found =
        architecture.empty() ? model.model_type == model_type : IsCalled(model, architecture);
    if (!found) continue;
    // transformers chooses the class by model_type, so the two must agree.
    if (!model_type.empty() && model.model_type != model_type) {
      return BadField(config, "model_type",
                      StrCat("\"", model.model_type, "\", as the architecture is ", architecture));
    }
    return &model;
  }
  return nullptr;
}

StatusOr<TextModel> FindInside(const Json& config, const MultimodalModel& model) {
  constexpr std::string_view kTextConfig = "text_config";
  const Json* text = FindField(config, kTextConfig);
  if (text == nullptr || text->AsObject() == nullptr) {
    return BadField(config, kTextConfig, StrCat("an object, as in every ", model.architecture));
  }
  auto model_type = ReadString(*text, "model_type", model.text_model_type);
  if (!model_type.ok()) return Annotate(model_type.status(), std::string(kTextConfig));
  if (*model_type != model.text_model_type) {
    return Annotate(
        UnsupportedField(*text, "model_type", StrCat("\"", model.text_model_type, "\"")),
        std::string(kTextConfig));
  }
  for (const Family& family : kFamilies) {
    if (family.model_type != model.text_model_type) continue;
    return TextModel{&family, text, true, true, std::string(model.architecture)};
  }
  CHECK(false);
}

}  // namespace

StatusOr<TextModel> FindTextModel(const Json& config) {
  ASSIGN_OR_RETURN(const std::string model_type, ReadString(config, "model_type", ""));
  ASSIGN_OR_RETURN(const std::string architecture, SoleArchitecture(config));
  ASSIGN_OR_RETURN(const Family* family,
                   FindModel<Family>(config, kFamilies, architecture, model_type));
  if (family != nullptr) {
    const bool is_decoder = architecture == DecoderOf(*family);
    return TextModel{family, &config, false, !is_decoder,
                     std::string(is_decoder ? architecture : family->architecture)};
  }
  ASSIGN_OR_RETURN(const MultimodalModel* model,
                   FindModel<MultimodalModel>(config, kMultimodalModels, architecture, model_type));
  if (model != nullptr) return FindInside(config, *model);
  return UnsupportedField(config, "architectures", SupportedArchitectures());
}

}  // namespace aril::internal
