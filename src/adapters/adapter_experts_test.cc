// What Adapter::Open takes and refuses of a mixture's experts and their router, in the ways in
// which files have them.

#include <map>
#include <string>

#include "adapters/adapter.h"
#include "adapters/test_support.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kModel = SourcePath("tests/goldens/qwen3-moe-f32");
constexpr char kWeights[] = "adapter_model.safetensors";
constexpr char kConfig[] = "adapter_config.json";
constexpr char kInLayer[] = "base_model.model.model.layers.1.";

using Tensors = std::map<std::string, EditableTensors::Tensor>;

ModelSpec Base() {
  auto spec = LoadModelSpec(kModel);
  CHECK(spec.ok());
  return *spec;
}

StatusOr<Adapter> Open(const std::string& dir) {
  return Adapter::OpenWithoutBase(dir, Base(), kMaxLoraRank);
}

// Of a copy of a golden that `edit` has changed.
template <typename Edit>
StatusOr<Adapter> OpenEdited(const std::string& name, const Edit& edit) {
  const TestDir dir(kModel + "/adapters/" + name);
  EditTensors(dir / kWeights, edit);
  return Open(dir.path());
}

std::string InLayer(const std::string& tensor) { return kInLayer + tensor; }

float At(const TensorView& tensor, int64_t row, int64_t col) {
  float value = 0;
  CopyAsFloat(tensor, row * tensor.shape[1] + col, 1, &value);
  return value;
}

TEST(AdapterExperts, MayBeModules) {
  const auto adapter = Open(kModel + "/adapters/modules-r4");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  const ModelSpec base = Base();
  for (int64_t layer = 0; layer < base.num_layers; ++layer) {
    EXPECT_NE(adapter->Find(layer, Site::Router()), nullptr);
    EXPECT_EQ(adapter->Find(layer, Projection::kUp), nullptr) << "of no expert";
    for (int64_t expert = 0; expert < base.experts->count; ++expert) {
      for (const Projection projection : kExpertProjections) {
        const LoraPair* pair = adapter->Find(layer, Site::OfExpert(expert, projection));
        ASSERT_NE(pair, nullptr);
        EXPECT_EQ(pair->b_col_step, 1);
      }
    }
  }
}

// Gate and up of an expert have the rows of one A, and their own of B's columns.
TEST(AdapterExperts, MayBePartsOfOneTensor) {
  const auto adapter = Open(kModel + "/adapters/all-r4");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  const auto file = SafetensorsFile::Open(kModel + "/adapters/all-r4/" + kWeights);
  ASSERT_TRUE(file.ok()) << file.status();
  const ModelSpec base = Base();
  const auto tensor = [&](const std::string& name) {
    return file->tensors().at(InLayer("mlp.experts." + name));
  };
  constexpr int64_t kExpert = 5, kRank = 8;  // peft has doubled it
  const LoraPair* up = adapter->Find(1, Site::OfExpert(kExpert, Projection::kUp));
  const LoraPair* gate = adapter->Find(1, Site::OfExpert(kExpert, Projection::kGate));
  const LoraPair* down = adapter->Find(1, Site::OfExpert(kExpert, Projection::kDown));
  ASSERT_TRUE(up && gate && down);
  EXPECT_EQ(up->a.data, gate->a.data);
  EXPECT_EQ(up->a.shape, (Shape{kRank, base.hidden_size}));
  EXPECT_EQ(At(up->a, 3, 2), At(tensor("base_layer.lora_A.weight"), kExpert * kRank + 3, 2));
  EXPECT_EQ(down->a.shape, (Shape{kRank / 2, base.intermediate_size}));
  const int64_t column = 3 * base.experts->count + kExpert;  // of rank 3
  EXPECT_EQ(up->b_first_col + 3 * up->b_col_step, column);
  EXPECT_EQ(At(up->b, 7, column),
            At(tensor("base_layer.lora_B.weight"), base.intermediate_size + 7, column));
  EXPECT_EQ(At(gate->b, 7, column), At(tensor("base_layer.lora_B.weight"), 7, column));
  EXPECT_EQ(At(down->b, 7, column), At(tensor("lora_B.weight"), 7, column));
  EXPECT_EQ(adapter->spec().At(1, Site::OfExpert(kExpert, Projection::kUp)), (LoraModule{8, 1.5}));
}

// What peft calls base_layer is there only where it has wrapped two parameters.
TEST(AdapterExperts, OneParameterIsNotNested) {
  const auto down = Open(kModel + "/adapters/down-r5-f16");
  ASSERT_TRUE(down.ok()) << down.status();
  EXPECT_NE(down->Find(0, Site::OfExpert(0, Projection::kDown)), nullptr);
  EXPECT_EQ(down->Find(0, Site::OfExpert(0, Projection::kUp)), nullptr);
  const auto missing = OpenEdited("experts-r3-rslora-bf16", [](Tensors& tensors) {
    EXPECT_EQ(tensors.erase(InLayer("mlp.experts.base_layer.lora_A.weight")), 1U);
  });
  EXPECT_THAT(Message(missing.status()),
              AllOf(HasSubstr("layers.1.mlp.experts.base_layer.lora_A.weight is missing"),
                    HasSubstr("target_parameters")));
}

// As peft wrote them before 0.19.1.
TEST(AdapterExperts, PartsOfOneTensorMustNotBeTurned) {
  const ModelSpec base = Base();
  const int64_t ranks = base.experts->count * 5;
  ASSERT_NE(base.hidden_size, base.intermediate_size);
  const auto turned = OpenEdited("down-r5-f16", [&](Tensors& tensors) {
    tensors.at(InLayer("mlp.experts.lora_A.weight")) =
        EditableTensors::Tensor::Filled({ranks, base.hidden_size}, 1);
    tensors.at(InLayer("mlp.experts.lora_B.weight")) =
        EditableTensors::Tensor::Filled({base.intermediate_size, ranks}, 1);
  });
  EXPECT_THAT(Message(turned.status()),
              AllOf(HasSubstr("layers.1.mlp.experts.lora_A"), HasSubstr("before 0.19.1")));
  const auto other = OpenEdited("down-r5-f16", [&](Tensors& tensors) {
    tensors.at(InLayer("mlp.experts.lora_A.weight")) =
        EditableTensors::Tensor::Filled({ranks, base.intermediate_size + 1}, 1);
  });
  EXPECT_THAT(Message(other.status()),
              HasSubstr(StrCat("need [", ranks, ", ", base.intermediate_size, "]")));
}

// Of a mixture that is as wide inside as outside.
TEST(AdapterExperts, OnlyTheVersionTellsWhetherSquareOnesAreTurned) {
  ModelSpec base = Base();
  base.intermediate_size = base.hidden_size;
  const int64_t ranks = base.experts->count * 5;
  const TestDir dir(kModel + "/adapters/down-r5-f16");
  EditTensors(dir / kWeights, [&](Tensors& tensors) {
    for (const char* layer : {"0", "1"}) {
      const std::string experts = StrCat("base_model.model.model.layers.", layer, ".mlp.experts.");
      tensors.at(experts + "lora_A.weight") =
          EditableTensors::Tensor::Filled({ranks, base.hidden_size}, 1);
      tensors.at(experts + "lora_B.weight") =
          EditableTensors::Tensor::Filled({base.hidden_size, ranks}, 1);
    }
  });
  const auto open = [&] { return Adapter::OpenWithoutBase(dir.path(), base, kMaxLoraRank); };
  EXPECT_TRUE(open().ok()) << open().status();
  ReplaceInFile(dir / kConfig, R"("peft_version": "0.21.2")", R"("peft_version": null)");
  EXPECT_THAT(Message(open().status()), HasSubstr("before 0.19.1"));
  ReplaceInFile(dir / kConfig, R"("peft_version": null)", R"("peft_version": "0.21.2")");
  std::string before = "0.21.2";
  for (const char* version : {"0.18.1", "0.19.0", "0.19.1.dev0", "0.19.1", "1.0"}) {
    ReplaceInFile(dir / kConfig, StrCat(R"("peft_version": ")", before, '"'),
                  StrCat(R"("peft_version": ")", version, '"'));
    before = version;
    EXPECT_EQ(open().ok(), std::string(version) >= "0.19.1") << version;
  }
}

const std::string kGptOss = SourcePath("tests/goldens/gpt-oss-f32");

// Rows 2j and 2j + 1 of PEFT's B are output j of gate and of up.
TEST(AdapterExperts, OfGptOssHaveRowsInTurns) {
  auto base = LoadModelSpec(kGptOss);
  ASSERT_TRUE(base.ok()) << base.status();
  const std::string dir = kGptOss + "/adapters/all-r4-bf16";
  const auto adapter = Adapter::OpenWithoutBase(dir, *base, kMaxLoraRank);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  const auto file = SafetensorsFile::Open(dir + "/" + kWeights);
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorView& b =
      file->tensors().at("base_model.model.model.layers.0.mlp.experts.base_layer.lora_B.weight");
  const int64_t experts = base->experts->count;
  for (const Projection projection : {Projection::kGate, Projection::kUp}) {
    const int64_t turn = projection == Projection::kUp ? 1 : 0;
    for (int64_t expert = 0; expert < experts; ++expert) {
      const LoraPair* const pair = adapter->Find(0, Site::OfExpert(expert, projection));
      ASSERT_NE(pair, nullptr);
      ASSERT_EQ(pair->b.shape[0], base->intermediate_size);
      for (int64_t row = 0; row < base->intermediate_size; ++row) {
        for (int64_t rank = 0; rank < 4; ++rank) {
          EXPECT_EQ(At(pair->b, row, pair->b_first_col + rank * pair->b_col_step),
                    At(b, 2 * row + turn, rank * experts + expert));
        }
      }
    }
  }
  EXPECT_EQ(adapter->Find(1, Site::OfExpert(0, Projection::kUp)), nullptr);
  EXPECT_NE(adapter->Find(1, Site::OfExpert(0, Projection::kDown)), nullptr);
}

TEST(AdapterExperts, OfGptOssAreNotTurned) {
  const TestDir dir(kGptOss + "/adapters/all-r4-bf16");
  auto base = LoadModelSpec(kGptOss);
  ASSERT_TRUE(base.ok()) << base.status();
  const auto error = [&] {
    return Message(Adapter::OpenWithoutBase(dir.path(), *base, kMaxLoraRank).status());
  };
  const std::string experts = "base_model.model.model.layers.0.mlp.experts.";
  const auto fill = [](Tensors& tensors, const std::string& module, const Shape& a,
                       const Shape& b) {
    tensors[module + "lora_A.weight"] = EditableTensors::Tensor::Filled(a, 1);
    tensors[module + "lora_B.weight"] = EditableTensors::Tensor::Filled(b, 1);
  };
  EXPECT_EQ(error(), "");
  EditTensors(dir / kWeights, [&](Tensors& tensors) {
    fill(tensors, experts + "base_layer.", {24, 88}, {48, 24});
  });
  EXPECT_THAT(error(), AllOf(HasSubstr(" has the outputs of the experts where their inputs"),
                             HasSubstr("has no is_transposed")));
  // As wide as high, and alone: nothing in the file tells.
  base->intermediate_size = 48;
  EditTensors(dir / kWeights, [&](Tensors& tensors) {
    tensors.clear();
    fill(tensors, experts, {24, 48}, {48, 24});
  });
  for (const auto& [version, expected] : {std::pair("0.18.1", ""), {"0.21.2", " may have the"}}) {
    dir.Write(kConfig, StrCat(R"({"peft_type":"LORA","r":4,"peft_version":")", version,
                              R"(","target_parameters":["0.mlp.experts.down_proj"]})"));
    EXPECT_THAT(error(), HasSubstr(expected)) << version;
    EXPECT_EQ(error().empty(), std::string_view(expected).empty()) << version;
  }
}

TEST(AdapterExperts, AreNotLeftOut) {
  for (const char* module : {"mlp.experts.3.up_proj", "mlp.experts", "mlp.gate",
                             "block_sparse_moe.experts.3.w1", "block_sparse_moe.gate"}) {
    const std::string name = InLayer(StrCat(module, ".lora_A.weight"));
    const auto adapter = OpenEdited("attention-r4", [&](Tensors& tensors) {
      tensors[name] = EditableTensors::Tensor::Filled({4, 48}, 1);
    });
    EXPECT_THAT(Message(adapter.status()), AllOf(HasSubstr(name), HasSubstr("no target module")));
  }
}

// Of some experts' modules all that the config asks for must be there.
TEST(AdapterExperts, ThatAreModulesAreAllThere) {
  const auto adapter = OpenEdited("modules-r4", [](Tensors& tensors) {
    std::erase_if(tensors, [](const auto& tensor) {
      return tensor.first.find("experts.") != std::string::npos &&
             tensor.first.find("experts.2.") == std::string::npos;
    });
  });
  EXPECT_THAT(Message(adapter.status()),
              HasSubstr("layers.0.mlp.experts.0.gate_proj.lora_A.weight is missing"));
}

// Names that mean experts' projections on older versions of transformers, and nothing where PEFT
// met all experts as one tensor: then nothing was trained under them.
TEST(AdapterExperts, OfAttentionMayNameMoreOfAMixture) {
  for (const char* targets :
       {"\"all-linear\"",
        R"(["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])"}) {
    const TestDir dir(kModel + "/adapters/attention-r4");
    dir.Write(kConfig, StrCat(R"({"peft_type":"LORA","r":4,"target_modules":)", targets, "}"));
    const auto adapter = Open(dir.path());
    ASSERT_TRUE(adapter.ok()) << adapter.status();
    EXPECT_EQ(adapter->spec().At(1, Projection::kO).rank, 4);
    EXPECT_EQ(adapter->spec().At(1, Site::OfExpert(0, Projection::kUp)).rank, 0);
  }
}

}  // namespace
}  // namespace aril
