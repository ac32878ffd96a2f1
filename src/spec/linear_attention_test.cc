#include "spec/linear_attention.h"

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/family_test_support.h"
#include "spec/lora_spec.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// In the form of Qwen/Qwen3.5-27B, with its sizes, without fields that say nothing of text.
constexpr const char* kQwen35 = R"({
  "architectures": ["Qwen3_5ForConditionalGeneration"], "image_token_id": 248056,
  "model_type": "qwen3_5",
  "text_config": {"attention_bias": false, "attention_dropout": 0.0, "attn_output_gate": true,
    "dtype": "bfloat16", "eos_token_id": 248044, "full_attention_interval": 4, "head_dim": 256,
    "hidden_act": "silu", "hidden_size": 5120, "initializer_range": 0.02,
    "intermediate_size": 17408, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 48, "linear_value_head_dim": 128,
    "mamba_ssm_dtype": "float32", "max_position_embeddings": 262144, "model_type": "qwen3_5_text",
    "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false, "num_attention_heads": 24,
    "num_hidden_layers": 64, "num_key_value_heads": 4, "partial_rotary_factor": 0.25,
    "rms_norm_eps": 1e-06,
    "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10],
      "partial_rotary_factor": 0.25, "rope_theta": 10000000, "rope_type": "default"},
    "tie_word_embeddings": false, "use_cache": true, "vocab_size": 248320},
  "tie_word_embeddings": false,
  "vision_config": {"depth": 27, "hidden_size": 1152, "model_type": "qwen3_5"}})";

Json TextConfig() {
  Json text = *Parse(kQwen35).Find("text_config");
  text.AsObject()->emplace_back("architectures", Json::Array{Json("Qwen3_5ForCausalLM")});
  return text;
}

StatusOr<ModelSpec> With(const std::string& field, Json value) {
  Json text = TextConfig();
  std::erase_if(*text.AsObject(), [&](const auto& member) { return member.first == field; });
  text.AsObject()->emplace_back(field, std::move(value));
  return ParseModelSpec(text, nullptr);
}

TEST(LinearAttention, ReadsAPublishedModel) {
  const auto spec = ParseModelSpec(Parse(kQwen35), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->is_multimodal);
  ASSERT_TRUE(spec->linear_attention);
  EXPECT_EQ(spec->linear_attention->key_size(), 2048);
  EXPECT_EQ(spec->linear_attention->value_size(), 6144);
  EXPECT_EQ(spec->linear_attention->conv_size, 4);
  EXPECT_EQ(spec->NumLayers(true), 48);
  EXPECT_EQ(spec->NumLayers(false), 16);
  EXPECT_TRUE(spec->IsLinear(0) && spec->IsLinear(2) && !spec->IsLinear(3) && spec->IsLinear(4));
  EXPECT_EQ(spec->IndexInKind(3), 0);
  EXPECT_EQ(spec->IndexInKind(4), 3);
  EXPECT_EQ(spec->IndexInKind(63), 15);
  EXPECT_THAT(spec->LayersOfEachKind(), ElementsAre(0, 3));
  EXPECT_TRUE(spec->gated_queries && spec->qk_norm && spec->unit_offset_norms);
  EXPECT_FALSE(spec->scaled_embedding);
  EXPECT_EQ(spec->OutFeatures(Projection::kQ), 2 * 24 * 256);
  EXPECT_EQ(spec->InFeatures(Projection::kO), 24 * 256);
  EXPECT_EQ(spec->rope.num_pairs, 32);
  EXPECT_EQ(spec->rope.theta, 1e7);
  EXPECT_EQ(spec->eos_token_ids, std::vector<int32_t>{248044});
  EXPECT_EQ(spec->dtype, DType::kBF16);
}

TEST(LinearAttention, LayersOfAKindHaveTheirModules) {
  const auto spec = ParseModelSpec(Parse(kQwen35), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto paths = [&](int64_t layer) {
    std::vector<std::string> found;
    for (const LinearModule& module : spec->LinearModules(layer)) found.push_back(module.path);
    return found;
  };
  EXPECT_THAT(paths(0), ElementsAre("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
                                    "linear_attn.in_proj_qkv", "linear_attn.in_proj_z",
                                    "linear_attn.in_proj_b", "linear_attn.in_proj_a",
                                    "linear_attn.out_proj"));
  EXPECT_THAT(paths(3),
              ElementsAre("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                          "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"));
  const LayerModules modules(*spec);
  EXPECT_EQ(modules[63].size(), 7u);
  EXPECT_EQ(modules[62].size(), 8u);
}

TEST(LinearAttention, SmallerConfigsHaveDefaults) {
  Json text = TextConfig();
  std::erase_if(*text.AsObject(), [](const auto& member) {
    return member.first.starts_with("linear_") || member.first == "full_attention_interval" ||
           member.first == "attn_output_gate" || member.first == "partial_rotary_factor" ||
           member.first == "rope_parameters";
  });
  const auto spec = ParseModelSpec(text, nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(spec->is_multimodal);
  EXPECT_EQ(spec->NumLayers(true), 48);
  EXPECT_EQ(spec->linear_attention->num_value_heads, 32);
  EXPECT_EQ(spec->rope.num_pairs, 32) << "a quarter of 256 dimensions";
}

TEST(LinearAttention, LayerTypesCountMoreThanTheInterval) {
  Json::Array types(64, Json("linear_attention"));
  types[5] = Json("full_attention");
  const auto spec = With("layer_types", types);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->NumLayers(false), 1);
  EXPECT_FALSE(spec->IsLinear(5));
  const auto full = With("layer_types", Json::Array(64, Json("full_attention")));
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_FALSE(full->linear_attention);
  EXPECT_TRUE(full->gated_queries);
}

TEST(LinearAttention, RefusesWhatItDoesNotServe) {
  const std::tuple<const char*, Json, const char*> cases[] = {
      {"layer_types", Json::Array(64, Json("linear_attention")), "what leaves one layer"},
      {"layer_types", Json::Array(63, Json("linear_attention")), "for each of 64 layers"},
      {"layer_types", Json::Array(64, Json("sliding_attention")), "for each of 64 layers"},
      {"linear_num_value_heads", Json(int64_t{24}), "a multiple of linear_num_key_heads"},
      {"linear_key_head_dim", Json(int64_t{512}), "linear_key_head_dim"},
      {"linear_value_head_dim", Json(int64_t{4096}), "linear_value_head_dim"},
      {"linear_conv_kernel_dim", Json(int64_t{0}), "linear_conv_kernel_dim"},
      {"attn_output_gate", Json(false), "attn_output_gate"},
      {"output_gate_type", Json("sigmoid"), "output_gate_type"},
      {"partial_rotary_factor", Json("half"), "partial_rotary_factor"},
      {"hidden_act", Json("gelu"), "hidden_act"},
  };
  for (const auto& [field, value, complaint] : cases) {
    const auto spec = With(field, value);
    ASSERT_FALSE(spec.ok()) << field;
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(complaint));
  }
}

LoraConfig Lora(const std::string& fields) {
  auto config = ParseLoraConfig(
      Parse(StrCat(R"({"peft_type": "LORA", "r": 8, "lora_alpha": 16, )", fields, "}")));
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

TEST(LinearAttention, AdaptersTargetItsModules) {
  const auto base = ParseModelSpec(TextConfig(), nullptr);
  ASSERT_TRUE(base.ok()) << base.status();
  const auto ranks = [&](const LoraSpec& spec, int64_t layer) {
    std::vector<int64_t> found;
    for (const LinearModule& module : base->LinearModules(layer)) {
      found.push_back(spec.At(layer, module.first).rank);
    }
    return found;
  };
  const auto all = ResolveLora(Lora(R"("target_modules": "all-linear")"), *base);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(ranks(*all, 0), Each(8));
  EXPECT_THAT(ranks(*all, 3), Each(8));
  EXPECT_EQ(all->At(0, Projection::kQ).rank, 0);
  EXPECT_EQ(all->At(3, Projection::kDeltaOut).rank, 0);
  const auto some = ResolveLora(Lora(R"("target_modules": ["in_proj_a", "v_proj"])"), *base);
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_THAT(ranks(*some, 62), ElementsAre(0, 0, 0, 0, 0, 0, 8, 0));
  EXPECT_THAT(ranks(*some, 63), ElementsAre(0, 0, 8, 0, 0, 0, 0));
}

TEST(LinearAttention, AdaptersOfOtherPartsAreRefused) {
  const auto base = ParseModelSpec(TextConfig(), nullptr);
  ASSERT_TRUE(base.ok()) << base.status();
  for (const char* name : {"conv1d", "linear_attn", "linear_attn.norm"}) {
    const auto spec =
        ResolveLora(Lora(StrCat(R"("target_modules": ["q_proj", ")", name, R"("])")), *base);
    ASSERT_FALSE(spec.ok()) << name;
    EXPECT_THAT(std::string(spec.status().message()),
                AllOf(HasSubstr(name), HasSubstr("not linear"), HasSubstr("in_proj_qkv"),
                      HasSubstr("q_proj")));
  }
}

}  // namespace
}  // namespace aril
