// What `aril synth` writes is what our own readers read.

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "adapters/adapter.h"
#include "apps/synth_adapters.h"
#include "apps/synth_files.h"
#include "apps/synth_model.h"
#include "apps/synth_shapes.h"
#include "base/file.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SynthTest : public testing::Test {
 protected:
  void WriteModel(const SynthModelOptions& options) {
    const auto model = PlanSynthModel(options);
    ASSERT_TRUE(model.ok()) << model.status();
    uint64_t written = 0;
    const Status status =
        WriteSynthModel(options, *model, pool_, [&](uint64_t bytes) { written += bytes; });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(written, model->total_bytes);
  }
  void WriteAdapters(const SynthAdaptersOptions& options) {
    const auto adapters = PlanSynthAdapters(options);
    ASSERT_TRUE(adapters.ok()) << adapters.status();
    uint64_t written = 0;
    const Status status =
        WriteSynthAdapters(options, *adapters, pool_, [&](uint64_t bytes) { written += bytes; });
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(written, adapters->total_bytes);
  }

  const TestDir root_;
  ThreadPool pool_{2};
};

// The parameter counts that the models' authors publish (model cards, `model.num_parameters()`); of
// Qwen3.5 its text model's.
TEST(SynthShapes, HaveThePublishedNumberOfParameters) {
  const std::map<std::string, uint64_t> published = {
      {"tinyllama-1.1b", 1'100'048'384}, {"llama-3.2-1b", 1'235'814'400},
      {"llama-3.2-3b", 3'212'749'824},   {"llama-3.1-8b", 8'030'261'248},
      {"llama-2-7b", 6'738'415'616},     {"llama-2-13b", 13'015'864'320},
      {"mistral-7b", 7'241'732'096},     {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-7b", 7'615'616'512},     {"qwen3-0.6b", 596'049'920},
      {"qwen3-8b", 8'190'735'360},       {"gemma-2-2b", 2'614'341'888},
      {"gemma-2-9b", 9'241'705'984},     {"gemma-3-1b", 999'885'952},
      {"phi-3-mini-4k", 3'821'079'552},  {"phi-4", 14'659'507'200},
      {"granite-3.2-8b", 8'170'848'256}, {"smollm3-3b", 3'075'098'624},
      {"qwen3-30b-a3b", 30'532'122'624}, {"qwen3.5-0.8b", 752'393'024}};
  for (const auto& [shape, parameters] : published) {
    const auto model = PlanSynthModel({.shape = shape, .dtype = DType::kBF16});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->total_bytes, 2 * parameters) << shape;
  }
  EXPECT_EQ(SynthShapeNames().size(), published.size() + 3)
      << "and tiny, tiny-moe, and a part of one";
  EXPECT_THAT(Message(PlanSynthModel({.shape = "llama-9"}).status()),
              HasSubstr("no shape is called \"llama-9\"; there are tiny, tinyllama-1.1b"));
}

TEST(SynthShapes, EveryFamilyHasItsOwnTensors) {
  const auto names = [](const std::string& shape) {
    std::set<std::string> result;
    const auto model = PlanSynthModel({.shape = shape});
    for (const SynthTensor& tensor : model->tensors) result.insert(tensor.name);
    return result;
  };
  EXPECT_TRUE(names("tinyllama-1.1b").contains("lm_head.weight"));
  EXPECT_FALSE(names("llama-3.2-1b").contains("lm_head.weight")) << "tied";
  EXPECT_TRUE(names("qwen2.5-0.5b").contains("model.layers.23.self_attn.v_proj.bias"));
  EXPECT_FALSE(names("qwen2.5-0.5b").contains("model.layers.23.self_attn.o_proj.bias"));
  EXPECT_TRUE(names("qwen3-0.6b").contains("model.layers.0.self_attn.k_norm.weight"));
  EXPECT_TRUE(names("gemma-2-2b").contains("model.layers.0.post_feedforward_layernorm.weight"));
  EXPECT_TRUE(names("gemma-3-1b").contains("model.layers.25.self_attn.q_norm.weight"));
  EXPECT_TRUE(names("phi-4").contains("model.layers.39.mlp.gate_up_proj.weight"));
  EXPECT_FALSE(names("phi-4").contains("model.layers.39.mlp.up_proj.weight"));
  EXPECT_TRUE(names("tiny-moe").contains("model.layers.3.mlp.gate.weight"));
  EXPECT_TRUE(names("tiny-moe").contains("model.layers.3.mlp.experts.15.down_proj.weight"));
  EXPECT_TRUE(names("tiny-moe").contains("model.layers.3.post_attention_layernorm.weight"));
  EXPECT_FALSE(names("tiny-moe").contains("model.layers.3.mlp.down_proj.weight"));
}

TEST_F(SynthTest, AModelLoads) {
  const std::string dir = root_ / "model";
  WriteModel({.shape = "tiny", .out_dir = dir});
  const auto spec = LoadModelSpec(dir);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->dtype, DType::kBF16);
  EXPECT_THAT(spec->eos_token_ids, testing::ElementsAre(2));
  const auto checkpoint = Checkpoint::Open(dir);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto plan = PlanModelTensors(*spec);
  EXPECT_EQ(checkpoint->tensors().size(), plan.size());
  for (const SynthTensor& tensor : plan) {
    const auto view = checkpoint->Get(tensor.name, tensor.shape);
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_TRUE(AllFinite(*view)) << tensor.name;
  }
}

TEST_F(SynthTest, ShardsHoldTheSameWeights) {
  const std::string one = root_ / "one";
  const std::string many = root_ / "many";
  WriteModel({.shape = "tiny", .out_dir = one, .dtype = DType::kF32, .seed = 5});
  WriteModel({.shape = "tiny",
              .out_dir = many,
              .dtype = DType::kF32,
              .seed = 5,
              .max_shard_bytes = 3'000'000});
  EXPECT_TRUE(FileExists(many + "/model-00002-of-00005.safetensors"));
  const auto expected = Checkpoint::Open(one);
  const auto found = Checkpoint::Open(many);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->tensors().size(), expected->tensors().size());
  for (const auto& [name, tensor] : expected->tensors()) {
    const TensorView& other = found->tensors().at(name);
    ASSERT_EQ(other.shape, tensor.shape);
    ASSERT_EQ(std::memcmp(other.data, tensor.data, tensor.size_bytes()), 0) << name;
  }
}

TEST_F(SynthTest, NothingIsOverwritten) {
  const std::string dir = root_ / "model";
  WriteModel({.shape = "tiny", .out_dir = dir});
  const SynthModelOptions again = {.shape = "tiny", .out_dir = dir};
  const auto model = PlanSynthModel(again);
  EXPECT_THAT(Message(WriteSynthModel(again, *model, pool_, nullptr)),
              HasSubstr("/model: not empty; name a new directory"));
}

TEST_F(SynthTest, TokenizerFilesAreCopied) {
  const std::string tokenizer = root_ / "tokenizer";
  fs::create_directories(tokenizer);
  EXPECT_THAT(Message(CopyTokenizerFiles(tokenizer, root_.path())),
              HasSubstr("expected tokenizer.json, tokenizer.model, or vocab.json"));
  std::ofstream(tokenizer + "/tokenizer.model") << "pieces";
  std::ofstream(tokenizer + "/chat_template.jinja") << "{{ x }}";
  std::ofstream(tokenizer + "/model.safetensors") << "weights";
  const std::string dir = root_ / "model";
  WriteModel({.shape = "tiny", .out_dir = dir, .tokenizer_dir = tokenizer});
  EXPECT_EQ(*ReadFile(dir + "/tokenizer.model", 100), "pieces");
  EXPECT_EQ(*ReadFile(dir + "/chat_template.jinja", 100), "{{ x }}");
  EXPECT_FALSE(FileExists(dir + "/tokenizer.json"));
}

// Like the server, which loads such folders.
TEST_F(SynthTest, ATokenizerMayBeAVocabularyAndMerges) {
  TestDir tokenizer;
  tokenizer.Write("vocab.json", "{}");
  EXPECT_THAT(Message(CopyTokenizerFiles(tokenizer.path(), root_.path())),
              HasSubstr("has no tokenizer"))
      << "merges.txt is missing";
  tokenizer.Write("merges.txt", "#version: 0.2");
  const std::string dir = root_ / "model";
  WriteModel({.shape = "tiny", .out_dir = dir, .tokenizer_dir = tokenizer.path()});
  EXPECT_EQ(*ReadFile(dir + "/vocab.json", 100), "{}");
  EXPECT_EQ(*ReadFile(dir + "/merges.txt", 100), "#version: 0.2");
}

class SynthAdaptersTest : public SynthTest {
 protected:
  void SetUp() override {
    SynthTest::SetUp();
    WriteModel({.shape = "tiny", .out_dir = model_});
  }
  const std::string model_ = root_ / "model";
};

TEST_F(SynthAdaptersTest, LoadWithTheirRanksInTurn) {
  const std::string dir = root_ / "adapters";
  WriteAdapters({.model_dir = model_,
                 .out_dir = dir,
                 .count = 5,
                 .ranks = {8, 16, 3},
                 .targets = {"v_proj", "q_proj"}});
  for (int i = 0; i < 5; ++i) {
    const std::string adapter = StrCat(dir, "/adapter-000", i);
    const auto config = LoadLoraConfig(adapter);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->rank, (std::array{8, 16, 3, 8, 16})[static_cast<size_t>(i)]);
    EXPECT_EQ(config->lora_alpha, 2.0 * static_cast<double>(config->rank));
    EXPECT_THAT(config->target_modules.names, testing::ElementsAre("v_proj", "q_proj"));
    const auto file = SafetensorsFile::Open(adapter + "/adapter_model.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->tensors().size(), 4u * 2 * 2);
    const std::string module = "base_model.model.model.layers.3.self_attn.v_proj.";
    EXPECT_EQ(file->tensors().at(module + "lora_A.weight").shape, (Shape{config->rank, 256}));
    EXPECT_EQ(file->tensors().at(module + "lora_B.weight").shape, (Shape{128, config->rank}));
  }
}

TEST_F(SynthAdaptersTest, HaveTheModulesOfTheModel) {
  const std::string dir = root_ / "adapters";
  const std::string model = SourcePath("tests/goldens/phi3-f32");
  WriteAdapters({.model_dir = model, .out_dir = dir, .count = 1, .targets = {"all-linear"}});
  const auto spec = LoadModelSpec(model);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto adapter = Adapter::OpenWithoutBase(dir + "/adapter-0000", *spec, kMaxLoraRank);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_NE(adapter->Find(1, Projection::kUp), nullptr);
  EXPECT_EQ(adapter->spec().unmatched_targets, "");
}

TEST_F(SynthAdaptersTest, HaveAMixturesExperts) {
  const std::string dir = root_ / "adapters";
  const std::string model = SourcePath("tests/goldens/qwen3-moe-f32");
  WriteAdapters({.model_dir = model, .out_dir = dir, .count = 1, .targets = {"all-linear"}});
  const auto spec = LoadModelSpec(model);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto adapter = Adapter::OpenWithoutBase(dir + "/adapter-0000", *spec, kMaxLoraRank);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_NE(adapter->Find(1, Site::OfExpert(6, Projection::kDown)), nullptr);
  EXPECT_NE(adapter->Find(1, Site::Router()), nullptr);
}

// B is random, so that an adapter does something, and so scaled that it does not do too much: each
// element of s·BAx, for x of variance 1, is a sum with deviation 1/4.
TEST_F(SynthAdaptersTest, DoSomethingButNotTooMuch) {
  const std::string dir = root_ / "adapters";
  WriteAdapters({.model_dir = model_, .out_dir = dir, .count = 2, .dtype = DType::kF32});
  const auto config = LoadLoraConfig(dir + "/adapter-0000");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->target_modules.names.size(), 7u);
  const auto first = SafetensorsFile::Open(dir + "/adapter-0000/adapter_model.safetensors");
  const auto second = SafetensorsFile::Open(dir + "/adapter-0001/adapter_model.safetensors");
  ASSERT_TRUE(first.ok() && second.ok());
  const std::string name = "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight";
  const TensorView& b = first->tensors().at(name);
  std::vector<float> values(static_cast<size_t>(b.num_elements()));
  CopyAsFloat(b, 0, b.num_elements(), values.data());
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  const auto n = static_cast<double>(values.size());
  constexpr double kScale = 2;  // lora_alpha is 2 r
  const double rank = static_cast<double>(config->rank);
  // Five standard errors of the mean square of n normal draws.
  EXPECT_NEAR(squares / n * rank * kScale * kScale, 0.0625, 0.0625 * 5 * std::sqrt(2 / n));
  EXPECT_NE(std::memcmp(b.data, second->tensors().at(name).data, b.size_bytes()), 0)
      << "different adapters have different weights";
}

TEST_F(SynthAdaptersTest, RefuseBadOptions) {
  const auto error = [&](SynthAdaptersOptions options) {
    if (options.model_dir.empty()) options.model_dir = model_;
    return Message(PlanSynthAdapters(options).status());
  };
  EXPECT_THAT(error({.model_dir = root_ / "none"}), HasSubstr("config.json: No such file"));
  EXPECT_THAT(error({.count = 0}), HasSubstr("count is 0"));
  EXPECT_THAT(error({.ranks = {}}), HasSubstr("ranks is empty"));
  EXPECT_THAT(error({.ranks = {8, 1000}}), HasSubstr("\"r\" is 1000"));
  EXPECT_THAT(error({.targets = {"q_proj", "c_attn"}}), HasSubstr("names \"c_attn\""));
  EXPECT_THAT(error({.targets = {}}), HasSubstr("targets is empty"));
}

TEST(SynthModel, CanHaveMorePositionsThanItsShape) {
  const auto plain = PlanSynthModel({.shape = "tiny"});
  const auto longer = PlanSynthModel({.shape = "tiny", .min_positions = 9000});
  const auto shorter = PlanSynthModel({.shape = "tiny", .min_positions = 10});
  ASSERT_TRUE(plain.ok() && longer.ok() && shorter.ok());
  EXPECT_EQ(longer->spec.max_position_embeddings, 9000);
  EXPECT_EQ(shorter->spec.max_position_embeddings, plain->spec.max_position_embeddings);
  EXPECT_EQ(longer->total_bytes, plain->total_bytes);
}

}  // namespace
}  // namespace aril
