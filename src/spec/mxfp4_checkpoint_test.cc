#include "spec/mxfp4_checkpoint.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

// Two experts of 32 inputs; 2 outputs of gate and of up, in turns.
class Mxfp4CheckpointTest : public ::testing::Test {
 protected:
  Mxfp4CheckpointTest() {
    spec_.num_layers = 1;
    spec_.hidden_size = 32;
    spec_.intermediate_size = 32;
    spec_.experts = ExpertsSpec{.count = 2, .per_token = 1, .is_gpt_oss = true};
    // The code of each element is its row, the exponent of each block its expert.
    for (int expert = 0; expert < 2; ++expert) {
      for (int row = 0; row < 64; ++row) {
        const auto code = static_cast<uint8_t>(row % 16);
        blocks_.insert(blocks_.end(), 16, static_cast<uint8_t>(code << 4 | code));
        scales_.push_back(static_cast<uint8_t>(127 + expert));
      }
    }
    Set("gate_up_proj_blocks", blocks_, {2, 64, 1, 16});
    Set("gate_up_proj_scales", scales_, {2, 64, 1});
    Set("down_proj_blocks", blocks_, {2, 32, 1, 16});
    Set("down_proj_scales", scales_, {2, 32, 1});
  }

  void Set(const std::string& name, const std::vector<uint8_t>& bytes, Shape shape,
           DType dtype = DType::kU8) {
    tensors_["model.layers.0.mlp.experts." + name] = {
        reinterpret_cast<const std::byte*>(bytes.data()), dtype, std::move(shape)};
  }
  std::string Error() {
    TensorMap tensors = tensors_;
    return Message(TakeMxfp4Matrices(spec_, &tensors).status());
  }

  ModelSpec spec_;
  std::vector<uint8_t> blocks_, scales_;
  TensorMap tensors_;
};

TEST_F(Mxfp4CheckpointTest, EachExpertHasItsMatrices) {
  const auto matrices = TakeMxfp4Matrices(spec_, &tensors_);
  ASSERT_TRUE(matrices.ok()) << matrices.status();
  EXPECT_TRUE(tensors_.empty());
  EXPECT_EQ(matrices->size(), 6u);
  const auto first_of_row = [&](const std::string& name, int64_t row) {
    const Codebook4View& view = matrices->at("model.layers.0.mlp.experts." + name + ".weight");
    EXPECT_EQ(view.shape(), (Shape{32, 32}));
    float value;
    CopyAsFloat(view, row * view.cols, 1, &value);
    return value;
  };
  EXPECT_EQ(first_of_row("0.gate_proj", 0), 0);
  EXPECT_EQ(first_of_row("0.gate_proj", 3), 4);     // row 6
  EXPECT_EQ(first_of_row("0.up_proj", 3), 6);       // row 7
  EXPECT_EQ(first_of_row("1.gate_proj", 3), 8);     // twice as large
  EXPECT_EQ(first_of_row("1.up_proj", 7), -12);     // row 15
  EXPECT_EQ(first_of_row("0.down_proj", 3), 1.5f);  // not in turns
  EXPECT_EQ(first_of_row("0.down_proj", 9), -0.5f);
}

TEST_F(Mxfp4CheckpointTest, LayersMayBeAsTheyAre) {
  spec_.num_layers = 2;
  EXPECT_EQ(Error(), "");
  tensors_.clear();
  const auto matrices = TakeMxfp4Matrices(spec_, &tensors_);
  ASSERT_TRUE(matrices.ok());
  EXPECT_TRUE(matrices->empty());
}

TEST_F(Mxfp4CheckpointTest, WhatDoesNotFitIsNamed) {
  Set("down_proj_scales", scales_, {2, 16, 2});
  EXPECT_THAT(Error(), HasSubstr("down_proj_scales\" has shape [2, 16, 2], expected [2, 32, 1]"));
  Set("down_proj_scales", scales_, {2, 32, 1}, DType::kI8);
  EXPECT_THAT(Error(), HasSubstr("down_proj_scales\" has dtype I8, expected U8"));
  tensors_.erase("model.layers.0.mlp.experts.down_proj_scales");
  EXPECT_THAT(Error(), HasSubstr("down_proj_scales\" is missing beside"));
  Set("gate_up_proj_blocks", blocks_, {2, 64, 16, 1});
  EXPECT_THAT(Error(), HasSubstr("gate_up_proj_blocks\" has shape"));
  spec_.hidden_size = 48;
  EXPECT_THAT(Error(), HasSubstr("has 48 inputs, which are not whole blocks of 32"));
}

}  // namespace
}  // namespace aril
