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

using kernels::WeightFormat;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kGoldens = SourcePath("tests/goldens/");
const std::string kQuantizedGoldens = SourcePath("tests/goldens-quantized/");
constexpr char kFile[] = "model.safetensors";

using Tensors = std::map<std::string, EditableTensors::Tensor>;

StatusOr<PackedWeights> Load(const std::string& dir, DType dtype = DType::kF32,
                             const LoadProgress& progress = nullptr,
                             Quantization quantization = Quantization::kNone) {
  ThreadPool threads(2);
  kernels::CpuContext context(threads, kernels::AvailableIsas().back());
  ASSIGN_OR_RETURN(const ModelSpec spec, LoadModelSpec(dir));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenBaseCheckpoint(dir, spec));
  RoundLayers(spec, quantization, &checkpoint);
  return LoadWeights(std::move(checkpoint), spec, dtype, quantization, context, progress);
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
      for (const auto& layer : weights->layers) {
        EXPECT_EQ(layer[ProjectionGroup::kQkv].w.n, spec->q_size() + 2 * spec->kv_size());
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

StatusOr<PackedWeights> Load(const std::string& golden, DType dtype, Quantization quantization) {
  ThreadPool threads(2);
  kernels::CpuContext context(threads, kernels::AvailableIsas().back());
  ASSIGN_OR_RETURN(const ModelSpec spec, LoadModelSpec(kGoldens + golden));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenBaseCheckpoint(kGoldens + golden, spec));
  return LoadWeights(std::move(checkpoint), spec, dtype, quantization, context, nullptr);
}

TEST(LoadWeights, KeepsTheLayersInFewerBitsWhenAsked) {
  for (const auto& [quantization, of_layers, of_head] :
       {std::tuple{Quantization::kNone, WeightFormat::kF32, WeightFormat::kF32},
        {Quantization::kInt8, WeightFormat::kInt8, WeightFormat::kF32},
        {Quantization::kInt4, WeightFormat::kInt4, WeightFormat::kInt8}}) {
    const auto weights = Load("mistral-f32", DType::kF32, quantization);
    ASSERT_TRUE(weights.ok()) << weights.status();
    for (const auto& layer : weights->layers) {
      for (const auto& group : layer.groups) {
        EXPECT_EQ(group.w.format, of_layers);
      }
    }
    EXPECT_EQ(weights->lm_head.format, of_head) << Name(quantization);
  }
}

TEST(LoadWeights, KeepsExpertsInFewerBitsButNotTheirRouter) {
  for (const auto& [quantization, format] : {std::pair{Quantization::kInt8, WeightFormat::kInt8},
                                             {Quantization::kInt4, WeightFormat::kInt4}}) {
    const auto weights = Load("mixtral-bf16", DType::kBF16, quantization);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(weights->layers[0].router.format, WeightFormat::kBF16);
    EXPECT_EQ(weights->layers[0].experts.gate_up[0].format, format);
    EXPECT_EQ(weights->layers[0].experts.down[0].format, format);
  }
}

TEST(ChooseQuantization, KnowsItsNamesAndItsLimit) {
  ModelSpec spec;
  EXPECT_EQ(*ChooseQuantization("none", spec), Quantization::kNone);
  EXPECT_EQ(*ChooseQuantization("int8", spec), Quantization::kInt8);
  EXPECT_EQ(*ChooseQuantization("int4", spec), Quantization::kInt4);
  EXPECT_EQ(*ChooseQuantization("nf4", spec), Quantization::kNf4);
  EXPECT_THAT(Message(ChooseQuantization("awq", spec).status()),
              HasSubstr("use none, int8, int4 or nf4"));
  spec.intermediate_size = 96;
  EXPECT_THAT(Message(ChooseQuantization("nf4", spec).status()),
              HasSubstr("--quantization nf4 takes matrices of a multiple of 64 inputs, and "
                        "down_proj has 96; use int4"));
  const auto mixture = LoadModelSpec(kGoldens + "mixtral-bf16");
  ASSERT_TRUE(mixture.ok());
  EXPECT_THAT(Message(ChooseQuantization("nf4", *mixture).status()),
              HasSubstr("--quantization nf4 of a mixture of experts could be one of several"));
  spec = {};
  spec.intermediate_size = kernels::kMaxInt8Depth + 1;
  EXPECT_TRUE(ChooseQuantization("none", spec).ok());
  EXPECT_TRUE(ChooseQuantization("int4", spec).ok());
  EXPECT_THAT(Message(ChooseQuantization("int8", spec).status()), HasSubstr("down_proj has 65537"));
  spec.hidden_size = kernels::kMaxInt8Depth + 1;
  EXPECT_THAT(Message(ChooseQuantization("int4", spec).status()), HasSubstr("lm_head has 65537"));
}

TEST(LoadWeights, KeepsFourBitsAsTheyAre) {
  for (const char* name :
       {"gptq-llama", "gptq-order-llama", "gptq-order-phi3", "gptq-v2-qwen2", "gptq-qwen3-moe",
        "awq-llama", "awq-phi3", "compressed-channels-llama"}) {
    SCOPED_TRACE(name);
    const auto weights = Load(kQuantizedGoldens + name);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const bool has_int4_head = name == std::string("gptq-order-llama");
    EXPECT_EQ(weights->lm_head.format, has_int4_head ? WeightFormat::kInt4 : WeightFormat::kF32);
    for (const auto& layer : weights->layers) {
      EXPECT_EQ(layer[ProjectionGroup::kQkv].w.format, WeightFormat::kInt4);
      EXPECT_EQ(layer[ProjectionGroup::kO].w.format, WeightFormat::kInt4);
      if (layer.router.n != 0) {
        EXPECT_EQ(layer.router.format, WeightFormat::kF32);
        for (const auto& matrix : layer.experts.gate_up) {
          EXPECT_EQ(matrix.format, WeightFormat::kInt4);
        }
      } else {
        EXPECT_EQ(layer[ProjectionGroup::kDown].w.format, WeightFormat::kInt4);
      }
    }
  }
}

TEST(LoadWeights, KeepsBytesAsTheyAre) {
  using enum WeightFormat;
  for (const Quantization quantization :
       {Quantization::kNone, Quantization::kInt8, Quantization::kInt4}) {
    for (const char* name : {"bytes-phi3", "bytes-mixtral"}) {
      SCOPED_TRACE(name);
      const auto weights = Load(kQuantizedGoldens + name, DType::kF32, nullptr, quantization);
      ASSERT_TRUE(weights.ok()) << weights.status();
      const auto& layer = weights->layers[0];
      EXPECT_EQ(layer[ProjectionGroup::kQkv].w.format, kInt8);
      for (const auto& matrix : layer.experts.down) EXPECT_EQ(matrix.format, kInt8);
      const bool is_quantized = layer.router.n == 0;
      const bool is_rounded = quantization == Quantization::kInt4;
      EXPECT_EQ(weights->lm_head.format, is_quantized || is_rounded ? kInt8 : kF32);
    }
    // A product of which one part is no bytes.
    const auto mixed = Load(kQuantizedGoldens + "bytes-llama", DType::kF32, nullptr, quantization);
    ASSERT_TRUE(mixed.ok()) << mixed.status();
    EXPECT_EQ(mixed->layers[0][ProjectionGroup::kQkv].w.format, kInt8);
    EXPECT_EQ(mixed->layers[1][ProjectionGroup::kQkv].w.format,
              quantization == Quantization::kInt8 ? kInt8 : kF32);
  }
}

TEST(LoadWeights, KeepsFp8AsItIs) {
  using enum WeightFormat;
  for (const Quantization quantization :
       {Quantization::kNone, Quantization::kInt8, Quantization::kInt4}) {
    const bool is_bytes = quantization == Quantization::kInt8;
    const WeightFormat of_layers = is_bytes ? kInt8 : kFloat8;
    const auto load = [&](const char* name) {
      auto weights = Load(kQuantizedGoldens + name, DType::kBF16, nullptr, quantization);
      CHECK(weights.ok());
      return *std::move(weights);
    };
    const PackedWeights experts = load("fp8-blocks-qwen3-moe");
    EXPECT_EQ(experts.layers[0][ProjectionGroup::kQkv].w.format, of_layers);
    EXPECT_EQ(experts.layers[0].router.format, kBF16);
    for (const auto& matrix : experts.layers[0].experts.gate_up) {
      EXPECT_EQ(matrix.format, of_layers);
      EXPECT_EQ(matrix.has_group_scales, !is_bytes);
    }
    const PackedWeights fused = load("fp8-tensors-phi3");
    EXPECT_EQ(fused.layers[0][ProjectionGroup::kGateUp].w.format, of_layers);
    EXPECT_FALSE(fused.layers[0][ProjectionGroup::kGateUp].w.has_group_scales);
    EXPECT_EQ(fused.lm_head.format, quantization == Quantization::kInt4 ? kInt8 : kBF16);
    // A product of which one part is not quantized.
    const PackedWeights mixed = load("fp8-channels-llama");
    EXPECT_EQ(mixed.layers[0][ProjectionGroup::kQkv].w.format, of_layers);
    EXPECT_EQ(mixed.layers[1][ProjectionGroup::kQkv].w.format, is_bytes ? kInt8 : kBF16);
  }
}

TEST(LoadWeights, KeepsCodesAsTheyAre) {
  using enum WeightFormat;
  for (const Quantization quantization :
       {Quantization::kNone, Quantization::kInt8, Quantization::kInt4}) {
    const bool is_bytes = quantization == Quantization::kInt8;
    const WeightFormat of_layers = is_bytes ? kInt8 : kCodebook4;
    const auto load = [&](const char* name) {
      auto weights = Load(kQuantizedGoldens + name, DType::kBF16, nullptr, quantization);
      CHECK(weights.ok());
      return *std::move(weights);
    };
    const PackedWeights nested = load("bnb-nf4-llama");
    for (const auto& group : nested.layers[0].groups) EXPECT_EQ(group.w.format, of_layers);
    EXPECT_EQ(nested.lm_head.format, quantization == Quantization::kInt4 ? kInt8 : kBF16);
    // A product of which one part is not quantized.
    EXPECT_EQ(nested.layers[1][ProjectionGroup::kQkv].w.format, is_bytes ? kInt8 : kBF16);
    // Modules of several projections; and one of 96 inputs.
    const PackedWeights fused = load("bnb-fp4-phi3");
    EXPECT_EQ(fused.layers[0][ProjectionGroup::kGateUp].w.format, of_layers);
    EXPECT_EQ(fused.layers[0][ProjectionGroup::kDown].w.format, is_bytes ? kInt8 : kBF16);
  }
}

// Numbers that codes stood for are rounded to those codes again.
TEST(LoadWeights, RoundsNumbersAsBitsAndBytesDoes) {
  const std::string golden = kQuantizedGoldens + "bnb-nf4-llama";
  const auto load = [](const std::string& dir, Quantization quantization) {
    auto weights = Load(dir, DType::kF32, nullptr, quantization);
    CHECK(weights.ok());
    return *std::move(weights);
  };
  const PackedWeights expected = load(golden, Quantization::kNone);
  const PackedWeights found = load(golden + "/dequantized", Quantization::kNf4);
  for (size_t i = 0; i < kNumProjectionGroups; ++i) {
    const kernels::PackedMatrix& a = expected.layers[0].groups[i].w;
    const kernels::PackedMatrix& b = found.layers[0].groups[i].w;
    ASSERT_EQ(b.format, WeightFormat::kCodebook4);
    ASSERT_EQ(a.data.size_bytes(), b.data.size_bytes());
    EXPECT_EQ(std::memcmp(a.data.data(), b.data.data(), a.data.size_bytes()), 0);
    EXPECT_EQ(a.codebook, b.codebook);
  }
  EXPECT_EQ(found.layers[1][ProjectionGroup::kQkv].w.format, WeightFormat::kCodebook4);
  EXPECT_EQ(found.lm_head.format, WeightFormat::kF32);
}

TEST(LoadWeights, LeavesWhatIsQuantizedOtherwise) {
  using enum WeightFormat;
  const auto load = [](const char* name) {
    auto weights = Load(kQuantizedGoldens + name, DType::kBF16, nullptr, Quantization::kNf4);
    CHECK(weights.ok());
    return *std::move(weights);
  };
  const PackedWeights quantized = load("awq-llama");
  EXPECT_EQ(quantized.layers[0][ProjectionGroup::kQkv].w.format, kInt4);
  const PackedWeights mixed = load("compressed-qwen3");
  EXPECT_EQ(mixed.layers[0][ProjectionGroup::kGateUp].w.format, kInt4);
  EXPECT_EQ(mixed.layers[1][ProjectionGroup::kQkv].w.format, kBF16);
}

TEST(LoadWeights, RefusesCodesThatMakeInfiniteValues) {
  const std::string module = "model.layers.0.self_attn.o_proj.weight";
  const auto error_after = [&](const std::string& name, const Shape& shape, float value) {
    const TestDir dir(kQuantizedGoldens + "bnb-nf4-llama");
    EditTensors(dir / kFile, [&](Tensors& tensors) {
      tensors[module + name] = EditableTensors::Tensor::Filled(shape, value);
    });
    return Message(Load(dir.path()).status());
  };
  EXPECT_THAT(error_after(".nested_absmax", {1}, INFINITY),
              HasSubstr("tensor " + module + " has scales that make infinite values"));
  EXPECT_THAT(error_after(".quant_map", {16}, NAN),
              HasSubstr("tensor " + module + " holds NaN or infinite values"));
}

TEST(LoadWeights, RefusesNanAmongLevels) {
  const TestDir dir(kQuantizedGoldens + "fp8-channels-llama");
  const std::string module = "model.layers.0.mlp.up_proj.weight";
  EditTensors(dir / kFile,
              [&](Tensors& tensors) { tensors[module].bytes.back() = std::byte{0xFF}; });
  EXPECT_THAT(Message(Load(dir.path()).status()), HasSubstr("tensor " + module + " holds NaN"));
}

TEST(LoadWeights, RefusesScalesThatMakeInfiniteValues) {
  const TestDir dir(kQuantizedGoldens + "bytes-llama");
  const std::string module = "model.layers.0.mlp.up_proj.weight";
  EditTensors(dir / kFile, [&](Tensors& tensors) {
    tensors[module + "_scale"] = EditableTensors::Tensor::Filled({96, 1}, 3e36f);
  });
  EXPECT_THAT(Message(Load(dir.path()).status()),
              HasSubstr("tensor " + module + " has scales that make infinite values"));
}

// What is not quantized stays so, and with it what is multiplied in one product.
TEST(LoadWeights, KeepsProductsInOneFormat) {
  const std::string dir = kQuantizedGoldens + "compressed-qwen3";
  const auto formats = [&](Quantization quantization) {
    const auto weights = Load(dir, DType::kF32, nullptr, quantization);
    CHECK(weights.ok());
    const auto of = [&](size_t layer, ProjectionGroup group) {
      return weights->layers[layer][group].w.format;
    };
    return std::vector{of(0, ProjectionGroup::kQkv), of(0, ProjectionGroup::kDown),
                       of(1, ProjectionGroup::kQkv), of(1, ProjectionGroup::kDown),
                       weights->lm_head.format};
  };
  using enum WeightFormat;
  EXPECT_EQ(formats(Quantization::kNone), (std::vector{kInt4, kF32, kF32, kInt4, kF32}));
  EXPECT_EQ(formats(Quantization::kInt4), (std::vector{kInt4, kInt4, kInt4, kInt4, kInt8}));
  EXPECT_EQ(formats(Quantization::kInt8), (std::vector{kInt8, kInt8, kInt8, kInt8, kF32}));
}

// Projections of one product whose groups are other inputs.
TEST(LoadWeights, KeepsProductsInOneOrder) {
  const TestDir dir(kQuantizedGoldens + "gptq-order-llama");
  EditTensors(dir / kFile, [](Tensors& tensors) {
    const std::string module = "model.layers.0.mlp.up_proj.g_idx";
    auto& order = tensors.at(module).bytes;
    std::rotate(order.begin(), order.begin() + 4, order.end());
  });
  for (const Quantization quantization : {Quantization::kNone, Quantization::kInt4}) {
    const auto weights = Load(dir.path(), DType::kF32, nullptr, quantization);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const auto& layer = weights->layers[0];
    EXPECT_EQ(layer[ProjectionGroup::kGateUp].w.format, WeightFormat::kF32);
    EXPECT_EQ(layer[ProjectionGroup::kDown].w.format, WeightFormat::kInt4);
    EXPECT_EQ(layer[ProjectionGroup::kDown].w.order.size(), 96);
  }
  const auto bytes = Load(dir.path(), DType::kF32, nullptr, Quantization::kInt8);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->layers[0][ProjectionGroup::kGateUp].w.format, WeightFormat::kInt8);
}

TEST(LoadWeights, KeepsExpertsInOneFormat) {
  const TestDir dir(kQuantizedGoldens + "gptq-qwen3-moe");
  EditTensors(dir / kFile, [](Tensors& tensors) {
    const std::string module = "model.layers.0.mlp.experts.1.up_proj";
    for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"}) {
      tensors.erase(module + part);
    }
    tensors[module + ".weight"] = EditableTensors::Tensor::Filled({32, 64}, 0.25f);
  });
  const auto weights = Load(dir.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (const auto& matrix : weights->layers[0].experts.gate_up) {
    EXPECT_EQ(matrix.format, WeightFormat::kF32);
  }
  for (const auto& matrix : weights->layers[0].experts.down) {
    EXPECT_EQ(matrix.format, WeightFormat::kInt4);
  }
}

TEST(LoadWeights, KeepsAQuantizedRouterAndHead) {
  for (const Quantization quantization :
       {Quantization::kNone, Quantization::kInt4, Quantization::kInt8}) {
    const auto mixture =
        Load(kQuantizedGoldens + "awq-mixtral", DType::kF32, nullptr, quantization);
    ASSERT_TRUE(mixture.ok()) << mixture.status();
    EXPECT_EQ(mixture->layers[0].router.format, WeightFormat::kInt4);
    const auto head =
        Load(kQuantizedGoldens + "gptq-order-llama", DType::kF32, nullptr, quantization);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_EQ(head->lm_head.format, WeightFormat::kInt4);
  }
}

TEST(LoadWeights, RefusesAQuantizedEmbedding) {
  const TestDir dir(kQuantizedGoldens + "gptq-llama");
  EditTensors(dir / kFile, [](Tensors& tensors) {
    tensors.erase("model.embed_tokens.weight");
    for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"}) {
      tensors["model.embed_tokens" + std::string(part)] =
          tensors.at("model.layers.0.mlp.up_proj" + std::string(part));
    }
  });
  const std::string expected = "is quantized, and must be F32, BF16 or F16";
  EXPECT_THAT(Message(Load(dir.path()).status()), HasSubstr(expected));
  const auto checkpoint = OpenBaseCheckpoint(dir.path(), *LoadModelSpec(dir.path()));
  EXPECT_THAT(Message(ChooseDType("auto", *checkpoint, false).status()), HasSubstr(expected));
}

TEST(LoadWeights, RefusesFourBitsThatItWouldHaveToChange) {
  const std::string module = "model.layers.0.mlp.up_proj";
  const auto error_after = [&](const std::function<void(Tensors&)>& edit) {
    const TestDir dir(kQuantizedGoldens + "gptq-llama");
    EditTensors(dir / kFile, edit);
    const auto weights = Load(dir.path());
    return weights.ok() ? "" : Message(weights.status());
  };
  EXPECT_THAT(error_after([&](Tensors& tensors) {
                tensors.at(module + ".scales") = EditableTensors::Tensor::Filled({2, 96}, 0.1f);
              }),
              AllOf(HasSubstr(module + ".weight has scales in F32 that float16 does not hold"),
                    HasSubstr("save the quantized model in float16")));
  EXPECT_THAT(
      error_after([&](Tensors& tensors) {
        tensors.at(module + ".scales") = EditableTensors::Tensor::Filled({2, 96}, std::nanf(""));
      }),
      AllOf(HasSubstr(module), HasSubstr("NaN or infinite")));
  // Biases of zeros are what AutoGPTQ adds; others would be left out.
  EXPECT_THAT(error_after([&](Tensors& tensors) {
                tensors.at(module + ".bias") = EditableTensors::Tensor::Filled({96}, 1);
              }),
              AllOf(HasSubstr(module + ".bias"), HasSubstr("not part of the architecture")));
  EXPECT_THAT(error_after([&](Tensors& tensors) {
                for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"}) {
                  tensors["model.layers.0.mlp.side_proj" + std::string(part)] =
                      tensors.at(module + part);
                }
              }),
              AllOf(HasSubstr("side_proj.weight"), HasSubstr("not part of the architecture")));
  EXPECT_THAT(error_after([&](Tensors& tensors) {
                for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx", ".bias"}) {
                  tensors.erase(module + part);
                }
              }),
              AllOf(HasSubstr(module + ".weight"), HasSubstr("missing")));
}

}  // namespace
}  // namespace aril
