// What Adapter::Open takes and refuses. The bad adapters are what users really have: of another
// base model, half downloaded, never downloaded, damaged in training, saved as pickle.

#include "adapters/adapter.h"

#include <cmath>
#include <functional>
#include <limits>

#include "adapters/test_support.h"
#include "base/file.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");
const std::string kAdapter = kModel + "/adapters/all-r4";
constexpr char kWeights[] = "adapter_model.safetensors";
constexpr char kConfig[] = "adapter_config.json";
constexpr char kSomeTensor[] = "base_model.model.model.layers.1.mlp.up_proj.lora_B.weight";

using Tensors = std::map<std::string, EditableTensors::Tensor>;

ModelSpec Base() {
  auto spec = LoadModelSpec(kModel);
  CHECK(spec.ok());
  return *spec;
}

TEST(Adapter, OpensEveryGolden) {
  for (const auto& model : std::filesystem::directory_iterator(SourcePath("tests/goldens"))) {
    const auto base = LoadModelSpec(model.path());
    ASSERT_TRUE(base.ok()) << base.status();
    for (const auto& dir : std::filesystem::directory_iterator(model.path() / "adapters")) {
      const auto adapter = Adapter::OpenWithoutBase(dir.path().string(), *base, kMaxLoraRank);
      EXPECT_TRUE(adapter.ok()) << adapter.status();
    }
  }
}

// What people trained, on the shapes of what they trained it for.
TEST(Adapter, OpensRealAdapters) {
  const std::string weights = SharedPath("data/adapters/weights/");
  if (!FileExists(weights)) GTEST_SKIP() << weights << " is absent";
  ModelSpec tinyllama;
  tinyllama.hidden_size = 2048;
  tinyllama.num_layers = 22;
  tinyllama.num_heads = 32;
  tinyllama.num_kv_heads = 4;
  tinyllama.head_dim = 64;
  ModelSpec qwen;
  qwen.hidden_size = 896;
  qwen.num_layers = 24;
  qwen.num_heads = 14;
  qwen.num_kv_heads = 2;
  qwen.head_dim = 64;
  for (const char* name : {"tinyllama_r4_emotion", "tinyllama_r4_keywords"}) {
    const auto adapter = Adapter::OpenWithoutBase(weights + name, tinyllama, kMaxLoraRank);
    ASSERT_TRUE(adapter.ok()) << adapter.status();
    EXPECT_EQ(adapter->spec().At(21, Projection::kV), (LoraModule{4, 2.0}));
    EXPECT_FALSE(Adapter::OpenWithoutBase(weights + name, qwen, kMaxLoraRank).ok());
  }
  const auto adapter = Adapter::OpenWithoutBase(weights + "qwen2.5-0.5b_r8_qv", qwen, kMaxLoraRank);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(adapter->spec().MaxRank(), 8);
}

TEST(Adapter, FindsWhatItTargetsAndNothingElse) {
  const ModelSpec base = Base();
  const auto adapter =
      Adapter::OpenWithoutBase(kModel + "/adapters/qv-r64-bf16", base, kMaxLoraRank);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(adapter->num_layers(), 2);
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (const Projection projection : kAllProjections) {
      const bool targeted = projection == Projection::kQ || projection == Projection::kV;
      const LoraPair* pair = adapter->Find(layer, projection);
      ASSERT_EQ(pair != nullptr, targeted) << Name(projection);
      if (!targeted) continue;
      EXPECT_EQ(pair->a.shape, (Shape{64, base.InFeatures(projection)}));
      EXPECT_EQ(pair->b.shape, (Shape{base.OutFeatures(projection), 64}));
      EXPECT_EQ(pair->a.dtype, DType::kBF16);
    }
  }
}

TEST(Adapter, ViewsSurviveAMove) {
  auto opened = Adapter::OpenWithoutBase(kAdapter, Base(), kMaxLoraRank);
  ASSERT_TRUE(opened.ok());
  const std::byte* before = opened->Find(1, Projection::kUp)->b.data;
  const Adapter moved = *std::move(opened);
  EXPECT_EQ(moved.Find(1, Projection::kUp)->b.data, before);
  EXPECT_TRUE(AllFinite(moved.Find(1, Projection::kUp)->b));
}

// The message of opening a copy of the golden that `edit` has changed.
std::string ErrorAfter(const std::function<void(const TestDir&)>& edit,
                       const ModelSpec& base = Base(), int64_t max_rank = kMaxLoraRank) {
  const TestDir dir(kAdapter);
  edit(dir);
  const auto adapter = Adapter::OpenWithoutBase(dir.path(), base, max_rank);
  EXPECT_FALSE(adapter.ok());
  if (adapter.ok()) return "";
  EXPECT_THAT(Message(adapter.status()), HasSubstr(dir.path())) << "must say which adapter";
  return Message(adapter.status());
}

std::string ErrorWithTensors(const std::function<void(Tensors&)>& edit) {
  return ErrorAfter([&](const TestDir& dir) { EditTensors(dir / kWeights, edit); });
}

TEST(Adapter, RefusesAMissingTensor) {
  EXPECT_THAT(ErrorWithTensors([](Tensors& tensors) { tensors.erase(kSomeTensor); }),
              AllOf(HasSubstr(kSomeTensor), HasSubstr("is missing"), HasSubstr("target_modules")));
}

TEST(Adapter, RefusesATensorOfNoTarget) {
  const auto extra = [](const std::string& name) {
    return ErrorWithTensors([&](Tensors& tensors) {
      tensors[name] = EditableTensors::Tensor::Filled({4, 64}, 1);
    });
  };
  const std::string lm_head = "base_model.model.lm_head.lora_A.weight";
  EXPECT_THAT(extra(lm_head), AllOf(HasSubstr(lm_head), HasSubstr("no target module")));
  // A layer that this base model does not have.
  const std::string layer = "base_model.model.model.layers.2.mlp.up_proj.lora_A.weight";
  EXPECT_THAT(extra(layer), AllOf(HasSubstr(layer), HasSubstr("2 layers")));
}

// A name that no module has is harmless (as in PEFT) only if nothing was trained under it.
TEST(Adapter, RefusesTensorsOfAMisspeltTarget) {
  EXPECT_THAT(
      ErrorAfter(
          [](const TestDir& dir) { ReplaceInFile(dir / kConfig, "\"up_proj\"", "\"up_prpj\""); }),
      AllOf(HasSubstr("up_proj.lora_A"), HasSubstr("no target module"), HasSubstr("\"up_prpj\"")));
  const TestDir dir(kAdapter);
  ReplaceInFile(dir / kConfig, "\"up_proj\"", "\"up_proj\", \"c_attn\"");
  EXPECT_TRUE(Adapter::OpenWithoutBase(dir.path(), Base(), kMaxLoraRank).ok());
}

constexpr char kInside[] = "base_model.model.model.language_model.";
constexpr char kVision[] = "base_model.model.model.vision_tower.";

// What opening gemma3-vision-f32's adapter gives, with other names where those stand. Without
// `vision` nothing is there for it.
StatusOr<Adapter> OpenRenamed(const std::string& decoder, const std::string& vision) {
  const std::string model = SourcePath("tests/goldens/gemma3-vision-f32");
  const TestDir dir(model + "/adapters/all-r4");
  EditTensors(dir / kWeights, [&](Tensors& tensors) {
    Tensors renamed;
    for (const auto& [name, tensor] : tensors) {
      const bool is_text = name.starts_with(kInside);
      if (!is_text && vision.empty()) continue;
      const size_t length = std::string_view(is_text ? kInside : kVision).size();
      renamed[(is_text ? decoder : vision) + name.substr(length)] = tensor;
    }
    tensors = renamed;
  });
  const auto base = LoadModelSpec(model);
  CHECK(base.ok());
  return Adapter::OpenWithoutBase(dir.path(), *base, kMaxLoraRank);
}

// An adapter may come from any class of transformers that has the text model.
TEST(Adapter, TensorsAreCalledAsWhereItWasTrained) {
  const auto expected = OpenRenamed(kInside, kVision);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto older =
      OpenRenamed("base_model.model.language_model.model.", "base_model.model.vision_tower.");
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_EQ(older->spec().layers, expected->spec().layers);
  const auto of_text = OpenRenamed("base_model.model.model.", "");
  ASSERT_TRUE(of_text.ok()) << of_text.status();
  EXPECT_EQ(of_text->spec().layers, expected->spec().layers);
  const auto of_decoder = OpenRenamed("base_model.model.", "");
  ASSERT_TRUE(of_decoder.ok()) << of_decoder.status();
  EXPECT_EQ(of_decoder->spec().layers, expected->spec().layers);
}

// What is for vision says where it was trained, too: then the text model is not where this is.
TEST(Adapter, OfATextModelNothingIsForVision) {
  EXPECT_THAT(Message(OpenRenamed("base_model.model.model.", kVision).status()),
              AllOf(HasSubstr("model.language_model.layers.0"), HasSubstr("is missing")));
}

// Since transformers 4.52 lm_head is called there as in a text model.
TEST(Adapter, TheRestOfItMayBeForVision) {
  const std::string model = SourcePath("tests/goldens/gemma3-vision-f32");
  const auto base = LoadModelSpec(model);
  ASSERT_TRUE(base.ok()) << base.status();
  const TestDir dir(model + "/adapters/saved-r3");
  dir.Write(kConfig, R"({"peft_type":"LORA","r":3,"target_modules":["lm_head","fc1"]})");
  EditTensors(dir / kWeights, [&](Tensors& tensors) {
    std::erase_if(tensors, [](const auto& tensor) {
      return tensor.first.find("mlp.fc1.lora_") == std::string::npos;
    });
    ASSERT_EQ(tensors.size(), 4u) << "of the encoder's layer and of the head";
    const std::string head = "base_model.model.lm_head.lora_";
    tensors[head + "A.weight"] = EditableTensors::Tensor::Filled({3, base->hidden_size}, 1);
    tensors[head + "B.weight"] = EditableTensors::Tensor::Filled({base->vocab_size, 3}, 1);
  });
  const auto adapter = Adapter::OpenWithoutBase(dir.path(), *base, kMaxLoraRank);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(adapter->spec().lm_head.rank, 3);
  EXPECT_EQ(adapter->spec().unmatched_targets, "\"fc1\"");
}

TEST(Adapter, DoraOfAFusedModuleNeedsItsLengths) {
  const std::string model = SourcePath("tests/goldens/phi3-f32");
  const auto base = LoadModelSpec(model);
  ASSERT_TRUE(base.ok()) << base.status();
  const TestDir dir(model + "/adapters/dora-r5");
  const std::string name = "base_model.model.model.layers.0.mlp.gate_up_proj.lora_magnitude_vector";
  EditTensors(dir / kWeights, [&](Tensors& tensors) { EXPECT_EQ(tensors.erase(name), 1u); });
  EXPECT_THAT(Message(Adapter::OpenWithoutBase(dir.path(), *base, kMaxLoraRank).status()),
              AllOf(HasSubstr(name), HasSubstr("is missing")));
}

TEST(Adapter, ModulesOfSeveralProjectionsAreParted) {
  const std::string model = SourcePath("tests/goldens/phi3-f32");
  const auto base = LoadModelSpec(model);
  ASSERT_TRUE(base.ok()) << base.status();
  const std::string qkv = "base_model.model.model.layers.1.self_attn.qkv_proj.lora_B.weight";
  const TestDir dir(model + "/adapters/all-r4");
  const auto adapter = Adapter::OpenWithoutBase(dir.path(), *base, kMaxLoraRank);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  const LoraPair* const q = adapter->Find(1, Projection::kQ);
  const LoraPair* const k = adapter->Find(1, Projection::kK);
  EXPECT_EQ(q->a.data, k->a.data);
  EXPECT_EQ(q->b.shape, (Shape{base->q_size(), 4}));
  EXPECT_EQ(k->b.shape, (Shape{base->kv_size(), 4}));
  EXPECT_EQ(q->b.data + q->b.size_bytes(), k->b.data);

  EditTensors(dir / kWeights, [&](Tensors& tensors) {
    tensors[qkv] = EditableTensors::Tensor::Filled({base->q_size(), 4}, 1);
  });
  EXPECT_THAT(Message(Adapter::OpenWithoutBase(dir.path(), *base, kMaxLoraRank).status()),
              AllOf(HasSubstr(qkv), HasSubstr("has shape [48, 4]"), HasSubstr("need [80, 4]")));
}

// Names come from strangers: they must not forge lines of a log, nor fill it.
TEST(Adapter, QuotesAndCutsForeignNames) {
  const std::string name = "line\nbreak" + std::string(100'000, 'x');
  const std::string message = ErrorWithTensors(
      [&](Tensors& tensors) { tensors[name] = EditableTensors::Tensor::Filled({1}, 1); });
  EXPECT_THAT(message, AllOf(HasSubstr("line\\nbreak"), Not(HasSubstr("\n"))));
  EXPECT_LT(message.size(), 1000u);
}

TEST(Adapter, RefusesWhatIsNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(ErrorWithTensors([&](Tensors& tensors) {
                  Tensors::mapped_type& tensor = tensors.at(kSomeTensor);
                  tensor.Set(tensor.bytes.size() / 4 - 1, bad);
                }),
                AllOf(HasSubstr(kSomeTensor), HasSubstr("NaN or infinite")));
  }
}

TEST(Adapter, RefusesDTypesThatAreNoWeights) {
  EXPECT_THAT(
      ErrorWithTensors([](Tensors& tensors) { tensors.at(kSomeTensor).dtype = DType::kI32; }),
      AllOf(HasSubstr(kSomeTensor), HasSubstr("I32"), HasSubstr("F32, F16 and BF16")));
}

TEST(Adapter, RefusesAnAdapterOfAnotherBase) {
  const auto none = [](const TestDir&) {};
  ModelSpec wider = Base();
  wider.intermediate_size = 128;
  EXPECT_THAT(ErrorAfter(none, wider), AllOf(HasSubstr("gate_proj"), HasSubstr("[100, 4]"),
                                             HasSubstr("[128, 4]"), HasSubstr("another base")));
  ModelSpec deeper = Base();
  deeper.num_layers = 3;
  EXPECT_THAT(ErrorAfter(none, deeper), AllOf(HasSubstr("layers.2."), HasSubstr("is missing")));
  ModelSpec flatter = Base();
  flatter.num_layers = 1;
  EXPECT_THAT(ErrorAfter(none, flatter), AllOf(HasSubstr("layers.1."), HasSubstr("1 layers")));
}

TEST(Adapter, RefusesARankThatTheConfigDoesNotName) {
  EXPECT_THAT(
      ErrorAfter([](const TestDir& dir) { ReplaceInFile(dir / kConfig, "\"r\": 4", "\"r\": 5"); }),
      AllOf(HasSubstr("[4, 64]"), HasSubstr("[5, 64]")));
}

TEST(Adapter, RefusesARankAboveTheLimit) {
  const auto none = [](const TestDir&) {};
  EXPECT_THAT(ErrorAfter(none, Base(), 3),
              HasSubstr("the largest rank is 4, more than the --max-lora-rank of 3"));
  EXPECT_TRUE(Adapter::OpenWithoutBase(kAdapter, Base(), 4).ok());
}

TEST(Adapter, RefusesAnUnsupportedConfig) {
  EXPECT_THAT(ErrorAfter([](const TestDir& dir) {
                ReplaceInFile(dir / kConfig, "\"use_dora\": false", "\"use_dora\": true");
              }),
              AllOf(HasSubstr(kConfig), HasSubstr("use_dora")));
}

TEST(Adapter, RefusesPickleFiles) {
  for (const char* pickle : {"adapter_model.bin", "adapter_model.pt"}) {
    EXPECT_THAT(ErrorAfter([&](const TestDir& dir) {
                  std::filesystem::rename(dir / kWeights, dir / pickle);
                }),
                AllOf(HasSubstr(pickle), HasSubstr("pickle"), HasSubstr("safetensors")));
  }
}

TEST(Adapter, APickleBesideSafetensorsDoesNoHarm) {
  const TestDir dir(kAdapter);
  dir.Write("adapter_model.bin", "never read");
  EXPECT_TRUE(Adapter::OpenWithoutBase(dir.path(), Base(), kMaxLoraRank).ok());
}

TEST(Adapter, RefusesHalfAndMissingFiles) {
  EXPECT_THAT(
      ErrorAfter([](const TestDir& dir) { std::filesystem::resize_file(dir / kWeights, 4000); }),
      HasSubstr("truncated"));
  EXPECT_THAT(ErrorAfter([](const TestDir& dir) { dir.Write(kWeights, ""); }),
              HasSubstr("truncated"));
  EXPECT_THAT(ErrorAfter([](const TestDir& dir) {
                dir.Write(kWeights,
                          "version https://git-lfs.github.com/spec/v1\n"
                          "oid sha256:0\nsize 13\n");
              }),
              HasSubstr("git lfs pull"));
  EXPECT_THAT(ErrorAfter([](const TestDir& dir) { std::filesystem::remove(dir / kWeights); }),
              HasSubstr(kWeights));
  EXPECT_THAT(ErrorAfter([](const TestDir& dir) { std::filesystem::remove(dir / kConfig); }),
              HasSubstr(kConfig));
}

TEST(Adapter, RefusesADirectoryThatIsNotThere) {
  const auto adapter =
      Adapter::OpenWithoutBase(kModel + "/adapters/nothing-here", Base(), kMaxLoraRank);
  EXPECT_EQ(adapter.status().code(), StatusCode::kNotFound) << adapter.status();
}

}  // namespace
}  // namespace aril
