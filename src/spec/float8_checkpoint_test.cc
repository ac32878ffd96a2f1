#include "spec/float8_checkpoint.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Float8Spec kNoBlocks;
constexpr Float8Spec kBlocks = {.block = Float8Spec::Block{.outputs = 2, .inputs = 2}};

class Float8CheckpointTest : public ::testing::Test {
 protected:
  Float8CheckpointTest() {
    tensors_["a.weight"] = View(levels_, DType::kF8E4M3, {3, 3});
    tensors_["a.weight_scale"] = View(scales_, DType::kF32, {3, 1});
    tensors_["a.bias"] = View(scales_, DType::kF32, {3});
    tensors_["b.weight"] = View(scales_, DType::kF32, {1, 2});
  }
  template <typename T>
  static TensorView View(const std::vector<T>& values, DType dtype, Shape shape) {
    return {reinterpret_cast<const std::byte*>(values.data()), dtype, std::move(shape)};
  }
  // All elements of "a.weight".
  std::vector<float> Values(const Float8Spec& spec) {
    const auto matrices = TakeFloat8Matrices(spec, &tensors_);
    EXPECT_TRUE(matrices.ok()) << matrices.status();
    if (!matrices.ok()) return {};
    EXPECT_EQ(matrices->size(), 1u);
    std::vector<float> values(9);
    CopyAsFloat(matrices->at("a.weight"), 0, 9, values.data());
    return values;
  }
  std::string Error(const Float8Spec& spec) {
    TensorMap tensors = tensors_;
    return Message(TakeFloat8Matrices(spec, &tensors).status());
  }

  const std::vector<uint8_t> levels_ = std::vector<uint8_t>(9, 0x38);  // ones
  const std::vector<float> scales_ = {1, 2, 3, 4};
  TensorMap tensors_;
};

TEST_F(Float8CheckpointTest, ScalesAreOfOutputs) {
  EXPECT_THAT(Values(kNoBlocks), ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3));
  std::vector<std::string> left;
  for (const auto& [name, tensor] : tensors_) left.push_back(name);
  EXPECT_THAT(left, ElementsAre("a.bias", "b.weight"));
}

TEST_F(Float8CheckpointTest, ScalesMayBeOf16BitsAndAVector) {
  const std::vector<BF16> scales = {ToBF16(1), ToBF16(2), ToBF16(3)};
  tensors_["a.weight_scale"] = View(scales, DType::kBF16, {3});
  EXPECT_THAT(Values(kNoBlocks), ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3));
}

TEST_F(Float8CheckpointTest, ScalesOfInputsAndOfKvAreForgotten) {
  for (const char* name :
       {"a.input_scale", "a.activation_scale", "a.act_scale", "self_attn.k_scale",
        "self_attn.v_scale", "self_attn.q_scale", "self_attn.kv_scale",
        "self_attn.k_proj.output_scale", "self_attn.v_proj.output_scale"}) {
    tensors_[name] = View(scales_, DType::kF32, {1});
  }
  tensors_["a.other_scale"] = View(scales_, DType::kF32, {1});
  EXPECT_EQ(Values(kNoBlocks).size(), 9u);
  std::vector<std::string> left;
  for (const auto& [name, tensor] : tensors_) left.push_back(name);
  EXPECT_THAT(left, ElementsAre("a.bias", "a.other_scale", "b.weight"));
}

// As transformers has it without "weight_block_size".
TEST_F(Float8CheckpointTest, BlocksAreOf128WhereNothingElseIsSaid) {
  const std::vector<uint8_t> levels(130, 0x38);
  tensors_["a.weight"] = View(levels, DType::kF8E4M3, {1, 130});
  tensors_["a.weight_scale"] = View(scales_, DType::kF32, {1, 2});
  const auto matrices = TakeFloat8Matrices(kNoBlocks, &tensors_);
  ASSERT_TRUE(matrices.ok()) << matrices.status();
  float values[2];
  CopyAsFloat(matrices->at("a.weight"), 127, 2, values);
  EXPECT_THAT(values, ElementsAre(1, 2));
}

// Who loads the weights says that it is not of the architecture.
TEST_F(Float8CheckpointTest, OfTwoKindsOfScalesOneIsLeft) {
  tensors_["a.weight_scale_inv"] = View(scales_, DType::kF32, {1});
  EXPECT_THAT(Values(kNoBlocks), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_TRUE(tensors_.contains("a.weight_scale"));
}

TEST_F(Float8CheckpointTest, ScalesAreOfAll) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}}) {
    tensors_["a.weight"] = View(levels_, DType::kF8E4M3, {3, 3});
    tensors_["a.weight_scale"] = View(scales_, DType::kF32, shape);
    EXPECT_THAT(Values(kNoBlocks), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1));
  }
}

TEST_F(Float8CheckpointTest, ScalesAreOfBlocks) {
  tensors_.erase("a.weight_scale");
  tensors_["a.weight_scale_inv"] = View(scales_, DType::kF32, {2, 2});
  EXPECT_THAT(Values(kBlocks), ElementsAre(1, 1, 2, 1, 1, 2, 3, 3, 4));
}

TEST_F(Float8CheckpointTest, ErrorsNameTheTensor) {
  const TensorMap good = tensors_;
  EXPECT_THAT(Error(kBlocks), HasSubstr(R"("a.weight_scale" has shape [3, 1], expected [2, 2] as )"
                                        R"(of "a.weight" in blocks of 2 by 2)"));
  tensors_["a.weight_scale"].shape = {2, 2};
  EXPECT_THAT(Error(kNoBlocks),
              HasSubstr(R"("a.weight_scale" has shape [2, 2], expected [3, 1] or [1], as of )"
                        R"("a.weight", or quantization_config to say the size of blocks)"));
  tensors_.erase("a.weight_scale");
  EXPECT_THAT(Error(kNoBlocks),
              HasSubstr(R"(neither tensor "a.weight_scale" nor "a.weight_scale_inv" )"
                        R"(is there beside "a.weight")"));
  tensors_["a.weight_scale"] = View(levels_, DType::kU8, {3, 1});
  EXPECT_THAT(Error(kNoBlocks), HasSubstr(R"("a.weight_scale" has dtype U8)"));
  tensors_ = good;
  tensors_["a.input_scale"] = View(levels_, DType::kU8, {1});
  EXPECT_THAT(Error(kNoBlocks), HasSubstr(R"("a.input_scale" has dtype U8)"));
  tensors_ = good;
  tensors_["a.weight"].dtype = DType::kF8E5M2;
  EXPECT_THAT(Error(kNoBlocks), HasSubstr(R"("a.weight" has dtype F8_E5M2, expected F8_E4M3)"));
  for (const Shape& shape : {Shape{9}, Shape{0, 3}, Shape{3, 3, 1}}) {
    tensors_ = good;
    tensors_["a.weight"].shape = shape;
    EXPECT_THAT(Error(kNoBlocks), HasSubstr(R"("a.weight" has shape)"));
  }
}

}  // namespace
}  // namespace aril
