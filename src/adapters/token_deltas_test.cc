#include "adapters/token_deltas.h"

#include <string>
#include <vector>

#include "adapters/adapter.h"
#include "adapters/test_support.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorView ViewOf(const std::vector<float>& values, Shape shape) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::kF32, std::move(shape)};
}

std::vector<float> Values(const TensorView& view) {
  std::vector<float> values(static_cast<size_t>(view.num_elements()));
  CopyAsFloat(view, 0, view.num_elements(), values.data());
  return values;
}

class TokenDeltasTest : public ::testing::Test {
 protected:
  const std::vector<float> values_ = {10, 20, 30, 40};
  const std::vector<OwnRow> rows_ = {{2, ViewOf(values_, {2, 2}).Rows(0, 1)},
                                     {1, ViewOf(values_, {2, 2}).Rows(1, 1)}};
  const std::vector<float> base_ = {0, 0, 1, 2, 3, 4};
  const WeightView matrix_ = ViewOf(base_, {3, 2});
};

TEST_F(TokenDeltasTest, OfTheEmbeddingTakeTokensIn) {
  const TokenDeltas deltas(rows_, &matrix_, 3, /*is_embedding=*/true);
  EXPECT_EQ(deltas.a().shape, (Shape{2, 3}));
  EXPECT_THAT(Values(deltas.a()), ElementsAre(0, 0, 1, 0, 1, 0));
  EXPECT_EQ(deltas.b().shape, (Shape{2, 2}));
  EXPECT_THAT(Values(deltas.b()), ElementsAre(7, 29, 16, 38)) << "a column for each token";
}

TEST_F(TokenDeltasTest, OfLmHeadGiveTokensOut) {
  const TokenDeltas deltas(rows_, &matrix_, 3, /*is_embedding=*/false);
  EXPECT_EQ(deltas.a().shape, (Shape{2, 2}));
  EXPECT_THAT(Values(deltas.a()), ElementsAre(7, 16, 29, 38));
  EXPECT_EQ(deltas.b().shape, (Shape{3, 2}));
  EXPECT_THAT(Values(deltas.b()), ElementsAre(0, 0, 0, 1, 1, 0));
  EXPECT_EQ(deltas.size_bytes(), 4 * 4 + 6 * 2);
}

TEST_F(TokenDeltasTest, BehindTheBaseModelsAreWhole) {
  const WeightView smaller = ViewOf(base_, {2, 2});
  const TokenDeltas deltas(rows_, &smaller, 3, /*is_embedding=*/false);
  EXPECT_THAT(Values(deltas.a()), ElementsAre(10, 20, 29, 38));
  EXPECT_THAT(Values(deltas.b()), ElementsAre(0, 0, 0, 1, 1, 0));
}

// Of goldens, which have the values.
constexpr char kRows[] = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta";

StatusOr<Adapter> Open(const std::string& model, const std::string& dir) {
  const auto base = LoadModelSpec(model);
  const auto checkpoint = Checkpoint::Open(model);
  CHECK(base.ok() && checkpoint.ok());
  const BaseWeights weights{&*checkpoint, kernels::AvailableIsas().back()};
  return Adapter::Open(dir, *base, kMaxLoraRank, Adapter::Values::kUnknown, weights);
}

TEST(AdapterTokenRows, AreFound) {
  const std::string tied = SourcePath("tests/goldens/gemma3-f32");
  const auto adapter = Open(tied, tied + "/adapters/tokens-r4");
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(adapter->embedding()->a.shape, (Shape{9, 150}));
  EXPECT_EQ(adapter->lm_head()->b.shape, (Shape{150, 9}));
  // One matrix, and one's rows: in and out they differ alike.
  EXPECT_EQ(Values(adapter->lm_head()->a)[1], Values(adapter->embedding()->b)[9]);
  EXPECT_GT(adapter->held_bytes(), adapter->file_bytes() + 4 * 9 * 150);

  const std::string untied = SourcePath("tests/goldens/granite-bf16");
  const auto both = Open(untied, untied + "/adapters/tokens-r3");
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->embedding()->a.shape, (Shape{7, 139}));
  EXPECT_EQ(both->lm_head()->b.shape, (Shape{139, 3}));
}

TEST(AdapterTokenRows, MustBeThereAndAsMany) {
  const std::string model = SourcePath("tests/goldens/gemma3-f32");
  const TestDir dir(model + "/adapters/tokens-r4");
  const auto edit = [&](auto change) {
    EditTensors(dir / "adapter_model.safetensors", change);
    return std::string(Message(Open(model, dir.path()).status()));
  };
  using Tensors = std::map<std::string, EditableTensors::Tensor>;
  EXPECT_THAT(edit([](Tensors& tensors) {
                tensors[kRows] = EditableTensors::Tensor::Filled({8, 48}, 1);
              }),
              HasSubstr("trainable_tokens_delta has shape [8, 48]"));
  EXPECT_THAT(edit([](Tensors& tensors) { tensors.erase(kRows); }),
              HasSubstr("trainable_tokens_delta is missing"));
}

TEST(AdapterTokenRows, AreNotThoseOfAnotherMatrix) {
  const std::string model = SourcePath("tests/goldens/gemma3-f32");
  const TestDir dir(model + "/adapters/tokens-r4");
  EditTensors(
      dir / "adapter_model.safetensors",
      [](std::map<std::string, EditableTensors::Tensor>& tensors) {
        tensors["base_model.model.lm_head.weight"] = EditableTensors::Tensor::Filled({150, 48}, 1);
      });
  EXPECT_THAT(Message(Open(model, dir.path()).status()),
              HasSubstr("more than 12 other rows that differ from the base model's"));
}

}  // namespace
}  // namespace aril
