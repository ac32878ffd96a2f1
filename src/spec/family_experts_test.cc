// Mixtures of experts, with config.json as published models have it.

#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/family_test_support.h"
#include "spec/model_spec.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

// Qwen/Qwen3-30B-A3B
constexpr const char* kQwen3Moe = R"({
  "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 6144,
  "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
  "model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true,
  "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
  "num_key_value_heads": 4, "output_router_logits": false, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001,
  "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

// mistralai/Mixtral-8x7B-Instruct-v0.1
constexpr const char* kMixtral = R"({
  "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
  "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
  "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
  "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02,
  "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "use_cache": true, "vocab_size": 32000})";

// openai/gpt-oss-20b
constexpr const char* kGptOss = R"({
  "architectures": ["GptOssForCausalLM"], "attention_bias": true, "attention_dropout": 0.0,
  "eos_token_id": 200002, "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu",
  "hidden_size": 2880, "initial_context_length": 4096, "initializer_range": 0.02,
  "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention",
  "sliding_attention", "full_attention"], "max_position_embeddings": 131072,
  "model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4,
  "num_hidden_layers": 4, "num_key_value_heads": 8, "num_local_experts": 32,
  "output_router_logits": false, "pad_token_id": 199999, "quantization_config": {
  "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
  "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"}, "rms_norm_eps": 1e-05,
  "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
  "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
  "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128,
  "swiglu_limit": 7.0, "tie_word_embeddings": false, "transformers_version": "4.55.0.dev0",
  "use_cache": true, "vocab_size": 201088})";

TEST(Family, ReadsGptOss) {
  const auto spec = ParseModelSpec(Parse(kGptOss), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(spec->experts);
  EXPECT_EQ(spec->experts->count, 32);
  EXPECT_EQ(spec->experts->per_token, 4);
  EXPECT_TRUE(spec->experts->normalized && spec->experts->is_gpt_oss);
  EXPECT_TRUE(spec->attention_sinks);
  EXPECT_EQ(spec->activation, MlpActivation::kClampedSwiglu);
  EXPECT_TRUE(spec->qkv_bias && spec->o_bias);
  EXPECT_TRUE(spec->HasWindow(0) && !spec->HasWindow(1) && spec->HasWindow(2));
  EXPECT_EQ(spec->sliding_window, 128);
  EXPECT_EQ(spec->rope.scaling, RopeSpec::Scaling::kYarn);
  EXPECT_FALSE(spec->rope.truncate);
  EXPECT_EQ(spec->rope.theta, 150000);
  EXPECT_EQ(spec->max_position_embeddings, 131072);
  EXPECT_EQ(spec->quantized, QuantizedSpec(Mxfp4Spec()));
}

TEST(Family, GptOssHasDefaults) {
  const auto spec = ParseModelSpec(
      Parse(R"({"model_type": "gpt_oss", "rope_scaling": {"rope_type": "default"}})"), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->vocab_size, 201088);
  EXPECT_EQ(spec->num_layers, 36);
  EXPECT_EQ(spec->experts->count, 128);
  EXPECT_TRUE(spec->HasWindow(34) && !spec->HasWindow(35));
  EXPECT_TRUE(spec->qkv_bias && spec->o_bias);
  EXPECT_EQ(spec->rope.theta, 150000);
}

TEST(Family, GptOssIsAsItIsPublished) {
  const auto error = [](const std::string& from, const std::string& to) {
    return Message(ParseModelSpec(Parse(kGptOss, from, to), nullptr).status());
  };
  EXPECT_THAT(error(R"("swiglu_limit": 7.0)", R"("swiglu_limit": 8.0)"),
              HasSubstr("\"swiglu_limit\" is 8"));
  EXPECT_THAT(error(R"("swiglu_limit": 7.0)", R"("swiglu_alpha": 1.5)"),
              HasSubstr("\"swiglu_alpha\" is 1.5"));
  EXPECT_THAT(error(R"("hidden_act": "silu")", R"("hidden_act": "gelu")"),
              HasSubstr("\"hidden_act\" is \"gelu\""));
  EXPECT_THAT(error("\"rope_scaling\"", "\"rope_scaling_of_old\""),
              HasSubstr("\"rope_scaling\" is missing; expected an object"));
  EXPECT_EQ(error(R"("attention_bias": true)", R"("attention_bias": false)"), "");
}

TEST(Family, ReadsQwen3Moe) {
  const auto spec = ParseModelSpec(Parse(kQwen3Moe), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(spec->experts);
  EXPECT_EQ(spec->experts->count, 128);
  EXPECT_EQ(spec->experts->per_token, 8);
  EXPECT_TRUE(spec->experts->normalized);
  EXPECT_EQ(spec->intermediate_size, 768) << "an expert's";
  EXPECT_EQ(spec->OutFeatures(Projection::kUp), 768);
  EXPECT_EQ(spec->InFeatures(Projection::kDown), 768);
  EXPECT_EQ(spec->q_size(), 4096);
  EXPECT_TRUE(spec->qk_norm);
  EXPECT_FALSE(spec->sliding_window);
  const std::vector<LinearModule> modules = spec->LinearModules(0);
  ASSERT_EQ(modules.size(), 4 + 1 + 3 * 128U);
  EXPECT_EQ(modules[3].path, "self_attn.o_proj");
  EXPECT_EQ(modules[4].path, "mlp.gate");
  EXPECT_EQ(spec->OutFeatures(modules[4]), 128);
  EXPECT_EQ(modules[4 + 1 + 3 * 7 + 1].path, "mlp.experts.7.up_proj");
  EXPECT_EQ(spec->OutFeatures(modules[4 + 1 + 3 * 7 + 1]), 768);
  EXPECT_EQ(Name(modules.back()), "down_proj");
  EXPECT_EQ(spec->InFeatures(modules.back()), 768);
}

TEST(Family, ReadsMixtral) {
  const auto spec = ParseModelSpec(Parse(kMixtral), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(spec->experts);
  EXPECT_EQ(spec->experts->count, 8);
  EXPECT_EQ(spec->experts->per_token, 2);
  EXPECT_TRUE(spec->experts->normalized);
  EXPECT_EQ(spec->intermediate_size, 14336);
  EXPECT_EQ(spec->head_dim, 128);
  EXPECT_FALSE(spec->qk_norm || spec->sliding_window);
}

TEST(Family, ExpertsHaveDefaultsAndTwoNames) {
  const auto experts = [](const char* config, const std::string& from, const std::string& to) {
    const auto spec = ParseModelSpec(Parse(config, from, to), nullptr);
    EXPECT_TRUE(spec.ok()) << spec.status();
    return spec.ok() ? *spec->experts : ExpertsSpec();
  };
  EXPECT_FALSE(experts(kQwen3Moe, R"("norm_topk_prob": true,)", "").normalized);
  EXPECT_EQ(experts(kQwen3Moe, R"("num_experts": 128,)", "").count, 128);
  // As transformers 5 writes it.
  EXPECT_EQ(experts(kQwen3Moe, R"("num_experts": 128)", R"("num_local_experts": 64)").count, 64);
  EXPECT_EQ(experts(kMixtral, R"("num_local_experts": 8)", R"("num_experts": 16)").count, 16);
  EXPECT_EQ(experts(kMixtral, R"("num_experts_per_tok": 2,)", "").per_token, 2);
}

TEST(Family, RefusesExpertsThatAreNotSupported) {
  for (const auto& [from, to, expected] :
       {std::tuple(R"("mlp_only_layers": [])", R"("mlp_only_layers": [0])", "\"mlp_only_layers\""),
        std::tuple(R"("decoder_sparse_step": 1)", R"("decoder_sparse_step": 2)",
                   "\"decoder_sparse_step\""),
        std::tuple(R"("num_experts": 128)", R"("num_experts": 0)", "\"num_experts\""),
        std::tuple(R"("num_experts": 128)", R"("num_experts": 4096)", "from 1 to 1024"),
        std::tuple(R"("num_experts": 128)", R"("num_experts": 128, "num_local_experts": 64)",
                   "\"num_local_experts\" is 64; expected 128, as num_experts is"),
        std::tuple(R"("num_experts_per_tok": 8)", R"("num_experts_per_tok": 129)",
                   "at most the number of experts, which is 128"),
        std::tuple(R"("num_experts": 128, "num_experts_per_tok": 8)", R"("num_experts": 4)",
                   "\"num_experts_per_tok\" is missing; expected at most"),
        std::tuple(R"("num_hidden_layers": 48)", R"("num_hidden_layers": 129)",
                   "\"num_hidden_layers\" is 129; expected at most 16384 experts in all layers"),
        std::tuple(R"("moe_intermediate_size": 768)", R"("moe_intermediate_size": 0)",
                   "\"moe_intermediate_size\""),
        std::tuple(
            R"("sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "use_cache": true, "use_sliding_window": false)",
            R"("use_sliding_window": true)", "\"use_sliding_window\"")}) {
    EXPECT_THAT(Message(ParseModelSpec(Parse(kQwen3Moe, from, to), nullptr).status()),
                HasSubstr(expected))
        << to;
  }
}

}  // namespace
}  // namespace aril
