// What LoadWeights takes and refuses, and which dtype a model runs in. What the weights compute is
// tests/fidelity.

#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "adapters/test_support.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/base_checkpoint.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kGoldens = SourcePath("tests/goldens/");
constexpr char kFile[] = "model.safetensors";

using Tensors = std::map<std::string, EditableTensors::Tensor>;

StatusOr<PackedWeights> Load(const std::string& dir, DType dtype = DType::kF32,
                             const LoadProgress& progress = nullptr) {
  ThreadPool threads(2);
  kernels::CpuContext context(threads, kernels::AvailableIsas().back());
  ASSIGN_OR_RETURN(const ModelSpec spec, LoadModelSpec(dir));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenBaseCheckpoint(dir, spec));
  return LoadWeights(std::move(checkpoint), spec, dtype, Quantization::kNone, context, progress);
}

// The message of loading a copy of mistral-f32 whose tensors `edit` has changed.
std::string ErrorAfter(const std::function<void(Tensors&)>& edit) {
  const TestDir dir(kGoldens + "mistral-f32");
  EditTensors(dir / kFile, edit);
  const auto weights = Load(dir.path());
  EXPECT_FALSE(weights.ok());
  return weights.ok() ? "" : Message(weights.status());
}

TEST(LoadWeights, LoadsEveryGoldenInBothDTypes) {
  for (const auto& model : std::filesystem::directory_iterator(kGoldens)) {
    const auto spec = LoadModelSpec(model.path());
    ASSERT_TRUE(spec.ok()) << spec.status();
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(model.path());
      const auto weights = Load(model.path(), dtype);
      ASSERT_TRUE(weights.ok()) << weights.status();
      ASSERT_EQ(weights->layers.size(), static_cast<size_t>(spec->num_layers));
      EXPECT_EQ(weights->final_norm.size(), static_cast<size_t>(spec->hidden_size));
      EXPECT_EQ(weights->lm_head.n, spec->vocab_size);
      for (int64_t index = 0; index < spec->num_layers; ++index) {
        const auto& layer = weights->layers[static_cast<size_t>(index)];
        if (spec->IsLinear(index)) {
          EXPECT_EQ(layer[ProjectionGroup::kQkv].w.n, 0);
          EXPECT_EQ(layer[ProjectionGroup::kDeltaIn].w.n,
                    OutFeatures(*spec, ProjectionGroup::kDeltaIn));
          EXPECT_EQ(layer[ProjectionGroup::kDeltaGates].w.n,
                    2 * spec->linear_attention->num_value_heads);
          EXPECT_EQ(layer[ProjectionGroup::kDeltaOut].w.k, spec->linear_attention->value_size());
          continue;
        }
        EXPECT_EQ(layer[ProjectionGroup::kQkv].w.n,
                  (spec->gated_queries ? 2 : 1) * spec->q_size() + 2 * spec->kv_size());
        EXPECT_EQ(layer[ProjectionGroup::kQkv].w.k, spec->hidden_size);
        if (spec->experts) {
          EXPECT_EQ(layer.router.n, spec->experts->count);
          EXPECT_EQ(layer.experts.gate_up.size(), static_cast<size_t>(spec->experts->count));
          EXPECT_EQ(layer.experts.down.size(), static_cast<size_t>(spec->experts->count));
          EXPECT_EQ(layer.experts.gate_up.back().n, 2 * spec->intermediate_size);
          EXPECT_EQ(layer.experts.down.back().k, spec->intermediate_size);
        } else {
          EXPECT_EQ(layer[ProjectionGroup::kDown].w.k, spec->intermediate_size);
        }
        EXPECT_EQ(layer[ProjectionGroup::kQkv].bias.empty(), !spec->qkv_bias);
        EXPECT_EQ(layer[ProjectionGroup::kO].bias.empty(), !spec->o_bias);
        EXPECT_EQ(layer.q_norm.size(), spec->qk_norm ? static_cast<size_t>(spec->head_dim) : 0);
        EXPECT_EQ(layer.mlp_out_norm.empty(), !spec->output_norms);
      }
    }
  }
}

TEST(LoadWeights, EveryTensorIsNeeded) {
  const auto names = EditableTensors::Read(kGoldens + "mistral-f32/" + kFile).tensors;
  ASSERT_GT(names.size(), 15u);
  for (const auto& entry : names) {
    EXPECT_THAT(ErrorAfter([&](Tensors& tensors) { tensors.erase(entry.first); }),
                AllOf(HasSubstr(entry.first), HasSubstr("missing")));
  }
}

TEST(LoadWeights, RefusesOtherShapes) {
  const std::string name = "model.layers.1.self_attn.k_proj.weight";
  EXPECT_THAT(ErrorAfter([&](Tensors& tensors) {
                tensors.at(name) = EditableTensors::Tensor::Filled({32, 64}, 0);
              }),
              AllOf(HasSubstr(name), HasSubstr("[32, 64]"), HasSubstr("[16, 64]")));
}

TEST(LoadWeights, RefusesNaNsWhereverTheyAre) {
  for (const std::string name : {"model.embed_tokens.weight", "model.norm.weight",
                                 "model.layers.0.mlp.down_proj.weight", "lm_head.weight"}) {
    for (const bool last : {false, true}) {
      EXPECT_THAT(ErrorAfter([&](Tensors& tensors) {
                    Tensors::mapped_type& tensor = tensors.at(name);
                    tensor.Set(last ? tensor.bytes.size() / 4 - 1 : 0, std::nanf(""));
                  }),
                  AllOf(HasSubstr(name), HasSubstr("NaN or infinite")));
    }
  }
}

// Of what linear attention has beside its modules.
TEST(LoadWeights, RefusesAHeadThatForgetsInfinitelyFast) {
  const TestDir dir(kGoldens + "qwen35-f32");
  const std::string name = "model.layers.2.linear_attn.A_log";
  EditTensors(dir / kFile, [&](Tensors& tensors) { tensors.at(name).Set(3, 100); });
  const auto infinite = Load(dir.path());
  ASSERT_FALSE(infinite.ok());
  EXPECT_THAT(Message(infinite.status()),
              AllOf(HasSubstr(name), HasSubstr("logarithms of infinite values")));
  EditTensors(dir / kFile, [&](Tensors& tensors) { tensors.erase(name); });
  const auto missing = Load(dir.path());
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(Message(missing.status()), AllOf(HasSubstr(name), HasSubstr("missing")));
}

TEST(LoadWeights, TurnsTheConvolutionAndLeavesItsNormAlone) {
  const TestDir dir(kGoldens + "qwen35-f32");
  EditTensors(dir / kFile, [&](Tensors& tensors) {
    auto& conv = tensors.at("model.layers.0.linear_attn.conv1d.weight");
    ASSERT_EQ(conv.shape, (Shape{128, 1, 4}));
    for (size_t i = 0; i < 512; ++i) conv.Set(i, static_cast<float>(i));
    tensors.at("model.layers.0.linear_attn.norm.weight").Set(1, 5);
    tensors.at("model.layers.0.input_layernorm.weight").Set(1, 5);
  });
  const auto weights = Load(dir.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto& layer = weights->layers[0];
  ASSERT_EQ(layer.delta.conv.size(), 512u);
  EXPECT_EQ(layer.delta.conv[3 * 128 + 7], 7 * 4 + 3) << "channel 7, its own token";
  EXPECT_EQ(layer.delta.norm[1], 5);
  EXPECT_EQ(layer.attention_norm[1], 6);
  EXPECT_TRUE(layer.q_norm.empty());
  EXPECT_TRUE(weights->layers[1].delta.conv.empty());
  EXPECT_FALSE(weights->layers[1].q_norm.empty());
}

TEST(LoadWeights, FindsANaNBeyondTheFirstChunk) {
  // Values are looked at in chunks of 2^20; the last one here is short.
  const TestDir dir(kGoldens + "mistral-f32");
  constexpr int64_t kVocab = 3 * (int64_t{1} << 20) / 64 + 1;
  ReplaceInFile(dir / "config.json", "\"vocab_size\": 127",
                "\"vocab_size\": " + std::to_string(kVocab));
  EditTensors(dir / kFile, [](Tensors& tensors) {
    for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"})
      tensors.at(name) = EditableTensors::Tensor::Filled({kVocab, 64}, 0.5f);
  });
  ASSERT_TRUE(Load(dir.path()).ok());
  EditTensors(dir / kFile, [](Tensors& tensors) {
    tensors.at("lm_head.weight").Set(kVocab * 64 - 1, std::nanf(""));
  });
  EXPECT_THAT(Message(Load(dir.path()).status()), HasSubstr("lm_head.weight"));
}

TEST(LoadWeights, RefusesDTypesThatAreNoWeights) {
  EXPECT_THAT(
      ErrorAfter([](Tensors& tensors) { tensors.at("model.norm.weight").dtype = DType::kI32; }),
      AllOf(HasSubstr("model.norm.weight"), HasSubstr("I32")));
}

TEST(LoadWeights, RefusesWhatItWouldHaveToIgnore) {
  const auto extra = [](const std::string& name) {
    return ErrorAfter(
        [&](Tensors& tensors) { tensors[name] = EditableTensors::Tensor::Filled({64}, 0); });
  };
  const std::string bias = "model.layers.0.self_attn.q_proj.bias";
  EXPECT_THAT(extra(bias), AllOf(HasSubstr(bias), HasSubstr("attention_bias")));
  EXPECT_THAT(extra("model.layers.2.input_layernorm.weight"), HasSubstr("num_hidden_layers"));
  const std::string hostile = extra("line\nbreak" + std::string(100'000, 'x'));
  EXPECT_THAT(hostile, AllOf(HasSubstr("line\\nbreak"), Not(HasSubstr("\n"))));
  EXPECT_LT(hostile.size(), 1000u);
}

TEST(LoadWeights, IgnoresWhatIsKnownToBeRedundant) {
  // Tied models are often saved with a copy of the embedding; old ones with RoPE's frequencies.
  const TestDir dir(kGoldens + "qwen2-f32");
  EditTensors(dir / kFile, [](Tensors& tensors) {
    tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] =
        EditableTensors::Tensor::Filled({8}, 1);
  });
  const auto weights = Load(dir.path());
  EXPECT_TRUE(weights.ok()) << weights.status();
}

TEST(LoadWeights, RefusesATiedModelWithAnotherHead) {
  const TestDir dir(kGoldens + "qwen2-f32");
  EditTensors(dir / kFile, [](Tensors& tensors) {
    EditableTensors::Tensor head = tensors.at("model.embed_tokens.weight");
    head.Set(head.bytes.size() / sizeof(float) - 1, 0.5f);
    tensors["lm_head.weight"] = std::move(head);
  });
  EXPECT_THAT(Message(Load(dir.path()).status()),
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("model.embed_tokens.weight"),
                    HasSubstr("tie_word_embeddings")));
}

TEST(LoadWeights, TellsHowFarItIs) {
  size_t last = 0;
  size_t total = 0;
  const auto weights = Load(kGoldens + "mistral-f32", DType::kF32, [&](size_t done, size_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
  });
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 200'000u);
}

TEST(ChooseDType, AutoKeepsTheFilesValues) {
  const auto choose = [](const std::string& option, const std::string& model) {
    const auto checkpoint = Checkpoint::Open(kGoldens + model);
    CHECK(checkpoint.ok());
    return ChooseDType(option, *checkpoint, false);
  };
  EXPECT_EQ(*choose("auto", "mistral-f32"), DType::kF32);
  EXPECT_EQ(*choose("auto", "qwen2-bf16"), DType::kBF16);
  EXPECT_EQ(*choose("auto", "llama-linear-rope-f16"), DType::kF32) << "holds float16 exactly";
  EXPECT_EQ(*choose("auto", "llama-f32-sharded"), DType::kF32);
  EXPECT_EQ(*choose("float32", "qwen2-bf16"), DType::kF32);
  EXPECT_EQ(*choose("bfloat16", "mistral-f32"), DType::kBF16);
  EXPECT_THAT(Message(choose("float16", "mistral-f32").status()), HasSubstr("--dtype float16"));
  EXPECT_THAT(Message(choose("int8", "mistral-f32").status()),
              AllOf(HasSubstr("--dtype int8"), HasSubstr("auto, float32 or bfloat16")));
}

TEST(ChooseDType, KeepsFloat16WhereTheDeviceHasIt) {
  const auto checkpoint = Checkpoint::Open(kGoldens + "llama-linear-rope-f16");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(*ChooseDType("auto", *checkpoint, true), DType::kF16);
  EXPECT_EQ(*ChooseDType("float16", *checkpoint, true), DType::kF16);
  EXPECT_EQ(*ChooseDType("bfloat16", *checkpoint, true), DType::kBF16);
  EXPECT_THAT(Message(ChooseDType("int8", *checkpoint, true).status()), HasSubstr("or float16"));
}

TEST(ChooseDType, SaysWhatIsMissing) {
  const TestDir dir(kGoldens + "mistral-f32");
  EditTensors(dir / kFile, [](Tensors& tensors) { tensors.erase("model.embed_tokens.weight"); });
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_THAT(Message(ChooseDType("auto", *checkpoint, false).status()),
              HasSubstr("model.embed_tokens.weight"));
}

}  // namespace
}  // namespace aril
