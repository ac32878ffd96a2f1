// What families are told apart by, with config.json as published models have it.

#include "spec/family.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/family_test_support.h"
#include "spec/model_spec.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// google/gemma-3-4b-it, without fields that say nothing of text.
constexpr const char* kGemma3 = R"({
  "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
  "eoi_token_index": 256000, "eos_token_id": [1, 106], "image_token_index": 262144,
  "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
  "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
                  "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                  "sliding_window": 1024},
  "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
  "vision_config": {"hidden_size": 1152, "image_size": 896, "model_type": "siglip_vision_model"}})";

// mistralai/Mistral-Small-3.1-24B-Instruct-2503, likewise.
constexpr const char* kMistral3 = R"({
  "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10,
  "model_type": "mistral3", "multimodal_projector_bias": false,
  "text_config": {"attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu",
                  "hidden_size": 5120, "intermediate_size": 32768,
                  "max_position_embeddings": 131072, "model_type": "mistral",
                  "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
                  "rms_norm_eps": 1e-05, "rope_theta": 1000000000.0, "sliding_window": null,
                  "use_cache": true, "vocab_size": 131072},
  "torch_dtype": "bfloat16", "vision_config": {"head_dim": 64, "model_type": "pixtral"}})";

// microsoft/Phi-3-mini-4k-instruct, likewise.
constexpr const char* kPhi3 = R"({
  "architectures": ["Phi3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 1, "embd_pdrop": 0.0, "eos_token_id": 32000, "hidden_act": "silu",
  "hidden_size": 3072, "intermediate_size": 8192, "max_position_embeddings": 4096,
  "model_type": "phi3", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "original_max_position_embeddings": 4096, "resid_pdrop": 0.0,
  "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 2047,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32064})";

// ibm-granite/granite-3.2-8b-instruct, likewise.
constexpr const char* kGranite = R"({
  "architectures": ["GraniteForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "attention_multiplier": 0.0078125, "bos_token_id": 0, "embedding_multiplier": 12.0,
  "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 12800, "logits_scaling": 16.0, "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "granite", "num_attention_heads": 32, "num_hidden_layers": 40,
  "num_key_value_heads": 8, "pad_token_id": 0, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "rope_theta": 10000000.0, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "use_cache": true, "vocab_size": 49155})";

// HuggingFaceTB/SmolLM3-3B, likewise, with five of its layers.
constexpr const char* kSmolLm3 = R"({
  "architectures": ["SmolLM3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": null, "eos_token_id": 128012, "hidden_act": "silu", "hidden_size": 2048,
  "intermediate_size": 11008, "layer_types": ["full_attention", "full_attention",
  "full_attention", "full_attention", "full_attention"], "max_position_embeddings": 65536,
  "max_window_layers": 28, "mlp_bias": false, "model_type": "smollm3", "no_rope_layer_interval": 4,
  "no_rope_layers": [1, 1, 1, 0, 1], "num_attention_heads": 16, "num_hidden_layers": 5,
  "num_key_value_heads": 4, "pad_token_id": 128004, "pretraining_tp": 2, "rms_norm_eps": 1e-06,
  "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null, "torch_dtype": "bfloat16",
  "use_cache": false, "use_sliding_window": false, "vocab_size": 128256})";

// What embedding models are saved as; e5-mistral-7b-instruct says MistralModel.
TEST(Family, ADecoderAloneIsOfTheFamilyAndHasNoLmHead) {
  const auto spec_of = [](const std::string& architecture, const std::string& model_type,
                          const std::string& more = "") {
    return ParseModelSpec(
        *Json::Parse(StrCat(R"({"architectures":[")", architecture, R"("],"model_type":")",
                            model_type, R"(","vocab_size":64,"hidden_size":64,)",
                            R"("intermediate_size":64,"num_hidden_layers":4,)",
                            R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":16)",
                            more, "}")),
        nullptr);
  };
  const std::pair<const char*, const char*> decoders[] = {
      {"LlamaModel", "llama"},    {"MistralModel", "mistral"}, {"Qwen2Model", "qwen2"},
      {"Qwen3Model", "qwen3"},    {"Gemma2Model", "gemma2"},   {"Gemma3TextModel", "gemma3_text"},
      {"GraniteModel", "granite"}};
  for (const auto& [architecture, model_type] : decoders) {
    const auto spec = spec_of(architecture, model_type);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_FALSE(spec->has_lm_head) << architecture;
    EXPECT_EQ(spec->architecture, architecture);
  }
  const auto whole = spec_of("MistralForCausalLM", "mistral");
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_TRUE(whole->has_lm_head);
  EXPECT_THAT(std::string(Message(spec_of("MistralModel", "llama").status())),
              HasSubstr("\"mistral\", as the architecture is MistralModel"));
  EXPECT_THAT(std::string(Message(spec_of("BertModel", "bert").status())),
              HasSubstr("a text model's decoder alone (MistralModel)"));
  // The class that also sees.
  EXPECT_FALSE(spec_of("Gemma3Model", "gemma3").ok());
  // EmbeddingGemma; gte-Qwen2.
  EXPECT_THAT(std::string(Message(spec_of("Gemma3TextModel", "gemma3_text",
                                          R"(,"use_bidirectional_attention":true)")
                                      .status())),
              HasSubstr("use_bidirectional_attention"));
  EXPECT_THAT(
      std::string(Message(spec_of("Qwen2ForCausalLM", "qwen2", R"(,"is_causal":false)").status())),
      HasSubstr(R"("is_causal" is false)"));
}

TEST(Family, ReadsGemma3ThatSees) {
  const auto spec = ParseModelSpec(Parse(kGemma3), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->architecture, "Gemma3ForConditionalGeneration");
  EXPECT_TRUE(spec->is_multimodal);
  EXPECT_EQ(spec->vocab_size, 262208);
  EXPECT_EQ(spec->num_heads, 8);
  EXPECT_EQ(spec->num_kv_heads, 4);
  EXPECT_EQ(spec->head_dim, 256);
  EXPECT_EQ(spec->num_layers, 34);
  EXPECT_EQ(spec->max_position_embeddings, 131072);
  EXPECT_EQ(spec->sliding_window, 1024);
  EXPECT_FALSE(spec->HasWindow(5));
  EXPECT_TRUE(spec->HasWindow(33));
  EXPECT_EQ(spec->rope.scaling, RopeSpec::Scaling::kLinear);
  EXPECT_EQ(spec->other_rope->scaling, RopeSpec::Scaling::kNone);
  EXPECT_TRUE(spec->tie_word_embeddings);
  EXPECT_THAT(spec->eos_token_ids, ElementsAre(1, 106));
  EXPECT_EQ(spec->bos_token_id, 2);
  EXPECT_EQ(spec->dtype, DType::kBF16);
}

TEST(Family, YarnStretchesPositionsOfGemma3) {
  const auto spec = ParseModelSpec(
      Parse(kGemma3, R"({"factor": 8.0, "rope_type": "linear"})",
            R"({"factor": 2.0, "rope_type": "yarn", "original_max_position_embeddings": 131072})"),
      nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->max_position_embeddings, 262144);
  EXPECT_GT(spec->rope.attention_factor, 1);
  EXPECT_EQ(spec->other_rope->attention_factor, 1);
}

TEST(Family, ReadsMistral3) {
  const auto spec = ParseModelSpec(Parse(kMistral3), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->is_multimodal);
  EXPECT_EQ(spec->hidden_size, 5120);
  EXPECT_EQ(spec->head_dim, 128);
  EXPECT_EQ(spec->rope.theta, 1e9);
  EXPECT_FALSE(spec->sliding_window);
  EXPECT_FALSE(spec->tie_word_embeddings) << "as its text model's class has it";
  EXPECT_EQ(spec->dtype, DType::kBF16);
  EXPECT_THAT(spec->eos_token_ids, ElementsAre(2));
  const auto tied = ParseModelSpec(
      Parse(kMistral3, R"("torch_dtype")", R"("tie_word_embeddings": true, "torch_dtype")"),
      nullptr);
  ASSERT_TRUE(tied.ok()) << tied.status();
  EXPECT_TRUE(tied->tie_word_embeddings);
  // As transformers 5 writes the same model again: both classes' defaults, of which the outer one
  // does not hold beside an lm_head.
  const auto again = ParseModelSpec(
      Parse(kMistral3, R"("vocab_size": 131072},)",
            R"("vocab_size": 131072, "tie_word_embeddings": false}, "tie_word_embeddings": true,)"),
      nullptr);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->tie_word_embeddings);
}

TEST(Family, WhatSeesIsQuantizedByEitherObject) {
  const std::string quantized =
      R"("quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 64}, )";
  for (const char* before : {R"("torch_dtype")", R"("hidden_size": 2560)"}) {
    const auto spec = ParseModelSpec(Parse(kGemma3, before, quantized + before), nullptr);
    ASSERT_TRUE(spec.ok()) << spec.status();
    ASSERT_TRUE(spec->quantized.has_value()) << before;
    EXPECT_EQ(std::get<Int4Spec>(*spec->quantized).group_size, 64);
  }
}

TEST(Family, WhatSeesIsRefusedForWhatItsTextModelIs) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {Parse(kGemma3, R"("text_config": {)", R"("x": {)"),
       R"("text_config" is missing; expected an object, as in every Gemma3ForCond)"},
      {Parse(kGemma3, "gemma3_text", "gemma4_text"),
       R"(text_config: "model_type" is "gemma4_text", which is not supported; supported: "gemma3_text")"},
      {Parse(kGemma3, R"("model_type": "gemma3",)", R"("model_type": "gemma4",)"),
       R"("model_type" is "gemma4"; expected "gemma3")"},
      {Parse(kGemma3, R"("hidden_size": 2560)", R"("hidden_size": -1)"),
       R"(text_config: "hidden_size" is -1)"},
      {Parse(kGemma3, R"("hidden_size": 2560)",
             R"("hidden_size": 2560, "quantization_config": {"a": 1})"),
       R"(text_config: quantization_config: "quant_method" is missing)"},
      {Parse(kGemma3, R"("torch_dtype")", R"("quantization_config": {"a": 1}, "torch_dtype")"),
       R"(quantization_config: "quant_method" is missing)"},
      {Parse(
           kMistral3, R"("vocab_size": 131072},)",
           R"("vocab_size": 131072, "tie_word_embeddings": true}, "tie_word_embeddings": false,)"),
       R"("tie_word_embeddings" is false; expected true, as in text_config)"},
      {Parse(kGemma3, R"("hidden_size": 2560)",
             R"("hidden_size": 2560, "final_logit_softcapping": 30)"),
       R"(text_config: "final_logit_softcapping" is 30, which is not supported)"},
  };
  for (const auto& [config, expected] : cases) {
    EXPECT_THAT(Message(ParseModelSpec(config, nullptr).status()), HasSubstr(expected));
  }
}

TEST(Family, ReadsPhi3) {
  const auto spec = ParseModelSpec(Parse(kPhi3), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->fused_modules);
  EXPECT_FALSE(spec->is_multimodal);
  EXPECT_EQ(spec->head_dim, 96);
  EXPECT_EQ(spec->sliding_window, 2047);
  EXPECT_EQ(spec->max_position_embeddings, 4096);
  EXPECT_EQ(spec->rope.scaling, RopeSpec::Scaling::kNone);
  std::vector<std::string> paths;
  std::vector<Projection> projections;
  for (const LinearModule& module : spec->LinearModules(0)) {
    paths.push_back(module.path);
    for (int64_t i = 0; i < module.num_sites; ++i) {
      projections.push_back(module.At(i).projection());
    }
  }
  EXPECT_THAT(paths, ElementsAre("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj",
                                 "mlp.down_proj"));
  EXPECT_TRUE(std::ranges::equal(projections, std::span(kAllProjections).first(7)));
  EXPECT_EQ(spec->OutFeatures(spec->LinearModules(0)[0]), 3 * 3072);
  EXPECT_EQ(spec->OutFeatures(spec->LinearModules(0)[2]), 2 * 8192);
}

TEST(Family, Phi3sFieldsHaveDefaults) {
  Json config = Parse(kPhi3);
  std::erase_if(*config.AsObject(), [](const auto& member) {
    return member.first == "sliding_window" || member.first == "rms_norm_eps" ||
           member.first == "num_key_value_heads" || member.first == "eos_token_id";
  });
  const auto spec = ParseModelSpec(config, nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(spec->sliding_window);
  EXPECT_EQ(spec->rms_norm_eps, 1e-5);
  EXPECT_EQ(spec->num_kv_heads, 32);
  EXPECT_THAT(spec->eos_token_ids, ElementsAre(32000));
}

// `rope_scaling`, of a model of 131,072 positions.
StatusOr<ModelSpec> ParsePhi3With(const std::string& rope_scaling) {
  Json config =
      Parse(kPhi3, R"("max_position_embeddings": 4096)", R"("max_position_embeddings": 131072)");
  for (auto& [key, value] : *config.AsObject()) {
    if (key == "rope_scaling") value = Parse(rope_scaling);
  }
  return ParseModelSpec(config, nullptr);
}

// [48] of them: half of head_dim.
std::string Factors(double last = 2) {
  std::string factors = "[1.5";
  for (int i = 1; i < 47; ++i) factors += ", 1";
  return factors + StrCat(", ", last, "]");
}

TEST(Family, ReadsPhi3sLongRope) {
  for (const char* type : {"longrope", "su", "yarn"}) {  // one thing by three names
    const auto spec = ParsePhi3With(StrCat(R"({"type": ")", type, R"(", "short_factor": )",
                                           Factors(), R"(, "long_factor": )", Factors(), "}"));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->rope.scaling, RopeSpec::Scaling::kLongRope);
    EXPECT_EQ(spec->rope.wavelength_factors.size(), 48u);
    EXPECT_EQ(spec->rope.wavelength_factors.front(), 1.5);
    EXPECT_EQ(spec->rope.wavelength_factors.back(), 2);
    EXPECT_EQ(spec->max_position_embeddings, 4096) << "those of the short factors";
    const double squared = 1 + std::log(32) / std::log(4096);
    EXPECT_NEAR(spec->rope.attention_factor, std::sqrt(squared), 1e-15);
  }
  const auto said = ParsePhi3With(R"({"rope_type": "longrope", "attention_factor": 1.25,
                                      "short_factor": )" +
                                  Factors() + "}");
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->rope.attention_factor, 1.25);
  // As Phi-4-mini has it.
  const auto part = ParsePhi3With(R"({"rope_type": "longrope", "partial_rotary_factor": 0.125,
                                      "short_factor": [1, 1, 1.5, 2, 2.5, 3]})");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->rope.wavelength_factors.size(), 6u) << "of 12 of 96 dimensions";
}

TEST(Family, RefusesOtherRopesOfPhi3) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"type": "linear", "factor": 2})",
       R"(rope_scaling: "type" is "linear", which is not supported; supported: default, longrope)"},
      {R"({"type": "longrope"})", R"("short_factor" is missing; expected an array of 48 numbers)"},
      {R"({"type": "longrope", "short_factor": [1, 2]})", "expected an array of 48 numbers"},
      {R"({"type": "longrope", "short_factor": )" + Factors(0) + "}", "from 0.001 to 1e+06"},
      {R"({"type": "longrope", "short_factor": ["a"]})", "expected an array"},
      {R"({"type": "longrope", "partial_rotary_factor": 0.75, "short_factor": )" + Factors() + "}",
       "expected an array of 36 numbers"},
      {R"({"type": "longrope", "partial_rotary_factor": 0.6})",
       R"("partial_rotary_factor" is 0.6; expected what makes an even number of head_dim, which is 96)"},
      {R"({"type": "default", "partial_rotary_factor": 0.75})",
       R"("partial_rotary_factor" is 0.75, which is not supported)"},
  };
  for (const auto& [scaling, expected] : cases) {
    EXPECT_THAT(Message(ParsePhi3With(scaling).status()), HasSubstr(expected)) << scaling;
  }
}

TEST(Family, NamesWhatIsSupported) {
  const auto spec =
      ParseModelSpec(Parse(R"({"architectures": ["Qwen2VLForConditionalGeneration"]})"), nullptr);
  EXPECT_THAT(Message(spec.status()),
              AllOf(HasSubstr("LlamaForCausalLM"), HasSubstr("SmolLM3ForCausalLM, Gemma3ForCond"),
                    HasSubstr("Mistral3ForConditionalGeneration")));
}

TEST(Family, ReadsGranite) {
  const auto spec = ParseModelSpec(Parse(kGranite), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->embedding_multiplier, 12);
  EXPECT_EQ(spec->residual_multiplier, 0.22);
  EXPECT_EQ(spec->logits_scaling, 16);
  EXPECT_EQ(spec->AttentionScale(), 0.0078125);
  EXPECT_TRUE(spec->tie_word_embeddings);
  EXPECT_FALSE(spec->qk_norm || spec->qkv_bias || spec->scaled_embedding);
}

// As transformers 5 writes it, and as the larger ones since 4.1 are: nothing tied.
TEST(Family, ReadsGraniteInNewerWords) {
  const auto spec = ParseModelSpec(
      Parse(kGranite,
            R"("rope_scaling": null, "rope_theta": 10000000.0, "tie_word_embeddings": true)",
            R"("rope_parameters": {"rope_theta": 50000000, "rope_type": "default"},
               "rope_scaling": null, "tie_word_embeddings": false)"),
      nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->rope.theta, 5e7);
  EXPECT_FALSE(spec->tie_word_embeddings);
}

TEST(Family, GranitesMultipliersAreOneByDefaultAndRefusedWhereTheyMeanNothing) {
  Json config = Parse(kGranite);
  std::erase_if(*config.AsObject(), [](const auto& member) {
    return member.first.ends_with("_multiplier") || member.first == "logits_scaling";
  });
  const auto spec = ParseModelSpec(config, nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->AttentionScale(), 1);
  EXPECT_EQ(spec->embedding_multiplier, 1);
  EXPECT_EQ(spec->residual_multiplier, 1);
  EXPECT_EQ(spec->logits_scaling, 1);
  for (const char* bad : {"0", "-1", "1e9", "\"x\"", "null"}) {
    for (const auto& [field, value] :
         {std::pair("residual_multiplier", "0.22"), std::pair("embedding_multiplier", "12.0"),
          std::pair("attention_multiplier", "0.0078125"), std::pair("logits_scaling", "16.0")}) {
      EXPECT_THAT(Message(ParseModelSpec(Parse(kGranite, value, bad), nullptr).status()),
                  HasSubstr(StrCat('"', field, '"')));
    }
  }
}

TEST(Family, ReadsSmolLm3) {
  const auto layers = [](const std::string& from, const std::string& to) {
    const auto spec = ParseModelSpec(Parse(kSmolLm3, from, to), nullptr);
    EXPECT_TRUE(spec.ok()) << spec.status();
    if (!spec.ok()) return std::vector<bool>();
    EXPECT_EQ(spec->other_rope->scaling, RopeSpec::Scaling::kNoRotation);
    return spec->other_rope_layers;
  };
  const auto spec = ParseModelSpec(Parse(kSmolLm3), nullptr);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->rope.theta, 5e6);
  EXPECT_TRUE(spec->tie_word_embeddings) << "by default";
  EXPECT_FALSE(spec->sliding_window);
  EXPECT_FALSE(spec->HasOtherRope(2));
  EXPECT_TRUE(spec->HasOtherRope(3));
  EXPECT_THAT(layers(R"([1, 1, 1, 0, 1])", "[0, 1, 1, 1, 0]"),
              ElementsAre(true, false, false, false, true));
  EXPECT_THAT(layers(R"("no_rope_layers": [1, 1, 1, 0, 1],)", ""),
              ElementsAre(false, false, false, true, false));
  EXPECT_THAT(layers(R"(4,
  "no_rope_layers": [1, 1, 1, 0, 1],)",
                     "2,"),
              ElementsAre(false, true, false, true, false));
  // What transformers does not read, or takes all the same.
  EXPECT_THAT(layers(R"("no_rope_layer_interval": 4)", R"("no_rope_layer_interval": 0)"),
              ElementsAre(false, false, false, true, false));
  EXPECT_THAT(layers("[1, 1, 1, 0, 1]", "[1, 1, 1, 0, 1, 0, 0]"),
              ElementsAre(false, false, false, true, false));
  EXPECT_THAT(layers(R"(4,
  "no_rope_layers": [1, 1, 1, 0, 1],)",
                     "1000,"),
              ElementsAre(false, false, false, false, false));
  layers(R"("sliding_window": null)", R"("sliding_window": 4096)");
  const auto yarn = ParseModelSpec(Parse(kSmolLm3, R"("rope_scaling": null)",
                                         R"("rope_scaling": {"rope_type": "yarn", "factor": 2.0,
                                "original_max_position_embeddings": 65536})"),
                                   nullptr);
  ASSERT_TRUE(yarn.ok()) << yarn.status();
  EXPECT_GT(yarn->rope.attention_factor, 1);
  EXPECT_EQ(yarn->other_rope->attention_factor, 1);
  EXPECT_EQ(yarn->max_position_embeddings, 131072);
  const auto inside =
      ParseModelSpec(Parse(kSmolLm3, R"("rope_scaling": null, "rope_theta": 5000000.0)",
                           R"("rope_parameters": {"rope_type": "default"})"),
                     nullptr);
  ASSERT_TRUE(inside.ok()) << inside.status();
  EXPECT_EQ(inside->rope.theta, 2e6);
  const auto without_theta =
      ParseModelSpec(Parse(kSmolLm3, R"("rope_theta": 5000000.0,)", ""), nullptr);
  ASSERT_TRUE(without_theta.ok()) << without_theta.status();
  EXPECT_EQ(without_theta->rope.theta, 2e6);
}

TEST(Family, RefusesSmolLm3sLayersThatMeanNothing) {
  for (const auto& [from, to, expected] :
       {std::tuple("[1, 1, 1, 0, 1]", "[1, 1, 1, 0]", "\"no_rope_layers\""),
        std::tuple("[1, 1, 1, 0, 1]", "[1, 1, 1, 2, 1]",
                   "0 or 1 for each of 5 layers, or for more"),
        std::tuple("[1, 1, 1, 0, 1]", "\"x\"", "\"no_rope_layers\""),
        std::tuple(R"(4,
  "no_rope_layers": [1, 1, 1, 0, 1],)",
                   "0,", "\"no_rope_layer_interval\""),
        std::tuple(R"("sliding_window": null, "torch_dtype": "bfloat16",
  "use_cache": false, "use_sliding_window": false)",
                   R"("sliding_window": 4096, "use_sliding_window": true)",
                   "\"use_sliding_window\"")}) {
    EXPECT_THAT(Message(ParseModelSpec(Parse(kSmolLm3, from, to), nullptr).status()),
                HasSubstr(expected))
        << to;
  }
}

}  // namespace
}  // namespace aril
