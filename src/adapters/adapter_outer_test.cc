// What Adapter::Open takes and refuses of the modules outside of the layers, and of what peft
// writes beside an adapted lm_head.

#include <functional>
#include <map>
#include <string>

#include "adapters/adapter.h"
#include "adapters/test_support.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kModel = SourcePath("tests/goldens/llama-f32-sharded");
constexpr char kWeights[] = "adapter_model.safetensors";

using Tensors = std::map<std::string, EditableTensors::Tensor>;

ModelSpec Base() {
  auto spec = LoadModelSpec(kModel);
  CHECK(spec.ok());
  return *spec;
}

class OuterModules : public ::testing::Test {
 protected:
  StatusOr<Adapter> Open(const std::string& dir, const ModelSpec& base = Base()) {
    const BaseWeights weights{&*checkpoint_, kernels::AvailableIsas().back()};
    return Adapter::Open(dir, base, kMaxLoraRank, Adapter::Values::kUnknown, weights);
  }
  // Of a copy of a golden that `edit` has changed.
  StatusOr<Adapter> OpenEdited(const std::string& name, const std::function<void(Tensors&)>& edit,
                               const ModelSpec& base = Base()) {
    const TestDir dir(kModel + "/adapters/" + name);
    EditTensors(dir / kWeights, edit);
    return Open(dir.path(), base);
  }
  static void ChangeFirstValue(EditableTensors::Tensor& tensor) { tensor.bytes[0] ^= std::byte{1}; }

  const StatusOr<Checkpoint> checkpoint_ = Checkpoint::Open(kModel);
  static constexpr char kHead[] = "base_model.model.lm_head.base_layer.weight";
};

TEST_F(OuterModules, AreFound) {
  const auto adapter = Open(kModel + "/adapters/head-embedding-r6");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(adapter->lm_head()->b.shape, (Shape{171, 6}));
  EXPECT_EQ(adapter->embedding()->a.shape, (Shape{6, 171}));
  EXPECT_EQ(adapter->embedding_table(), nullptr) << "the base's own is left out";
  EXPECT_EQ(adapter->lm_head_table(), nullptr);
  EXPECT_TRUE(adapter->spec().can_be_weighted());
  const auto saved = Open(kModel + "/adapters/saved-r2");
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->lm_head(), nullptr);
  EXPECT_EQ(saved->embedding_table()->shape, (Shape{171, 64}));
  EXPECT_EQ(saved->lm_head_table()->shape, (Shape{171, 64}));
  const auto dora = Open(kModel + "/adapters/dora-head-r3");
  ASSERT_TRUE(dora.ok()) << dora.status();
  EXPECT_EQ(dora->lm_head()->gains.size(), 171u);
  EXPECT_EQ(dora->Find(1, Projection::kV)->gains.size(), 32u);
  const auto dora_embedding = Open(kModel + "/adapters/dora-embedding-r5");
  ASSERT_TRUE(dora_embedding.ok()) << dora_embedding.status();
  EXPECT_EQ(dora_embedding->embedding()->gains.size(), 64u) << "of the hidden values";
}

TEST_F(OuterModules, DoraOnAMatrixOfTheAdaptersOwnIsRefused) {
  const auto add_embedding = [](Tensors& tensors) {
    constexpr const char* kEmbedding = "base_model.model.model.embed_tokens.base_layer.weight";
    tensors[kEmbedding] = EditableTensors::Tensor::Filled({171, 64}, 0.5f);
  };
  EXPECT_THAT(Message(OpenEdited("dora-embedding-r5", add_embedding).status()),
              HasSubstr("DoRA on an embedding of the adapter's own is not supported"));
}

TEST_F(OuterModules, AnActivatedLoraHasNoMatrixOfItsOwn) {
  for (const char* module : {"lm_head", "model.embed_tokens"}) {
    for (const bool is_changed : {false, true}) {
      const auto adapter = OpenEdited("activated-head-r4", [&](Tensors& tensors) {
        const TensorView& base = checkpoint_->tensors().at(StrCat(module, ".weight"));
        auto& tensor = tensors[StrCat("base_model.model.", module, ".weight")];
        tensor = {base.dtype, base.shape, {base.data, base.data + base.size_bytes()}};
        if (is_changed) ChangeFirstValue(tensor);
      });
      EXPECT_EQ(adapter.ok(), !is_changed) << adapter.status();
      if (!is_changed) continue;
      EXPECT_THAT(Message(adapter.status()), HasSubstr("of the adapter's own"));
    }
  }
}

TEST_F(OuterModules, AMatrixThatTrainingChangedIsTheAdaptersOwn) {
  const auto change = [](Tensors& tensors) { ChangeFirstValue(tensors.at(kHead)); };
  const auto adapter = OpenEdited("head-embedding-r6", change);
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_NE(adapter->lm_head_table(), nullptr);
  EXPECT_NE(adapter->lm_head(), nullptr) << "it adds to that";
  EXPECT_FALSE(adapter->spec().can_be_weighted());
}

// PEFT writes a copy beside an adapted embedding, and of a tied model's too. Whether it is one,
// only who has the base's weights can say.
TEST(Adapter, OfATiedMatrixWhatTheFileHasIsOfBoth) {
  const std::string model = SourcePath("tests/goldens/qwen2-f32");
  const auto base = LoadModelSpec(model);
  const auto checkpoint = Checkpoint::Open(model);
  ASSERT_TRUE(base.ok() && base->tie_word_embeddings && checkpoint.ok());
  const BaseWeights weights{&*checkpoint, kernels::AvailableIsas().back()};
  const auto own = checkpoint->Get("model.embed_tokens.weight", {150, 48});
  ASSERT_TRUE(own.ok());
  const EditableTensors::Tensor copy{
      own->dtype, own->shape, {own->data, own->data + own->size_bytes()}};
  EditableTensors::Tensor edited = copy;
  edited.bytes[0] ^= std::byte{1};
  for (const auto& [adapter, name] :
       {std::pair("embedding-r4", "base_model.model.model.embed_tokens.base_layer.weight"),
        {"embedding-r4", "base_model.model.lm_head.weight"},
        {"qv-r1", "base_model.model.model.embed_tokens.weight"}}) {
    SCOPED_TRACE(name);
    const TestDir dir(model + "/adapters/" + adapter);
    for (const bool is_copy : {true, false}) {
      EditTensors(dir / kWeights,
                  [&, name = name](Tensors& tensors) { tensors[name] = is_copy ? copy : edited; });
      const auto looked_at = Adapter::OpenWithoutBase(dir.path(), *base, kMaxLoraRank);
      ASSERT_TRUE(looked_at.ok()) << looked_at.status();
      EXPECT_EQ(looked_at->embedding_table(), nullptr);
      EXPECT_EQ(looked_at->lm_head_table(), nullptr);
      const auto opened =
          Adapter::Open(dir.path(), *base, kMaxLoraRank, Adapter::Values::kUnknown, weights);
      ASSERT_TRUE(opened.ok()) << opened.status();
      EXPECT_EQ(opened->spec().brings_embedding(), !is_copy);
      EXPECT_EQ(opened->spec().brings_lm_head(), !is_copy) << "they are one matrix";
    }
    EditTensors(dir / kWeights, [&, name = name](Tensors& tensors) {
      tensors[name] = EditableTensors::Tensor::Filled({150, 47}, 1);
    });
    EXPECT_FALSE(Adapter::OpenWithoutBase(dir.path(), *base, kMaxLoraRank).ok()) << "its shape";
  }
}

TEST_F(OuterModules, APartThatTheConfigAsksForMustBeThere) {
  for (const auto& [adapter, tensor] :
       {std::pair("saved-r2", "base_model.model.lm_head.weight"),
        {"dora-head-r3", "base_model.model.lm_head.lora_magnitude_vector"},
        {"dora-embedding-r5", "base_model.model.model.embed_tokens.lora_magnitude_vector"},
        {"head-embedding-r6", "base_model.model.model.embed_tokens.lora_embedding_B"}}) {
    const auto erase = [&tensor = tensor](Tensors& tensors) { tensors.erase(tensor); };
    EXPECT_THAT(Message(OpenEdited(adapter, erase).status()),
                AllOf(HasSubstr(tensor), HasSubstr("is missing")));
  }
}

}  // namespace
}  // namespace aril
