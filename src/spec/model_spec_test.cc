#include "spec/model_spec.h"

#include <cmath>

#include "base/file.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The fields without which no config.json is accepted, then `more`: members of the same object, of
// which the last of each name counts.
Json Config(std::string_view architecture, const std::string& more = "{}") {
  Json config = Json::Object{{"architectures", Json::Array{std::string(architecture)}},
                             {"vocab_size", 1000},
                             {"hidden_size", 512},
                             {"intermediate_size", 1024},
                             {"num_hidden_layers", 2},
                             {"num_attention_heads", 32},
                             {"num_key_value_heads", 8}};
  const auto extra = Json::Parse(more);
  EXPECT_TRUE(extra.ok()) << extra.status();
  for (const auto& member : *extra->AsObject()) {
    std::erase_if(*config.AsObject(), [&](const auto& m) { return m.first == member.first; });
    config.AsObject()->push_back(member);
  }
  return config;
}

Json Without(Json config, std::string_view key) {
  std::erase_if(*config.AsObject(), [&](const auto& member) { return member.first == key; });
  return config;
}

ModelSpec Parse(const Json& config, const Json* generation_config = nullptr) {
  const auto spec = ParseModelSpec(config, generation_config);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(ModelSpec());
}

std::string ErrorOf(const Json& config, const Json* generation_config = nullptr) {
  const auto spec = ParseModelSpec(config, generation_config);
  return spec.ok() ? "" : Message(spec.status());
}

constexpr const char* kArchitectures[] = {"LlamaForCausalLM", "MistralForCausalLM",
                                          "Qwen2ForCausalLM", "Qwen3ForCausalLM"};

TEST(ModelSpec, ProjectionsHaveNamesAndWidths) {
  ModelSpec spec;
  spec.hidden_size = 1000;
  spec.intermediate_size = 3000;
  spec.num_heads = 12;
  spec.num_kv_heads = 4;
  spec.head_dim = 100;
  const std::vector<std::tuple<std::string_view, int64_t, int64_t>> expected = {
      {"self_attn.q_proj", 1000, 1200},     {"self_attn.k_proj", 1000, 400},
      {"self_attn.v_proj", 1000, 400},      {"self_attn.o_proj", 1200, 1000},
      {"mlp.gate_proj", 1000, 3000},        {"mlp.up_proj", 1000, 3000},
      {"mlp.down_proj", 3000, 1000},        {"linear_attn.in_proj_qkv", 1000, 2 * 120 + 400},
      {"linear_attn.in_proj_z", 1000, 400}, {"linear_attn.in_proj_b", 1000, 8},
      {"linear_attn.in_proj_a", 1000, 8},   {"linear_attn.out_proj", 400, 1000}};
  spec.linear_attention = {
      .num_key_heads = 4, .num_value_heads = 8, .key_dim = 30, .value_dim = 50, .conv_size = 4};
  ASSERT_EQ(expected.size(), kAllProjections.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const Projection projection = kAllProjections[i];
    const auto& [path, in, out] = expected[i];
    EXPECT_EQ(Site(projection).Path(), path);
    EXPECT_TRUE(path.ends_with(Name(projection)));
    EXPECT_EQ(spec.InFeatures(projection), in) << path;
    EXPECT_EQ(spec.OutFeatures(projection), out) << path;
  }
  EXPECT_EQ(Name(Projection::kDown), "down_proj");
}

// meta-llama/Llama-3.2-1B
TEST(ModelSpec, ReadsLlama32) {
  const auto config = Json::Parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
    "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256})");
  ASSERT_TRUE(config.ok()) << config.status();
  const ModelSpec spec = Parse(*config);
  EXPECT_EQ(spec.architecture, "LlamaForCausalLM");
  EXPECT_EQ(spec.vocab_size, 128256);
  EXPECT_EQ(spec.hidden_size, 2048);
  EXPECT_EQ(spec.intermediate_size, 8192);
  EXPECT_EQ(spec.num_layers, 16);
  EXPECT_EQ(spec.q_size(), 2048);
  EXPECT_EQ(spec.kv_size(), 512);
  EXPECT_EQ(spec.max_position_embeddings, 131072);
  EXPECT_EQ(spec.rms_norm_eps, 1e-5);
  EXPECT_EQ(spec.rope.theta, 500000.0);
  EXPECT_EQ(spec.rope.scaling, RopeSpec::Scaling::kLlama3);
  EXPECT_EQ(spec.rope.factor, 32.0);
  EXPECT_TRUE(spec.tie_word_embeddings);
  EXPECT_FALSE(spec.qkv_bias || spec.o_bias || spec.qk_norm || spec.sliding_window);
  EXPECT_EQ(spec.dtype, DType::kBF16);
  EXPECT_EQ(spec.bos_token_id, 128000);
  EXPECT_THAT(spec.eos_token_ids, ElementsAre(128001));
}

// google/gemma-2b, as it was first published
TEST(ModelSpec, ReadsGemma) {
  const auto config = Json::Parse(R"({
    "architectures": ["GemmaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 2, "eos_token_id": 1, "head_dim": 256, "hidden_act": "gelu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 16384,
    "max_position_embeddings": 8192, "model_type": "gemma", "num_attention_heads": 8,
    "num_hidden_layers": 18, "num_key_value_heads": 1, "pad_token_id": 0, "rms_norm_eps": 1e-06,
    "rope_scaling": null, "rope_theta": 10000.0, "torch_dtype": "bfloat16",
    "transformers_version": "4.38.0.dev0", "use_cache": true, "vocab_size": 256000})");
  ASSERT_TRUE(config.ok()) << config.status();
  const ModelSpec spec = Parse(*config);
  EXPECT_EQ(spec.activation, MlpActivation::kGeluTanh);
  EXPECT_TRUE(spec.unit_offset_norms && spec.scaled_embedding && spec.tie_word_embeddings);
  EXPECT_FALSE(spec.output_norms || spec.qk_norm || spec.sliding_window || spec.other_rope);
  EXPECT_FALSE(spec.attn_softcap || spec.logit_softcap || spec.attention_multiplier);
  EXPECT_EQ(spec.AttentionScale(), 1.0 / 16);
  EXPECT_EQ(spec.bos_token_id, 2);
}

// google/gemma-2-27b-it
TEST(ModelSpec, ReadsGemma2) {
  const auto config = Json::Parse(R"({
    "architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "attn_logit_softcapping": 50.0, "bos_token_id": 2, "cache_implementation": "hybrid",
    "eos_token_id": 1, "final_logit_softcapping": 30.0, "head_dim": 128,
    "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 4608, "initializer_range": 0.02, "intermediate_size": 36864,
    "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 32,
    "num_hidden_layers": 46, "num_key_value_heads": 16, "pad_token_id": 0,
    "query_pre_attn_scalar": 144, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
    "sliding_window": 4096, "sliding_window_size": 4096, "torch_dtype": "bfloat16",
    "use_cache": true, "vocab_size": 256000, "_sliding_window_pattern": 2})");
  ASSERT_TRUE(config.ok()) << config.status();
  const ModelSpec spec = Parse(*config);
  EXPECT_EQ(spec.activation, MlpActivation::kGeluTanh);
  EXPECT_TRUE(spec.unit_offset_norms && spec.scaled_embedding && spec.tie_word_embeddings);
  EXPECT_TRUE(spec.output_norms && spec.HasWindow(0) && !spec.HasWindow(1));
  EXPECT_FALSE(spec.qk_norm || spec.other_rope);
  EXPECT_EQ(spec.sliding_window, 4096);
  EXPECT_EQ(spec.attn_softcap, 50.0);
  EXPECT_EQ(spec.logit_softcap, 30.0);
  EXPECT_EQ(spec.AttentionScale(), 1.0 / 12);
  EXPECT_EQ(spec.q_size(), 4096);
}

// google/gemma-3-1b-it
TEST(ModelSpec, ReadsGemma3) {
  const auto config = Json::Parse(R"({
    "architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "attn_logit_softcapping": null, "bos_token_id": 2, "cache_implementation": "hybrid",
    "eos_token_id": [1, 106], "final_logit_softcapping": null, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "initializer_range": 0.02,
    "intermediate_size": 6912, "max_position_embeddings": 32768, "model_type": "gemma3_text",
    "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
    "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000,
    "sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16",
    "transformers_version": "4.50.0.dev0", "use_cache": true, "vocab_size": 262144})");
  ASSERT_TRUE(config.ok()) << config.status();
  const ModelSpec spec = Parse(*config);
  EXPECT_TRUE(spec.unit_offset_norms && spec.scaled_embedding && spec.tie_word_embeddings);
  EXPECT_TRUE(spec.output_norms && spec.qk_norm && spec.HasWindow(4) && !spec.HasWindow(5));
  EXPECT_EQ(spec.sliding_window, 512);
  EXPECT_TRUE(spec.HasOtherRope(4) && !spec.HasOtherRope(5));
  ASSERT_TRUE(spec.other_rope.has_value());
  EXPECT_EQ(spec.other_rope->theta, 1e4);
  EXPECT_EQ(spec.rope.theta, 1e6);
  EXPECT_FALSE(spec.attn_softcap || spec.logit_softcap);
  EXPECT_EQ(spec.AttentionScale(), 1.0 / 16);
  EXPECT_THAT(spec.eos_token_ids, ElementsAre(1, 106));
}

TEST(ModelSpec, GemmasFieldsHaveDefaultsAndLimits) {
  const ModelSpec gemma2 = Parse(Config("Gemma2ForCausalLM"));
  EXPECT_EQ(gemma2.head_dim, 256);
  EXPECT_EQ(gemma2.max_position_embeddings, 8192);
  EXPECT_EQ(gemma2.attn_softcap, 50.0);
  EXPECT_EQ(gemma2.logit_softcap, 30.0);
  EXPECT_EQ(gemma2.attention_multiplier, 1.0 / 16);
  const ModelSpec gemma3 = Parse(Config("Gemma3ForCausalLM", R"({"final_logit_softcapping":5})"));
  EXPECT_EQ(gemma3.max_position_embeddings, 131072);
  EXPECT_EQ(gemma3.logit_softcap, 5.0);
  EXPECT_EQ(gemma3.rope.theta, 1e6);
  const ModelSpec uncapped = Parse(Config(
      "Gemma2ForCausalLM", R"({"final_logit_softcapping":null,"attn_logit_softcapping":null})"));
  EXPECT_FALSE(uncapped.attn_softcap || uncapped.logit_softcap);
  EXPECT_FALSE(
      Parse(Config("Gemma2ForCausalLM", R"({"tie_word_embeddings":false})")).tie_word_embeddings);
  const std::vector<std::tuple<const char*, std::string, std::string>> cases = {
      {"GemmaForCausalLM", R"({"hidden_act":"silu"})", R"("hidden_act" is "silu")"},
      {"GemmaForCausalLM", R"({"hidden_activation":"gelu"})", R"("hidden_activation" is "gelu")"},
      {"Gemma2ForCausalLM", R"({"hidden_activation":"gelu"})", R"("hidden_activation" is "gelu")"},
      {"Gemma3ForCausalLM", R"({"attn_logit_softcapping":50.0})", R"("attn_logit_softcapping")"},
      {"Gemma2ForCausalLM", R"({"attn_logit_softcapping":0})", R"("attn_logit_softcapping" is 0)"},
      {"Gemma2ForCausalLM", R"({"query_pre_attn_scalar":0})", R"("query_pre_attn_scalar" is 0)"},
      {"Gemma2ForCausalLM", R"({"query_pre_attn_scalar":"x"})", R"("query_pre_attn_scalar")"},
      {"Gemma3ForCausalLM", R"({"sliding_window_pattern":0})", R"("sliding_window_pattern" is 0)"},
  };
  for (const auto& [architecture, more, expected] : cases) {
    EXPECT_THAT(ErrorOf(Config(architecture, more)), HasSubstr(expected)) << more;
  }
}

TEST(ModelSpec, MissingFieldsDefaultAsInTransformers) {
  const ModelSpec llama = Parse(Without(Config("LlamaForCausalLM"), "num_key_value_heads"));
  EXPECT_EQ(llama.num_kv_heads, 32);
  EXPECT_EQ(llama.head_dim, 16);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_EQ(llama.rms_norm_eps, 1e-6);
  EXPECT_EQ(llama.rope.theta, 10000.0);
  EXPECT_FALSE(llama.tie_word_embeddings);
  EXPECT_EQ(llama.dtype, std::nullopt);
  EXPECT_EQ(llama.bos_token_id, 1);
  EXPECT_THAT(llama.eos_token_ids, ElementsAre(2));

  const ModelSpec mistral = Parse(Without(Config("MistralForCausalLM"), "num_key_value_heads"));
  EXPECT_EQ(mistral.num_kv_heads, 8);
  EXPECT_EQ(mistral.max_position_embeddings, 131072);
  EXPECT_EQ(mistral.sliding_window, 4096);

  const ModelSpec qwen2 = Parse(Without(Config("Qwen2ForCausalLM"), "num_key_value_heads"));
  EXPECT_EQ(qwen2.num_kv_heads, 32);
  EXPECT_EQ(qwen2.max_position_embeddings, 32768);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.o_bias);
  EXPECT_EQ(qwen2.sliding_window, std::nullopt);
  EXPECT_EQ(qwen2.bos_token_id, std::nullopt);
  EXPECT_THAT(qwen2.eos_token_ids, IsEmpty());

  const ModelSpec qwen3 = Parse(Config("Qwen3ForCausalLM"));
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.qkv_bias);
  EXPECT_FALSE(qwen3.tie_word_embeddings);
}

TEST(ModelSpec, NullIsNotTheDefaultWhereTransformersDistinguishes) {
  const ModelSpec spec =
      Parse(Config("MistralForCausalLM", R"({"num_key_value_heads":null,"sliding_window":null})"));
  EXPECT_EQ(spec.num_kv_heads, 32);
  EXPECT_EQ(spec.sliding_window, std::nullopt);
  EXPECT_THAT(Parse(Config("LlamaForCausalLM", R"({"eos_token_id":null})")).eos_token_ids,
              IsEmpty());
}

TEST(ModelSpec, AttentionBiasMeansWhatTheFamilyMakesOfIt) {
  for (const char* architecture : {"LlamaForCausalLM", "Qwen3ForCausalLM"}) {
    const ModelSpec spec = Parse(Config(architecture, R"({"attention_bias":true})"));
    EXPECT_TRUE(spec.qkv_bias && spec.o_bias) << architecture;
  }
  EXPECT_TRUE(Parse(Config("Qwen2ForCausalLM", R"({"attention_bias":true})")).qkv_bias);
  EXPECT_THAT(ErrorOf(Config("Qwen2ForCausalLM", R"({"attention_bias":false})")),
              HasSubstr(R"("attention_bias" is false, which is not supported; supported: true)"));
  EXPECT_THAT(ErrorOf(Config("MistralForCausalLM", R"({"attention_bias":true})")),
              HasSubstr(R"("attention_bias" is true)"));
}

TEST(ModelSpec, SlidingWindows) {
  EXPECT_EQ(Parse(Config("MistralForCausalLM", R"({"sliding_window":512})")).sliding_window, 512);
  EXPECT_THAT(ErrorOf(Config("MistralForCausalLM", R"({"sliding_window":0})")),
              HasSubstr(R"("sliding_window" is 0; expected an integer from 1)"));
  EXPECT_THAT(ErrorOf(Config("LlamaForCausalLM", R"({"sliding_window":512})")),
              HasSubstr(R"("sliding_window" is 512, which is not supported)"));
  const Json off =
      Config("Qwen2ForCausalLM", R"({"use_sliding_window":false,"sliding_window":4096})");
  EXPECT_EQ(Parse(off).sliding_window, std::nullopt);
}

// As Qwen2Config and Gemma2Config of transformers do.
TEST(ModelSpec, WindowsOfSomeLayers) {
  const auto windows = [](const ModelSpec& spec) {
    std::string text;
    for (int64_t layer = 0; layer < spec.num_layers; ++layer)
      text += spec.HasWindow(layer) ? 'w' : '-';
    return text;
  };
  const std::string qwen = R"("num_hidden_layers":4,"use_sliding_window":true)";
  const ModelSpec upper = Parse(
      Config("Qwen2ForCausalLM", "{" + qwen + R"(,"max_window_layers":1,"sliding_window":8})"));
  EXPECT_EQ(windows(upper), "-www");
  EXPECT_EQ(upper.sliding_window, 8);
  // The default is 28: none is beyond.
  EXPECT_EQ(Parse(Config("Qwen3ForCausalLM", "{" + qwen + "}")).sliding_window, std::nullopt);
  EXPECT_EQ(Parse(Config("Qwen3ForCausalLM",
                         "{" + qwen + R"(,"max_window_layers":1,"sliding_window":null})"))
                .sliding_window,
            std::nullopt);
  const std::string types = R"(,"layer_types":["sliding_attention","full_attention",
                                               "full_attention","sliding_attention"]})";
  const ModelSpec listed = Parse(Config("Qwen3ForCausalLM", "{" + qwen + types));
  EXPECT_EQ(windows(listed), "w--w");
  EXPECT_EQ(listed.sliding_window, 4096);
  EXPECT_THAT(
      ErrorOf(Config("Qwen3ForCausalLM", "{" + qwen + R"(,"layer_types":["full_attention"]})")),
      HasSubstr("each of 4 layers"));
  EXPECT_THAT(ErrorOf(Config("Qwen3ForCausalLM",
                             "{" + qwen + R"(,"layer_types":["chunked_attention",1,2,3]})")),
              HasSubstr("\"layer_types\""));
  const std::string seven = R"({"num_hidden_layers":7)";
  EXPECT_EQ(windows(Parse(Config("Gemma2ForCausalLM", seven + "}"))), "w-w-w-w");
  EXPECT_EQ(windows(Parse(Config("Gemma3ForCausalLM", seven + "}"))), "wwwww-w");
  const std::string pattern = seven + R"(,"sliding_window_pattern":3})";
  EXPECT_EQ(windows(Parse(Config("Gemma3ForCausalLM", pattern))), "ww-ww-w");
  // Gemma2Config knows no such field.
  EXPECT_EQ(windows(Parse(Config("Gemma2ForCausalLM", pattern))), "w-w-w-w");
  EXPECT_THAT(ErrorOf(Config("Gemma2ForCausalLM", R"({"sliding_window":null})")),
              HasSubstr("\"sliding_window\" is null"));
}

TEST(ModelSpec, LayerTypesMayOnlyRepeatTheRest) {
  const std::string full = R"({"layer_types":["full_attention","full_attention"]})";
  const std::string mixed = R"({"layer_types":["full_attention","sliding_attention"]})";
  for (const char* architecture : kArchitectures) {
    EXPECT_THAT(ErrorOf(Config(architecture, mixed)), HasSubstr("\"layer_types\"")) << architecture;
    if (architecture == std::string_view("MistralForCausalLM")) continue;
    EXPECT_EQ(ErrorOf(Config(architecture, full)), "") << architecture;
  }
  EXPECT_THAT(ErrorOf(Config("Qwen3ForCausalLM", R"({"layer_types":["full_attention"]})")),
              HasSubstr("each of 2 layers"));
  EXPECT_THAT(ErrorOf(Config("Qwen3ForCausalLM", R"({"layer_types":7})")),
              HasSubstr("\"layer_types\" is 7"));
}

TEST(ModelSpec, RefusesWhatWouldChangeTheResult) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"hidden_act":"gelu"})", R"("hidden_act" is "gelu")"},
      {R"({"mlp_bias":true})", R"("mlp_bias" is true)"},
      {R"({"quantization_config":{"quant_method":"mxfp4"}})", R"("quant_method" is "mxfp4")"},
      {R"({"compression_config":{"quant_method":"awq","bits":8}})", "--quantization int8 or int4"},
      {R"({"partial_rotary_factor":0.5})", R"("partial_rotary_factor" is 0.5)"},
      {R"({"rope_scaling":{"rope_type":"dynamic","factor":4}})", R"("rope_type" is "dynamic")"},
      {R"({"text_config":{"hidden_size":1}})", "\"text_config\""},
      {R"({"torch_dtype":"float8_e4m3fn"})", R"("torch_dtype" is "float8_e4m3fn")"},
      {R"({"architectures":["PhiForCausalLM"]})", "supported: LlamaForCausalLM, Mistral"},
      {R"({"use_bidirectional_attention":true})", R"("use_bidirectional_attention" is true)"},
  };
  for (const auto& [more, expected] : cases) {
    const auto spec = ParseModelSpec(Config("LlamaForCausalLM", more), nullptr);
    EXPECT_EQ(spec.status().code(), StatusCode::kUnimplemented) << more;
    EXPECT_THAT(Message(spec.status()), AllOf(HasSubstr(expected), HasSubstr("not supported")));
  }
  EXPECT_EQ(ErrorOf(Config("LlamaForCausalLM",
                           R"({"hidden_act":"swish","mlp_bias":false,"quantization_config":null,
                               "partial_rotary_factor":1.0,"unknown_field":[1,2]})")),
            "");
}

TEST(ModelSpec, RefusesWrongTypesAndSizes) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"vocab_size":"1000"})", R"("vocab_size" is "1000"; expected an integer from 1 to)"},
      {R"({"vocab_size":0})", R"("vocab_size" is 0)"},
      {R"({"vocab_size":99999999999})", R"("vocab_size" is 99999999999)"},
      {R"({"hidden_size":-1})", R"("hidden_size" is -1)"},
      {R"({"hidden_size":512.0})", R"("hidden_size" is)"},
      {R"({"hidden_size":500})", R"("hidden_size" is 500; expected a multiple of num_attention)"},
      {R"({"hidden_size":96})", R"("head_dim" is missing; expected an even number)"},
      {R"({"intermediate_size":null})", R"("intermediate_size" is null)"},
      {R"({"num_hidden_layers":100000})", R"("num_hidden_layers" is 100000)"},
      {R"({"num_attention_heads":0})", R"("num_attention_heads" is 0)"},
      {R"({"num_key_value_heads":5})", R"("num_key_value_heads" is 5; expected a divisor)"},
      {R"({"num_key_value_heads":64})", R"("num_key_value_heads" is 64; expected a divisor)"},
      {R"({"head_dim":7})", R"("head_dim" is 7; expected an even number)"},
      {R"({"head_dim":1000000})", R"("head_dim" is 1000000)"},
      {R"({"max_position_embeddings":0})", R"("max_position_embeddings" is 0)"},
      {R"({"rms_norm_eps":0})", R"("rms_norm_eps" is 0; expected a number)"},
      {R"({"rms_norm_eps":"1e-5"})", R"("rms_norm_eps" is "1e-5")"},
      {R"({"rope_theta":0})", R"("rope_theta" is 0)"},
      {R"({"tie_word_embeddings":1})", R"("tie_word_embeddings" is 1; expected true or false)"},
      {R"({"hidden_act":3})", R"("hidden_act" is 3; expected a string)"},
      {R"({"eos_token_id":"</s>"})", R"("eos_token_id" is "</s>"; expected token ids)"},
      {R"({"eos_token_id":[1,[2]]})", R"("eos_token_id" is [1,[2]])"},
      {R"({"eos_token_id":-2})", R"("eos_token_id" is -2)"},
      {R"({"eos_token_id":4294967296})", R"("eos_token_id" is 4294967296)"},
      {R"({"bos_token_id":0.5})", R"("bos_token_id" is 0.5)"},
      {R"({"torch_dtype":16})", R"("torch_dtype" is 16; expected a string)"},
      {R"({"architectures":[]})", R"("architectures" is [])"},
      {R"({"architectures":["LlamaForCausalLM","X"]})", "an array of one string"},
      {R"({"model_type":"mistral"})", R"("model_type" is "mistral"; expected "llama")"},
  };
  for (const auto& [more, expected] : cases) {
    const auto spec = ParseModelSpec(Config("LlamaForCausalLM", more), nullptr);
    EXPECT_EQ(spec.status().code(), StatusCode::kInvalidArgument) << more;
    EXPECT_THAT(Message(spec.status()), HasSubstr(expected)) << more;
  }
  EXPECT_THAT(ErrorOf(Json(3)), HasSubstr("must be a JSON object"));
  EXPECT_THAT(ErrorOf(Json(Json::Object())), HasSubstr("\"architectures\" is missing"));
  for (const char* required : {"vocab_size", "hidden_size", "intermediate_size",
                               "num_hidden_layers", "num_attention_heads"}) {
    EXPECT_THAT(ErrorOf(Without(Config("Qwen2ForCausalLM"), required)),
                HasSubstr(StrCat("\"", required, "\" is missing")));
  }
}

// Published files of Qwen say the positions before YaRN, others those after it.
TEST(ModelSpec, YarnStretchesPositions) {
  const std::string yarn = R"("rope_scaling":{"type":"yarn","factor":4.0,
                               "original_max_position_embeddings":32768})";
  for (const int said : {32768, 131072}) {
    const ModelSpec spec = Parse(
        Config("Qwen2ForCausalLM", StrCat("{\"max_position_embeddings\":", said, ",", yarn, "}")));
    EXPECT_EQ(spec.max_position_embeddings, 131072);
    EXPECT_NEAR(spec.rope.attention_factor, 0.1 * std::log(4) + 1, 1e-15);
  }
  const ModelSpec endless =
      Parse(Config("Qwen2ForCausalLM", R"({"rope_scaling":{"type":"yarn","factor":1e6}})"));
  EXPECT_EQ(endless.max_position_embeddings, 1 << 24);
}

TEST(ModelSpec, TheArchitectureMayFollowFromTheModelType) {
  const Json config = Config("", R"({"model_type":"qwen3"})");
  EXPECT_EQ(Parse(Without(config, "architectures")).architecture, "Qwen3ForCausalLM");
}

TEST(ModelSpec, EndTokensComeFromTheGenerationConfigFirst) {
  const Json config = Config("LlamaForCausalLM", R"({"eos_token_id":[7,8]})");
  EXPECT_THAT(Parse(config).eos_token_ids, ElementsAre(7, 8));
  const auto generation = Json::Parse(R"({"eos_token_id":[9,10,11]})");
  EXPECT_THAT(Parse(config, &*generation).eos_token_ids, ElementsAre(9, 10, 11));
  const auto silent = Json::Parse(R"({"temperature":0.6})");
  EXPECT_THAT(Parse(config, &*silent).eos_token_ids, ElementsAre(7, 8));
  const auto bad = Json::Parse(R"({"eos_token_id":"x"})");
  EXPECT_THAT(ErrorOf(config, &*bad), HasSubstr("generation_config: \"eos_token_id\""));
  // Outside the vocabulary of 1000.
  EXPECT_THAT(Parse(Config("LlamaForCausalLM", R"({"eos_token_id":[-1,999,1000]})")).eos_token_ids,
              ElementsAre(999));
  EXPECT_EQ(Parse(Config("LlamaForCausalLM", R"({"bos_token_id":1000})")).bos_token_id,
            std::nullopt);
}

TEST(ModelSpec, LongValuesAreCutInMessages) {
  const std::string error =
      ErrorOf(Config("LlamaForCausalLM", "{\"hidden_act\":\"" + std::string(5000, 'x') + "\"}"));
  EXPECT_LT(error.size(), 300u);
}

TEST(LoadModelSpec, NamesTheFile) {
  const TestDir dir;
  EXPECT_THAT(Message(LoadModelSpec(dir.path()).status()), HasSubstr("/config.json: No such file"));
  dir.Write("config.json", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(Message(LoadModelSpec(dir.path()).status()),
              AllOf(HasSubstr("/config.json: "), HasSubstr("Git LFS pointer")));
  dir.Write("config.json", "[]");
  EXPECT_THAT(Message(LoadModelSpec(dir.path()).status()), HasSubstr("must hold a JSON object"));
  dir.Write("config.json", Config("LlamaForCausalLM").Dump());
  EXPECT_TRUE(LoadModelSpec(dir.path()).ok());
  dir.Write("generation_config.json", "{");
  EXPECT_THAT(Message(LoadModelSpec(dir.path()).status()),
              HasSubstr("generation_config.json: invalid"));
  dir.Write("generation_config.json", R"({"eos_token_id":3})");
  EXPECT_THAT(LoadModelSpec(dir.path())->eos_token_ids, ElementsAre(3));
}

TEST(LoadModelSpec, Stories260K) {
  if (!FileExists(SharedPath("data"))) GTEST_SKIP() << SharedPath("data") << " is absent";
  const auto spec = LoadModelSpec(SharedPath("data/models/stories260K"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->num_layers, 5);
  EXPECT_EQ(spec->head_dim, 8);
  EXPECT_EQ(spec->dtype, DType::kF32);
  EXPECT_TRUE(spec->tie_word_embeddings);
}

}  // namespace
}  // namespace aril
