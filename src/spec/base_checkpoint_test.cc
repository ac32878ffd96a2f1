#include "spec/base_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/module_naming.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kGoldens = SourcePath("tests/goldens/");
constexpr char kQkv[] = "model.layers.1.self_attn.qkv_proj.weight";

ModelSpec SpecOf(const std::string& dir) {
  const auto spec = LoadModelSpec(dir);
  CHECK(spec.ok());
  return *spec;
}

std::vector<std::string> Names(const TensorMap& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

bool HasBytesOf(const TensorView& expected, const TensorView& tensor) {
  return tensor.shape == expected.shape && tensor.dtype == expected.dtype &&
         std::memcmp(tensor.data, expected.data, expected.size_bytes()) == 0;
}

// What opening a file of such tensors, all zero, as the golden's gives.
StatusOr<Checkpoint> OpenMade(const std::string& golden,
                              const std::map<std::string, Shape>& tensors,
                              DType dtype = DType::kF32) {
  const TestDir dir;
  std::vector<SafetensorsWriter::Declaration> declarations;
  for (const auto& [name, shape] : tensors) declarations.push_back({name, dtype, shape});
  auto writer = SafetensorsWriter::Create(dir / "model.safetensors", declarations, {});
  CHECK(writer.ok());
  for (const auto& [name, shape] : tensors) {
    const TensorView view{nullptr, dtype, shape};
    CHECK(writer->Append(std::vector<std::byte>(view.size_bytes())).ok());
  }
  CHECK(writer->Finish().ok());
  return OpenBaseCheckpoint(dir.path(), SpecOf(kGoldens + golden));
}

TEST(BaseCheckpoint, OfADecoderAloneIsCalledAsInTheWholeModel) {
  const std::map<std::string, Shape> of_decoder = {{"embed_tokens.weight", {4, 2}},
                                                   {"layers.0.self_attn.q_proj.weight", {2, 2}},
                                                   {"norm.weight", {2}}};
  const auto checkpoint = OpenMade("mistral-f32", of_decoder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT(Names(checkpoint->tensors()),
              ElementsAre("model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight",
                          "model.norm.weight"));
  // With lm_head, as one that was saved by itself and put beside it.
  auto with_head = of_decoder;
  with_head["lm_head.weight"] = {4, 2};
  const auto headed = OpenMade("mistral-f32", with_head);
  ASSERT_TRUE(headed.ok()) << headed.status();
  EXPECT_TRUE(headed->tensors().contains("lm_head.weight"));
  const auto experts =
      OpenMade("mixtral-bf16", {{"layers.0.block_sparse_moe.gate.weight", {8, 2}},
                                {"layers.0.block_sparse_moe.experts.0.w1.weight", {2, 2}}});
  ASSERT_TRUE(experts.ok()) << experts.status();
  EXPECT_THAT(Names(experts->tensors()),
              ElementsAre("model.layers.0.mlp.experts.0.gate_proj.weight",
                          "model.layers.0.mlp.gate.weight"));
}

TEST(BaseCheckpoint, OfATextModelIsWhatTheFileHas) {
  const std::string dir = kGoldens + "mistral-f32";
  const auto file = Checkpoint::Open(dir);
  const auto base = OpenBaseCheckpoint(dir, SpecOf(dir));
  ASSERT_TRUE(file.ok() && base.ok());
  EXPECT_EQ(Names(base->tensors()), Names(file->tensors()));
}

TEST(BaseCheckpoint, OfAModelThatSeesIsItsTextModel) {
  const std::string dir = kGoldens + "gemma3-vision-f32";
  const auto file = Checkpoint::Open(dir);
  const auto base = OpenBaseCheckpoint(dir, SpecOf(dir));
  ASSERT_TRUE(base.ok()) << base.status();
  for (const auto& [name, tensor] : base->tensors()) {
    EXPECT_THAT(name, testing::AnyOf(StartsWith("model."), StartsWith("lm_head.")));
    EXPECT_THAT(name, Not(HasSubstr("vision")));
    EXPECT_TRUE(HasBytesOf(file->tensors().at("language_model." + name), tensor)) << name;
  }
  EXPECT_EQ(base->tensors().size(), 2 * 13 + 3);
}

// Files have them by either of the names that transformers has had for them.
TEST(BaseCheckpoint, TextModelsAreFoundByEitherName) {
  for (const std::string decoder : {"language_model.model", "model.language_model"}) {
    const bool is_old = decoder.starts_with("language_model");
    const auto base =
        OpenMade("gemma3-vision-f32",
                 {{decoder + ".norm.weight", {4}},
                  {is_old ? "language_model.lm_head.weight" : "lm_head.weight", {2, 2}},
                  {is_old ? "vision_tower.x" : "model.vision_tower.x", {1}},
                  {is_old ? "multi_modal_projector.y" : "model.multi_modal_projector.y", {1}},
                  {"vision_towers.z", {1}}});
    ASSERT_TRUE(base.ok()) << base.status();
    // Of the last one nobody knows what it does: whoever loads the weights refuses it.
    EXPECT_THAT(Names(base->tensors()),
                ElementsAre("lm_head.weight", "model.norm.weight", "vision_towers.z"));
  }
}

// Qwen3.5's has a part that sees by another name, and one that guesses tokens.
TEST(BaseCheckpoint, WhatTransformersDoesNotReadEitherIsPassedOver) {
  const std::map<std::string, Shape> tensors = {{"model.language_model.norm.weight", {4}},
                                                {"lm_head.weight", {2, 2}},
                                                {"model.visual.blocks.0.attn.qkv.weight", {2, 2}},
                                                {"mtp.layers.0.self_attn.q_proj.weight", {2, 2}}};
  for (const char* model : {"qwen35-vision-bf16", "qwen35-f32"}) {
    const auto base = OpenMade(model, tensors);
    ASSERT_TRUE(base.ok()) << base.status();
    EXPECT_THAT(Names(base->tensors()), ElementsAre("lm_head.weight", "model.norm.weight"))
        << model;
  }
  const auto other = OpenMade("gemma3-vision-f32", tensors);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(Names(other->tensors()), ElementsAre("lm_head.weight", "model.norm.weight",
                                                   "mtp.layers.0.self_attn.q_proj.weight"));
}

TEST(BaseCheckpoint, RefusesOneTensorByTwoNames) {
  const auto base = OpenMade(
      "gemma3-vision-f32", {{"language_model.model.norm.weight", {4}}, {"model.norm.weight", {4}}});
  EXPECT_THAT(Message(base.status()),
              HasSubstr("stands for model.norm.weight, which is there without it, too"));
}

TEST(BaseCheckpoint, ProjectionsAreRowsOfTheirModule) {
  const std::string dir = kGoldens + "phi3-f32";
  const auto file = Checkpoint::Open(dir);
  const ModelSpec spec = SpecOf(dir);
  const auto base = OpenBaseCheckpoint(dir, spec);
  ASSERT_TRUE(base.ok()) << base.status();
  const TensorView& whole = file->tensors().at(kQkv);
  int64_t first = 0;
  for (const Projection projection : {Projection::kQ, Projection::kK, Projection::kV}) {
    const std::string name = "model.layers.1." + Site(projection).Path() + ".weight";
    const auto part = base->Get(name, {spec.OutFeatures(projection), spec.hidden_size});
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_TRUE(HasBytesOf(whole.Rows(first, spec.OutFeatures(projection)), *part));
    first += spec.OutFeatures(projection);
  }
  EXPECT_EQ(first, whole.shape[0]);
  EXPECT_FALSE(base->tensors().contains(kQkv));
  EXPECT_EQ(base->tensors().size(), 2 * 9 + 3);
}

TEST(BaseCheckpoint, RefusesAModuleThatCannotBeParted) {
  const ModelSpec spec = SpecOf(kGoldens + "phi3-f32");
  std::map<std::string, Shape> tensors;
  for (const int layer : {0, 1}) {
    const std::string prefix = "model.layers." + std::to_string(layer);
    tensors[prefix + ".self_attn.qkv_proj.weight"] = {spec.q_size() + 2 * spec.kv_size(),
                                                      spec.hidden_size};
    tensors[prefix + ".mlp.gate_up_proj.weight"] = {2 * spec.intermediate_size, spec.hidden_size};
  }
  EXPECT_TRUE(OpenMade("phi3-f32", tensors).ok());
  auto changed = tensors;
  changed[kQkv][0] += 1;
  EXPECT_THAT(Message(OpenMade("phi3-f32", changed).status()),
              AllOf(HasSubstr(kQkv), HasSubstr("has shape [81, 48], expected [80, 48]")));
  changed = tensors;
  changed.erase(kQkv);
  EXPECT_THAT(Message(OpenMade("phi3-f32", changed).status()),
              AllOf(HasSubstr(kQkv), HasSubstr("is missing")));
  changed = tensors;
  changed["model.layers.1.self_attn.k_proj.weight"] = {1};
  EXPECT_THAT(
      Message(OpenMade("phi3-f32", changed).status()),
      AllOf(HasSubstr(kQkv), HasSubstr("stands for model.layers.1.self_attn.k_proj.weight")));
}

// Mixtral's are called as Qwen3-MoE's.
TEST(BaseCheckpoint, ExpertsHaveOneSetOfNames) {
  const std::string dir = kGoldens + "mixtral-bf16";
  const auto file = Checkpoint::Open(dir);
  const auto base = OpenBaseCheckpoint(dir, SpecOf(dir));
  ASSERT_TRUE(base.ok()) << base.status();
  for (const auto& [theirs, ours] :
       {std::pair("block_sparse_moe.gate", "mlp.gate"),
        std::pair("block_sparse_moe.experts.4.w1", "mlp.experts.4.gate_proj"),
        std::pair("block_sparse_moe.experts.0.w3", "mlp.experts.0.up_proj"),
        std::pair("block_sparse_moe.experts.2.w2", "mlp.experts.2.down_proj")}) {
    const std::string prefix = "model.layers.1.";
    ASSERT_TRUE(base->tensors().contains(prefix + ours + ".weight")) << ours;
    EXPECT_TRUE(HasBytesOf(file->tensors().at(prefix + theirs + ".weight"),
                           base->tensors().at(prefix + ours + ".weight")));
  }
  EXPECT_EQ(base->tensors().size(), file->tensors().size());
  const auto twice = OpenMade("mixtral-bf16", {{"model.layers.0.block_sparse_moe.gate.weight", {4}},
                                               {"model.layers.0.mlp.gate.weight", {4}}});
  EXPECT_THAT(Message(twice.status()), HasSubstr("which is there without it, too"));
}

// As transformers 5 keeps them.
TEST(BaseCheckpoint, ExpertsOfOneTensorAreParted) {
  const ModelSpec spec = SpecOf(kGoldens + "mixtral-bf16");
  const int64_t count = spec.experts->count, middle = spec.intermediate_size;
  const std::string gate_up = "model.layers.1.mlp.experts.gate_up_proj";
  std::map<std::string, Shape> tensors = {
      {gate_up, {count, 2 * middle, spec.hidden_size}},
      {"model.layers.1.mlp.experts.down_proj", {count, spec.hidden_size, middle}}};
  const auto base = OpenMade("mixtral-bf16", tensors);
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(base->tensors().size(), static_cast<size_t>(3 * count));
  const auto data_of = [&](int64_t expert, Projection projection) {
    return base->tensors()
        .at("model.layers.1." + Site::OfExpert(expert, projection).Path() + ".weight")
        .data;
  };
  const TensorView up = base->tensors().at("model.layers.1.mlp.experts.3.up_proj.weight");
  EXPECT_EQ(up.shape, (Shape{middle, spec.hidden_size}));
  const auto matrix_bytes = static_cast<int64_t>(up.size_bytes());
  EXPECT_EQ(data_of(3, Projection::kUp) - data_of(0, Projection::kGate), 7 * matrix_bytes);
  EXPECT_EQ(data_of(3, Projection::kDown) - data_of(0, Projection::kDown), 3 * matrix_bytes);
  EXPECT_THAT(Message(OpenMade("mixtral-bf16", tensors, DType::kF8E4M3).status()),
              AllOf(HasSubstr(gate_up), HasSubstr("save_original_format=True")));
  tensors[gate_up][1] -= 1;
  EXPECT_THAT(Message(OpenMade("mixtral-bf16", tensors).status()),
              AllOf(HasSubstr(gate_up), HasSubstr("has shape [5, 87, 48], expected [5, 88, 48]")));
}

TEST(ModuleNaming, IsThatOfTheTensors) {
  const auto decoder_of = [](const std::string& name) {
    return FindModuleNaming({{"p." + name, TensorView()}, {"x", TensorView()}}, "p.").decoder;
  };
  for (const char* name : {"model.layers.0.x", "lm_head.x", "model.language_models.x", "other"}) {
    EXPECT_EQ(decoder_of(name), "model") << name;
  }
  for (const char* name : {"model.language_model.layers.0.x", "model.vision_tower.x",
                           "model.multi_modal_projector.x"}) {
    EXPECT_EQ(decoder_of(name), "model.language_model") << name;
  }
  for (const char* name :
       {"language_model.model.layers.0.x", "language_model.lm_head.x", "vision_tower.x"}) {
    EXPECT_EQ(decoder_of(name), "language_model.model") << name;
  }
}

TEST(ModuleNaming, TellsWhatExpertsAre) {
  const auto of = [](const std::vector<std::string>& names) {
    TensorMap tensors;
    for (const std::string& name : names) {
      tensors.emplace("model.layers.0." + name + ".lora_A.weight", TensorView());
    }
    return FindModuleNaming(tensors, "").experts;
  };
  EXPECT_EQ(of({"self_attn.q_proj", "mlp.up_proj"}), ExpertsNaming::kParameters);
  EXPECT_EQ(of({"mlp.experts.12.up_proj"}), ExpertsNaming::kModules);
  EXPECT_EQ(of({"mlp.experts", "mlp.experts.base_layer", "mlp.gate"}), ExpertsNaming::kParameters);
  EXPECT_EQ(of({"mlp.gate", "self_attn.q_proj"}), ExpertsNaming::kModules);
  EXPECT_EQ(of({"block_sparse_moe.gate"}), ExpertsNaming::kMixtralModules);
}

TEST(ModuleNaming, WhatSeesIsToldFromTheText) {
  for (const char* name :
       {"vision_tower", "vision_tower.encoder.layers.0.mlp.fc1", "model.vision_tower.x",
        "multi_modal_projector.linear_1.weight", "model.visual.blocks.0.mlp.linear_fc1.weight"}) {
    EXPECT_TRUE(IsOfVision(name)) << name;
  }
  for (const char* name : {"vision_towers.x", "model.layers.0.vision_tower", "vision", "model."}) {
    EXPECT_FALSE(IsOfVision(name)) << name;
  }
}

// With the tensors of a quantized golden, and those of `more`, all zero.
StatusOr<Checkpoint> OpenQuantized(const std::string& golden, const std::string& config_of,
                                   const std::map<std::string, Shape>& more) {
  const std::string goldens = SourcePath("tests/goldens-quantized/");
  const auto file = Checkpoint::Open(goldens + golden);
  CHECK(file.ok());
  const TestDir dir;
  std::vector<SafetensorsWriter::Declaration> declarations;
  for (const auto& [name, tensor] : file->tensors()) {
    declarations.push_back({name, tensor.dtype, tensor.shape});
  }
  for (const auto& [name, shape] : more) declarations.push_back({name, DType::kF16, shape});
  auto writer = SafetensorsWriter::Create(dir / "model.safetensors", declarations, {});
  CHECK(writer.ok());
  for (const auto& [name, tensor] : file->tensors()) {
    CHECK(writer->Append({tensor.data, tensor.size_bytes()}).ok());
  }
  for (const auto& [name, shape] : more) {
    const TensorView view{nullptr, DType::kF16, shape};
    CHECK(writer->Append(std::vector<std::byte>(view.size_bytes())).ok());
  }
  CHECK(writer->Finish().ok());
  return OpenBaseCheckpoint(dir.path(), SpecOf(goldens + config_of));
}

TEST(BaseCheckpoint, RefusesWhatIsThereQuantizedAndAsItIs) {
  const std::string q_proj = "model.layers.0.self_attn.q_proj.weight";
  EXPECT_TRUE(OpenQuantized("awq-phi3", "awq-phi3", {}).ok());
  EXPECT_THAT(Message(OpenQuantized("awq-phi3", "awq-phi3", {{q_proj, {64, 64}}}).status()),
              AllOf(HasSubstr(q_proj), HasSubstr("is there twice, quantized and as it is")));
}

TEST(BaseCheckpoint, RefusesAConfigThatSaysOtherwise) {
  EXPECT_THAT(Message(OpenQuantized("gptq-llama/dequantized", "gptq-llama", {}).status()),
              HasSubstr("no tensor is one of a module that is quantized as config.json"));
  const auto plain = OpenQuantized("gptq-llama", "gptq-llama/dequantized", {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(
      Message(plain->GetMatrix("model.layers.0.mlp.up_proj.weight", {96, 64}).status()),
      HasSubstr(
          R"(up_proj.weight" is missing; "model.layers.0.mlp.up_proj.qweight" is there, but)"));
}

// Those that AutoGPTQ adds.
size_t NumZeroBiases(const Checkpoint& quantized, const Checkpoint& plain) {
  return static_cast<size_t>(std::ranges::count_if(quantized.tensors(), [&](const auto& entry) {
    return entry.first.ends_with(".bias") && !plain.tensors().contains(entry.first);
  }));
}

// Of whole models as the programs save them: all matrices stand for the numbers that other code
// made of them (tools/goldens/make_quantized.py), exactly.
TEST(BaseCheckpoint, IfQuantizedStandsForTheGoldensNumbers) {
  int64_t num_models = 0;
  const std::string goldens = SourcePath("tests/goldens-quantized");
  for (const auto& folder : std::filesystem::directory_iterator(goldens)) {
    const std::string dir = folder.path().string(), numbers = dir + "/dequantized";
    SCOPED_TRACE(dir);
    const auto spec = LoadModelSpec(dir), plain_spec = LoadModelSpec(numbers);
    ASSERT_TRUE(spec.ok() && plain_spec.ok()) << spec.status();
    ASSERT_TRUE(spec->quantized.has_value());
    const auto quantized = OpenBaseCheckpoint(dir, *spec);
    const auto plain = OpenBaseCheckpoint(numbers, *plain_spec);
    ASSERT_TRUE(quantized.ok() && plain.ok()) << quantized.status();
    EXPECT_GE(quantized->matrices().size(), 7);
    EXPECT_EQ(
        quantized->matrices().size() + quantized->tensors().size(),
        plain->tensors().size() + plain->matrices().size() + NumZeroBiases(*quantized, *plain));
    const auto expect_same = [&](const std::string& name, const WeightView& want) {
      const Shape shape = ShapeOf(want);
      const auto matrix = shape.size() == 2 ? quantized->GetMatrix(name, shape)
                                            : StatusOr<WeightView>(quantized->tensors().at(name));
      ASSERT_TRUE(matrix.ok()) << matrix.status();
      const int64_t size = TensorView{.shape = shape}.num_elements();
      std::vector<float> expected(static_cast<size_t>(size)), found(expected.size());
      CopyAsFloat(want, 0, size, expected.data());
      CopyAsFloat(*matrix, 0, size, found.data());
      EXPECT_EQ(expected, found) << name;
    };
    for (const auto& [name, tensor] : plain->tensors()) {
      ASSERT_NO_FATAL_FAILURE(expect_same(name, tensor));
    }
    for (const auto& [name, matrix] : plain->matrices()) {
      ASSERT_NO_FATAL_FAILURE(expect_same(name, matrix));
    }
    ++num_models;
  }
  EXPECT_EQ(num_models, 20);
}

}  // namespace
}  // namespace aril
