// What Adapter::Open makes of an embedding and an lm_head that the file has whole: rows of the
// adapter's own, if few differ from the base model's, and vocabularies that were resized.

#include <functional>
#include <map>
#include <string>

#include "adapters/adapter.h"
#include "adapters/outer_reader.h"
#include "adapters/test_support.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Tensors = std::map<std::string, EditableTensors::Tensor>;

constexpr char kWeights[] = "adapter_model.safetensors";
const std::string kEmbedding = "base_model.model.model.embed_tokens";
const std::string kHead = "base_model.model.lm_head";

// A golden's base model, and its adapters as their files have them, or edited.
class GoldenModel {
 public:
  explicit GoldenModel(const std::string& name)
      : dir_(SourcePath("tests/goldens/" + name)), checkpoint_(Checkpoint::Open(dir_)) {
    auto spec = LoadModelSpec(dir_);
    CHECK(spec.ok() && checkpoint_.ok());
    base = *std::move(spec);
  }

  StatusOr<Adapter> Open(const std::string& adapter,
                         const std::function<void(Tensors&)>& edit = nullptr) const {
    const TestDir dir(dir_ + "/adapters/" + adapter);
    if (edit) EditTensors(dir / kWeights, edit);
    const BaseWeights weights{&*checkpoint_, kernels::AvailableIsas().back()};
    return Adapter::Open(dir.path(), base, kMaxLoraRank, Adapter::Values::kUnknown, weights);
  }
  StatusOr<Adapter> OpenWithoutBase(const std::string& adapter) const {
    return Adapter::OpenWithoutBase(dir_ + "/adapters/" + adapter, base, kMaxLoraRank);
  }
  EditableTensors::Tensor Of(const std::string& name) const {
    const TensorView& tensor = checkpoint_->tensors().at(name);
    return {tensor.dtype, tensor.shape, {tensor.data, tensor.data + tensor.size_bytes()}};
  }

  ModelSpec base;

 private:
  std::string dir_;
  StatusOr<Checkpoint> checkpoint_;
};

EditableTensors::Tensor Convert(const EditableTensors::Tensor& from, DType dtype) {
  const TensorView view{from.bytes.data(), from.dtype, from.shape};
  EditableTensors::Tensor to{
      dtype, from.shape,
      std::vector<std::byte>(static_cast<size_t>(view.num_elements()) * SizeOf(dtype))};
  CopyElements(view, 0, view.num_elements(), dtype, to.bytes.data());
  return to;
}

TEST(AdapterVocabulary, OfAddedTokensOnlyTheirRowsAreKept) {
  const GoldenModel model("llama-f32-sharded");
  for (const auto& adapter : {model.Open("added-r4"), model.OpenWithoutBase("added-r4")}) {
    ASSERT_TRUE(adapter.ok()) << adapter.status();
    const LoraSpec& spec = adapter->spec();
    EXPECT_EQ(spec.vocab_size, 175);
    EXPECT_THAT(spec.token_rows.embedding, ElementsAre(171, 172, 173, 174));
    EXPECT_EQ(spec.token_rows.lm_head, spec.token_rows.embedding);
    EXPECT_FALSE(spec.replaces_embedding || spec.replaces_lm_head || spec.can_be_weighted());
    EXPECT_EQ(adapter->embedding()->a.shape, (Shape{4, 175}));
    EXPECT_EQ(adapter->lm_head()->b.shape, (Shape{175, 4}));
    EXPECT_EQ(adapter->embedding_table(), nullptr);
    EXPECT_LT(adapter->held_bytes(), adapter->file_bytes()) << "all other rows are not needed";
  }
}

TEST(AdapterVocabulary, WhereMostRowsDifferAllAreKept) {
  const GoldenModel model("llama-f32-sharded");
  for (const auto& adapter :
       {model.Open("added-saved-r3"), model.OpenWithoutBase("added-saved-r3")}) {
    ASSERT_TRUE(adapter.ok()) << adapter.status();
    EXPECT_EQ(adapter->spec().vocab_size, 173);
    EXPECT_EQ(adapter->embedding_table()->shape, (Shape{173, 64}));
    EXPECT_EQ(adapter->lm_head_table()->shape, (Shape{173, 64}));
    EXPECT_LT(adapter->held_bytes(), adapter->file_bytes() / 2) << "the file has each three times";
    EXPECT_THAT(adapter->spec().token_rows.embedding, IsEmpty());
  }
}

// By a training that loaded the model in another dtype.
TEST(AdapterVocabulary, RowsThatWereRoundedAreTheBaseModels) {
  const GoldenModel model("llama-f32-sharded");
  for (const auto& [rounding, stored] : {std::pair(DType::kF16, DType::kF16),
                                         {DType::kBF16, DType::kBF16},
                                         {DType::kF16, DType::kF32},
                                         {DType::kBF16, DType::kF32}}) {
    SCOPED_TRACE(testing::Message() << rounding << " in " << stored);
    const auto adapter =
        model.Open("added-r4", [rounding = rounding, stored = stored](Tensors& tensors) {
          for (const std::string& module : {kEmbedding, kHead}) {
            EditableTensors::Tensor& tensor = tensors.at(module + ".weight");
            tensor = Convert(Convert(tensor, rounding), stored);
          }
        });
    ASSERT_TRUE(adapter.ok()) << adapter.status();
    EXPECT_THAT(adapter->spec().token_rows.embedding, ElementsAre(171, 172, 173, 174));
    EXPECT_THAT(adapter->spec().token_rows.lm_head, ElementsAre(171, 172, 173, 174));
  }
  const auto other = model.Open("added-r4", [](Tensors& tensors) {
    EditableTensors::Tensor& tensor = tensors.at(kHead + ".weight");
    tensor = Convert(tensor, DType::kBF16);
    tensor.bytes[64 * 2 * 5] ^= std::byte{1};
  });
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(other->spec().token_rows.lm_head, ElementsAre(5, 171, 172, 173, 174));
}

TEST(AdapterVocabulary, ATiedMatrixIsBoth) {
  const GoldenModel model("llama3-rope-bf16");
  const auto adapter = model.Open("added-r4-bf16");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_THAT(adapter->spec().token_rows.embedding, ElementsAre(160, 161, 162));
  EXPECT_THAT(adapter->spec().token_rows.lm_head, ElementsAre(160, 161, 162));
  const auto once = model.Open("added-r4-bf16", [](Tensors& t) { t.erase(kHead + ".weight"); });
  ASSERT_TRUE(once.ok()) << once.status();
  EXPECT_THAT(once->spec().token_rows.lm_head, ElementsAre(160, 161, 162));
  // PEFT loads both into it, lm_head's last.
  const auto differ = model.Open("added-r4-bf16", [](Tensors& tensors) {
    tensors.at(kEmbedding + ".weight").bytes[0] ^= std::byte{1};
    tensors.at(kHead + ".weight").bytes[7 * 96 * 2] ^= std::byte{1};
  });
  ASSERT_TRUE(differ.ok()) << differ.status();
  EXPECT_THAT(differ->spec().token_rows.embedding, ElementsAre(7, 160, 161, 162));
  EXPECT_THAT(differ->spec().token_rows.lm_head, ElementsAre(7, 160, 161, 162));
}

TEST(AdapterVocabulary, MayLackTheLastTokens) {
  const GoldenModel model("qwen2-f32");
  const auto adapter = model.Open("removed-r4");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(adapter->spec().vocab_size, 147);
  EXPECT_FALSE(adapter->spec().changes_outer());
}

TEST(AdapterVocabulary, TrainedRowsComeBeforeThoseOfTheMatrixBeneath) {
  const GoldenModel model("gemma3-f32");
  const auto adapter = model.Open("added-tokens-r4");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(adapter->spec().vocab_size, 153);
  EXPECT_THAT(adapter->spec().token_rows.embedding, ElementsAre(3, 150, 152, 151));
  EXPECT_THAT(adapter->spec().token_rows.lm_head, ElementsAre(3, 150, 152, 151));
  const auto copy = [](Tensors& tensors) {
    tensors.at(kHead + ".token_adapter.trainable_tokens_delta").bytes[0] ^= std::byte{1};
  };
  EXPECT_THAT(Message(model.Open("added-tokens-r4", copy).status()),
              HasSubstr("differs from the embedding's, which is the same matrix"));
}

TEST(AdapterVocabulary, WhereItIsAdaptedAMatrixIsKeptWhole) {
  const GoldenModel model("granite-bf16");
  const auto adapter = model.Open("added-head-embedding-r4");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(adapter->lm_head()->b.shape, (Shape{150, 4}));
  EXPECT_EQ(adapter->lm_head_table()->shape[0], 150);
  EXPECT_EQ(adapter->embedding()->a.shape, (Shape{4, 150}));
  EXPECT_EQ(adapter->embedding_table()->shape[0], 150);
}

// Of the size of the base model's.
TEST(AdapterVocabulary, FewRowsThatDifferAreKeptAsSuch) {
  const GoldenModel model("llama-f32-sharded");
  const auto edit = [&](size_t num_rows, const char* suffix) {
    return [&model, num_rows, suffix](Tensors& tensors) {
      auto& head = tensors[kHead + suffix] = model.Of("lm_head.weight");
      for (size_t row = 0; row < num_rows; ++row) {
        head.bytes[(3 + 10 * row) * 64 * sizeof(float)] ^= std::byte{1};
      }
    };
  };
  const auto none = model.Open("all-r4", edit(0, ".weight"));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->spec().changes_outer());
  const auto few = model.Open("all-r4", edit(2, ".weight"));
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_THAT(few->spec().token_rows.lm_head, ElementsAre(3, 13));
  EXPECT_EQ(few->lm_head()->b.shape, (Shape{171, 2}));
  EXPECT_FALSE(few->spec().brings_embedding());
  const auto many = model.Open("all-r4", edit(17, ".weight"));
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(many->lm_head_table()->shape[0], 171) << "more than a quarter of a row's values";
  EXPECT_EQ(many->lm_head(), nullptr);
}

TEST(AdapterVocabulary, MustBeThatOfAllMatricesInTheFile) {
  const GoldenModel model("llama-f32-sharded");
  const auto resize = [](const std::string& name, int64_t size) {
    return [name, size](Tensors& tensors) {
      tensors[name] = EditableTensors::Tensor::Filled({size, 64}, 0.5F);
    };
  };
  for (const int64_t size : {174, 171}) {
    EXPECT_THAT(Message(model.Open("added-r4", resize(kHead + ".weight", size)).status()),
                AllOf(HasSubstr(StrCat("lm_head.weight has shape [", size, ", 64]")),
                      HasSubstr("embed_tokens.weight has [175, 64]: both are of one vocabulary")));
  }
  for (const std::string& module : {kHead, kEmbedding}) {
    const auto erase = [&](Tensors& tensors) { tensors.erase(module + ".weight"); };
    EXPECT_THAT(Message(model.Open("added-r4", erase).status()),
                AllOf(HasSubstr("a vocabulary of 175 tokens, other than the base model's 171"),
                      HasSubstr(StrCat("lacks ", module, ".weight"))));
  }
  const auto narrow = [](Tensors& tensors) {
    tensors[kEmbedding + ".weight"] = EditableTensors::Tensor::Filled({175, 63}, 0.5F);
  };
  EXPECT_THAT(Message(model.Open("added-r4", narrow).status()), HasSubstr("has shape [175, 63]"));
}

TEST(AdapterVocabulary, IsNearTheBaseModels) {
  GoldenModel model("llama-f32-sharded");
  model.base.vocab_size = 20'000;  // of shapes alone
  const auto found = [&](int64_t size) {
    const TensorMap tensors = {{kEmbedding + ".weight", {nullptr, DType::kF32, {size, 64}}}};
    return FindVocabSize(tensors, kTextNaming, model.base);
  };
  for (const int64_t size : {20'000, 20'000 + 16'384, 20'000 - 4'096}) {
    EXPECT_EQ(found(size).value_or(0), size);
  }
  for (const int64_t size : {20'000 + 16'385, 20'000 - 4'097, 0}) {
    EXPECT_THAT(Message(found(size).status()),
                HasSubstr("Was the adapter trained for another base model?"));
  }
}

// Lengths would be those of the resized matrix; and all tokens would have it.
TEST(AdapterVocabulary, IsRefusedWhereItWouldMeanSomethingElse) {
  const GoldenModel model("llama-f32-sharded");
  const auto resize = [&](const std::vector<std::string>& adapted) {
    return [&model, adapted](Tensors& tensors) {
      for (auto& [name, tensor] : tensors) {  // an output, or a column, more
        if (!name.starts_with(kHead + ".lora_B") && !name.starts_with(kHead + ".lora_magnitude"))
          continue;
        tensor.shape[0] += 1;
        tensor.bytes.resize(tensor.bytes.size() / 171 * 172);
      }
      for (const auto& [module, base] :
           {std::pair(kEmbedding, "model.embed_tokens.weight"), {kHead, "lm_head.weight"}}) {
        auto& tensor = tensors[module + adapted[module == kHead ? 1 : 0]] = model.Of(base);
        tensor.shape[0] += 1;
        tensor.bytes.resize(tensor.bytes.size() / 171 * 172);
      }
    };
  };
  EXPECT_THAT(
      Message(model.Open("dora-head-r3", resize({".weight", ".base_layer.weight"})).status()),
      HasSubstr("DoRA on lm_head of another vocabulary"));
  EXPECT_THAT(
      Message(model.Open("activated-head-r4", resize({".weight", ".base_layer.weight"})).status()),
      HasSubstr("\"alora_invocation_tokens\" together with"));
}

TEST(AdapterVocabulary, WhatElseAModuleConsistsOfIsLeftOut) {
  const GoldenModel model("llama-f32-sharded");
  for (const std::string& module : {kEmbedding, kHead}) {
    const auto differ = [&](Tensors& tensors) {
      ASSERT_TRUE(tensors.contains(module + ".original_module.weight")) << "as peft wrote it";
      tensors.at(module + ".original_module.weight").bytes[0] ^= std::byte{1};
    };
    EXPECT_TRUE(model.Open("added-saved-r3", differ).ok());
    const auto contradict = [&](Tensors& tensors) {
      tensors.at(module + ".modules_to_save.weight").bytes[0] ^= std::byte{1};
    };
    EXPECT_THAT(Message(model.Open("added-saved-r3", contradict).status()),
                HasSubstr("modules_to_save.weight differs from"));
  }
}

}  // namespace
}  // namespace aril
