// In which formats matrices are kept: by `--quantization`, and by what a checkpoint has of them.

#include "model/quantization.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "adapters/test_support.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/weights.h"
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

// Of a layer of most models.
constexpr ProjectionGroup kGroups[] = {ProjectionGroup::kQkv, ProjectionGroup::kO,
                                       ProjectionGroup::kGateUp, ProjectionGroup::kDown};

StatusOr<PackedWeights> Load(const std::string& dir, DType dtype = DType::kF32,
                             Quantization quantization = Quantization::kNone) {
  ThreadPool threads(2);
  kernels::CpuContext context(threads, kernels::AvailableIsas().back());
  ASSIGN_OR_RETURN(const ModelSpec spec, LoadModelSpec(dir));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenBaseCheckpoint(dir, spec));
  RoundLayers(spec, quantization, &checkpoint);
  return LoadWeights(std::move(checkpoint), spec, dtype, quantization, context, nullptr);
}

TEST(LoadWeights, KeepsTheLayersInFewerBitsWhenAsked) {
  for (const auto& [quantization, of_layers, of_head] :
       {std::tuple{Quantization::kNone, WeightFormat::kF32, WeightFormat::kF32},
        {Quantization::kInt8, WeightFormat::kInt8, WeightFormat::kF32},
        {Quantization::kInt4, WeightFormat::kInt4, WeightFormat::kInt8}}) {
    const auto weights = Load(kGoldens + "mistral-f32", DType::kF32, quantization);
    ASSERT_TRUE(weights.ok()) << weights.status();
    for (const auto& layer : weights->layers) {
      for (const ProjectionGroup group : kGroups) EXPECT_EQ(layer[group].w.format, of_layers);
    }
    EXPECT_EQ(weights->lm_head.format, of_head) << Name(quantization);
  }
}

TEST(LoadWeights, KeepsWhatSaysHowHeadsForgetAsItIs) {
  for (const auto& [quantization, format] : {std::pair{Quantization::kInt8, WeightFormat::kInt8},
                                             {Quantization::kInt4, WeightFormat::kInt4}}) {
    const auto weights = Load(kGoldens + "qwen35-f32", DType::kBF16, quantization);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(weights->layers[0][ProjectionGroup::kDeltaGates].w.format, WeightFormat::kBF16);
    EXPECT_EQ(weights->layers[0][ProjectionGroup::kDeltaIn].w.format, format);
    EXPECT_EQ(weights->layers[0][ProjectionGroup::kDeltaOut].w.format, format);
    EXPECT_EQ(weights->layers[1][ProjectionGroup::kQkv].w.format, format);
  }
}

TEST(LoadWeights, KeepsExpertsInFewerBitsButNotTheirRouter) {
  for (const auto& [quantization, format] : {std::pair{Quantization::kInt8, WeightFormat::kInt8},
                                             {Quantization::kInt4, WeightFormat::kInt4}}) {
    const auto weights = Load(kGoldens + "mixtral-bf16", DType::kBF16, quantization);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(weights->layers[0].router.format, WeightFormat::kBF16);
    EXPECT_EQ(weights->layers[0].experts.gate_up[0].format, format);
    EXPECT_EQ(weights->layers[0].experts.down[0].format, format);
  }
}

TEST(ChooseQuantization, KnowsItsNamesAndItsLimit) {
  ModelSpec spec{.num_layers = 1};
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
  spec = {.num_layers = 1};
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
      const auto weights = Load(kQuantizedGoldens + name, DType::kF32, quantization);
      ASSERT_TRUE(weights.ok()) << weights.status();
      const auto& layer = weights->layers[0];
      EXPECT_EQ(layer[ProjectionGroup::kQkv].w.format, kInt8);
      for (const auto& matrix : layer.experts.down) EXPECT_EQ(matrix.format, kInt8);
      const bool is_quantized = layer.router.n == 0;
      const bool is_rounded = quantization == Quantization::kInt4;
      EXPECT_EQ(weights->lm_head.format, is_quantized || is_rounded ? kInt8 : kF32);
    }
    // A product of which one part is no bytes.
    const auto mixed = Load(kQuantizedGoldens + "bytes-llama", DType::kF32, quantization);
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
      auto weights = Load(kQuantizedGoldens + name, DType::kBF16, quantization);
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
      auto weights = Load(kQuantizedGoldens + name, DType::kBF16, quantization);
      CHECK(weights.ok());
      return *std::move(weights);
    };
    const PackedWeights nested = load("bnb-nf4-llama");
    for (const ProjectionGroup group : kGroups) {
      EXPECT_EQ(nested.layers[0][group].w.format, of_layers);
    }
    EXPECT_EQ(nested.lm_head.format, quantization == Quantization::kInt4 ? kInt8 : kBF16);
    // A product of which one part is not quantized.
    EXPECT_EQ(nested.layers[1][ProjectionGroup::kQkv].w.format, is_bytes ? kInt8 : kBF16);
    // Modules of several projections; and one of 96 inputs, which are no whole groups of 64.
    const PackedWeights fused = load("bnb-fp4-phi3");
    EXPECT_EQ(fused.layers[0][ProjectionGroup::kGateUp].w.format, of_layers);
    EXPECT_EQ(fused.layers[0][ProjectionGroup::kDown].w.format, is_bytes ? kInt8 : kCodebook4By32);
    // All experts of a layer, and those of one that has numbers.
    const PackedWeights gpt_oss = load("mxfp4-gpt-oss");
    const auto format_of = [&](int layer) {
      return gpt_oss.layers[static_cast<size_t>(layer)].experts.down.front().format;
    };
    EXPECT_EQ(format_of(0), is_bytes ? kInt8 : kCodebook4By32);
    EXPECT_EQ(format_of(1), is_bytes ? kInt8 : quantization == Quantization::kInt4 ? kInt4 : kBF16);
  }
}

// Numbers that codes stood for are rounded to those codes again.
TEST(LoadWeights, RoundsNumbersAsBitsAndBytesDoes) {
  const std::string golden = kQuantizedGoldens + "bnb-nf4-llama";
  const auto load = [](const std::string& dir, Quantization quantization) {
    auto weights = Load(dir, DType::kF32, quantization);
    CHECK(weights.ok());
    return *std::move(weights);
  };
  const PackedWeights expected = load(golden, Quantization::kNone);
  const PackedWeights found = load(golden + "/dequantized", Quantization::kNf4);
  for (const ProjectionGroup group : kGroups) {
    const kernels::PackedMatrix& a = expected.layers[0][group].w;
    const kernels::PackedMatrix& b = found.layers[0][group].w;
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
    auto weights = Load(kQuantizedGoldens + name, DType::kBF16, Quantization::kNf4);
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
    const auto weights = Load(dir, DType::kF32, quantization);
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
    const auto weights = Load(dir.path(), DType::kF32, quantization);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const auto& layer = weights->layers[0];
    EXPECT_EQ(layer[ProjectionGroup::kGateUp].w.format, WeightFormat::kF32);
    EXPECT_EQ(layer[ProjectionGroup::kDown].w.format, WeightFormat::kInt4);
    EXPECT_EQ(layer[ProjectionGroup::kDown].w.order.size(), 96);
  }
  const auto bytes = Load(dir.path(), DType::kF32, Quantization::kInt8);
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
    const auto mixture = Load(kQuantizedGoldens + "awq-mixtral", DType::kF32, quantization);
    ASSERT_TRUE(mixture.ok()) << mixture.status();
    EXPECT_EQ(mixture->layers[0].router.format, WeightFormat::kInt4);
    const auto head = Load(kQuantizedGoldens + "gptq-order-llama", DType::kF32, quantization);
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
