// Source of the numbers: config.json of the Hugging Face repository beside each shape.

#include "apps/synth_shapes.h"

#include "base/strings.h"

namespace aril {
namespace {

enum class Kind {
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
  kQwen3Moe,
  kQwen35,
  kGemma2,
  kGemma3,
  kPhi3,
  kGranite,
  kSmolLm3
};

struct ModelShape {
  std::string_view name;
  Kind kind;
  int vocab_size;
  int hidden_size;
  int intermediate_size;  // an expert's where there are some
  int num_layers;
  int num_heads;
  int num_kv_heads;
  int head_dim;
  int max_position_embeddings;
  double rms_norm_eps;
  double rope_theta;
  double llama3_factor;  // 0: no RoPE scaling
  bool tied;
  int bos_token_id;
  int eos_token_id;
  int num_experts = 0;
  int experts_per_token = 0;
};

constexpr ModelShape kShapes[] = {
    // For tests and demonstrations: some 3 million parameters; the vocabulary of stories260K.
    {"tiny", Kind::kLlama, 512, 256, 704, 4, 8, 4, 32, 2048, 1e-5, 1e4, 0, false, 1, 2},
    // TinyLlama/TinyLlama-1.1B-Chat-v1.0
    {"tinyllama-1.1b", Kind::kLlama, 32000, 2048, 5632, 22, 32, 4, 64, 2048, 1e-5, 1e4, 0, false, 1,
     2},
    // meta-llama/Llama-3.2-1B, Llama-3.2-3B, Llama-3.1-8B, Llama-2-7b-hf, Llama-2-13b-hf
    {"llama-3.2-1b", Kind::kLlama, 128256, 2048, 8192, 16, 32, 8, 64, 131072, 1e-5, 5e5, 32, true,
     128000, 128001},
    {"llama-3.2-3b", Kind::kLlama, 128256, 3072, 8192, 28, 24, 8, 128, 131072, 1e-5, 5e5, 32, true,
     128000, 128001},
    {"llama-3.1-8b", Kind::kLlama, 128256, 4096, 14336, 32, 32, 8, 128, 131072, 1e-5, 5e5, 8, false,
     128000, 128001},
    {"llama-2-7b", Kind::kLlama, 32000, 4096, 11008, 32, 32, 32, 128, 4096, 1e-5, 1e4, 0, false, 1,
     2},
    {"llama-2-13b", Kind::kLlama, 32000, 5120, 13824, 40, 40, 40, 128, 4096, 1e-5, 1e4, 0, false, 1,
     2},
    // mistralai/Mistral-7B-v0.1
    {"mistral-7b", Kind::kMistral, 32000, 4096, 14336, 32, 32, 8, 128, 32768, 1e-5, 1e4, 0, false,
     1, 2},
    // Qwen/Qwen2.5-0.5B, Qwen2.5-7B
    {"qwen2.5-0.5b", Kind::kQwen2, 151936, 896, 4864, 24, 14, 2, 64, 32768, 1e-6, 1e6, 0, true,
     151643, 151643},
    {"qwen2.5-7b", Kind::kQwen2, 152064, 3584, 18944, 28, 28, 4, 128, 131072, 1e-6, 1e6, 0, false,
     151643, 151643},
    // Qwen/Qwen3-0.6B, Qwen3-8B
    {"qwen3-0.6b", Kind::kQwen3, 151936, 1024, 3072, 28, 16, 8, 128, 40960, 1e-6, 1e6, 0, true,
     151643, 151645},
    {"qwen3-8b", Kind::kQwen3, 151936, 4096, 12288, 36, 32, 8, 128, 40960, 1e-6, 1e6, 0, false,
     151643, 151645},
    // Qwen/Qwen3-30B-A3B; six of its layers, for machines without room for all; and one as
    // small as "tiny", but with room for the demo's tokenizer.
    {"qwen3-30b-a3b", Kind::kQwen3Moe, 151936, 2048, 768, 48, 32, 4, 128, 40960, 1e-6, 1e6, 0,
     false, 151643, 151645, 128, 8},
    {"qwen3-30b-a3b-6-layers", Kind::kQwen3Moe, 151936, 2048, 768, 6, 32, 4, 128, 40960, 1e-6, 1e6,
     0, false, 151643, 151645, 128, 8},
    {"tiny-moe", Kind::kQwen3Moe, 1024, 256, 176, 4, 8, 4, 32, 2048, 1e-6, 1e6, 0, false, 1, 2, 16,
     4},
    // Qwen/Qwen3.5-0.8B, its text model.
    {"qwen3.5-0.8b", Kind::kQwen35, 248320, 1024, 3584, 24, 8, 2, 256, 262144, 1e-6, 1e7, 0, true,
     248044, 248044},
    // google/gemma-2-2b, gemma-2-9b, gemma-3-1b-pt
    {"gemma-2-2b", Kind::kGemma2, 256000, 2304, 9216, 26, 8, 4, 256, 8192, 1e-6, 1e4, 0, true, 2,
     1},
    {"gemma-2-9b", Kind::kGemma2, 256000, 3584, 14336, 42, 16, 8, 256, 8192, 1e-6, 1e4, 0, true, 2,
     1},
    {"gemma-3-1b", Kind::kGemma3, 262144, 1152, 6912, 26, 4, 1, 256, 32768, 1e-6, 1e6, 0, true, 2,
     1},
    // microsoft/Phi-3-mini-4k-instruct, phi-4
    {"phi-3-mini-4k", Kind::kPhi3, 32064, 3072, 8192, 32, 32, 32, 96, 4096, 1e-5, 1e4, 0, false, 1,
     32000},
    {"phi-4", Kind::kPhi3, 100352, 5120, 17920, 40, 40, 10, 128, 16384, 1e-5, 2.5e5, 0, false,
     100257, 100265},
    // ibm-granite/granite-3.2-8b-instruct
    {"granite-3.2-8b", Kind::kGranite, 49155, 4096, 12800, 40, 32, 8, 128, 131072, 1e-5, 1e7, 0,
     true, 0, 0},
    // HuggingFaceTB/SmolLM3-3B
    {"smollm3-3b", Kind::kSmolLm3, 128256, 2048, 11008, 36, 16, 4, 128, 65536, 1e-6, 5e6, 0, true,
     128000, 128012},
};

std::string TorchName(DType dtype) {
  if (dtype == DType::kBF16) return "bfloat16";
  return dtype == DType::kF16 ? "float16" : "float32";
}

Json RopeScaling(const ModelShape& shape) {
  if (shape.llama3_factor == 0) return nullptr;
  return Json::Object{{"rope_type", "llama3"},
                      {"factor", shape.llama3_factor},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 8192}};
}

void AddFamilyFields(const ModelShape& shape, Json::Object* config) {
  const auto add = [&](const char* key, Json value) {
    config->emplace_back(key, std::move(value));
  };
  const auto add_names = [&](const char* architecture, const char* model_type) {
    add("architectures", Json::Array{architecture});
    add("model_type", model_type);
  };
  switch (shape.kind) {
    case Kind::kLlama:
      add_names("LlamaForCausalLM", "llama");
      add("attention_bias", false);
      add("mlp_bias", false);
      add("pretraining_tp", 1);
      return;
    case Kind::kMistral:
      add_names("MistralForCausalLM", "mistral");
      add("sliding_window", 4096);
      return;
    case Kind::kQwen2:
      add_names("Qwen2ForCausalLM", "qwen2");
      add("use_sliding_window", false);
      return;
    case Kind::kQwen3:
      add_names("Qwen3ForCausalLM", "qwen3");
      add("attention_bias", false);
      add("use_sliding_window", false);
      return;
    case Kind::kQwen3Moe:
      add_names("Qwen3MoeForCausalLM", "qwen3_moe");
      add("attention_bias", false);
      add("use_sliding_window", false);
      add("moe_intermediate_size", shape.intermediate_size);
      add("num_experts", shape.num_experts);
      add("num_experts_per_tok", shape.experts_per_token);
      add("norm_topk_prob", true);
      add("decoder_sparse_step", 1);
      add("mlp_only_layers", Json::Array());
      return;
    case Kind::kQwen35:
      add_names("Qwen3_5ForCausalLM", "qwen3_5_text");
      add("attention_bias", false);
      add("attn_output_gate", true);
      add("full_attention_interval", 4);
      add("linear_conv_kernel_dim", 4);
      add("linear_key_head_dim", 128);
      add("linear_value_head_dim", 128);
      add("linear_num_key_heads", 16);
      add("linear_num_value_heads", 16);
      add("partial_rotary_factor", 0.25);
      return;
    case Kind::kGemma2:
      add_names("Gemma2ForCausalLM", "gemma2");
      add("hidden_activation", "gelu_pytorch_tanh");
      add("query_pre_attn_scalar", 256);
      add("sliding_window", 4096);
      add("attn_logit_softcapping", 50.0);
      add("final_logit_softcapping", 30.0);
      return;
    case Kind::kGemma3:
      add_names("Gemma3ForCausalLM", "gemma3_text");
      add("hidden_activation", "gelu_pytorch_tanh");
      add("query_pre_attn_scalar", 256);
      add("sliding_window", 512);
      add("sliding_window_pattern", 6);
      add("rope_local_base_freq", 10000.0);
      return;
    case Kind::kPhi3:
      add_names("Phi3ForCausalLM", "phi3");
      add("attention_bias", false);
      add("original_max_position_embeddings", shape.max_position_embeddings);
      if (shape.name == "phi-3-mini-4k") add("sliding_window", 2047);
      return;
    case Kind::kGranite:
      add_names("GraniteForCausalLM", "granite");
      add("attention_bias", false);
      add("mlp_bias", false);
      add("attention_multiplier", 1.0 / shape.head_dim);
      add("embedding_multiplier", 12.0);
      add("residual_multiplier", 0.22);
      add("logits_scaling", 16.0);
      return;
    case Kind::kSmolLm3:
      add_names("SmolLM3ForCausalLM", "smollm3");
      add("attention_bias", false);
      add("mlp_bias", false);
      add("no_rope_layer_interval", 4);
      add("use_sliding_window", false);
      return;
  }
}

Json MakeConfig(const ModelShape& shape, DType dtype) {
  Json::Object config;
  AddFamilyFields(shape, &config);
  const Json::Object rest = {{"vocab_size", shape.vocab_size},
                             {"hidden_size", shape.hidden_size},
                             {"intermediate_size", shape.intermediate_size},
                             {"num_hidden_layers", shape.num_layers},
                             {"num_attention_heads", shape.num_heads},
                             {"num_key_value_heads", shape.num_kv_heads},
                             {"max_position_embeddings", shape.max_position_embeddings},
                             {"rms_norm_eps", shape.rms_norm_eps},
                             {"rope_theta", shape.rope_theta},
                             {"rope_scaling", RopeScaling(shape)},
                             {"tie_word_embeddings", shape.tied},
                             {"attention_dropout", 0.0},
                             {"initializer_range", 0.02},
                             {"use_cache", true},
                             {"bos_token_id", shape.bos_token_id},
                             {"eos_token_id", shape.eos_token_id},
                             {"torch_dtype", TorchName(dtype)}};
  config.insert(config.end(), rest.begin(), rest.end());
  const bool is_gemma = shape.kind == Kind::kGemma2 || shape.kind == Kind::kGemma3;
  if (!is_gemma) config.emplace_back("hidden_act", "silu");
  // In transformers others have no such field.
  const bool has_head_dim = shape.kind == Kind::kLlama || shape.kind == Kind::kMistral ||
                            shape.kind == Kind::kQwen3 || shape.kind == Kind::kQwen3Moe ||
                            shape.kind == Kind::kQwen35 || is_gemma;
  if (has_head_dim) config.emplace_back("head_dim", shape.head_dim);
  return config;
}

}  // namespace

std::vector<std::string> SynthShapeNames() {
  std::vector<std::string> names;
  for (const ModelShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

StatusOr<Json> SynthShapeConfig(std::string_view name, DType dtype) {
  for (const ModelShape& shape : kShapes) {
    if (shape.name == name) return MakeConfig(shape, dtype);
  }
  return NotFound(StrCat("no shape is called ", JsonQuote(name), "; there are ",
                         Join(SynthShapeNames(), ", ")));
}

}  // namespace aril
