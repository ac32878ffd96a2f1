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
  tensors_["a.input_scale"] = View(scales_, DType::kF32, {1});
  EXPECT_THAT(Values(kNoBlocks), ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3));
  std::vector<std::string> left;
  for (const auto& [name, tensor] : tensors_) left.push_back(name);
  EXPECT_THAT(left, ElementsAre("a.bias", "b.weight"));
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
              HasSubstr(R"("a.weight_scale" has shape [2, 2], expected [3, 1] or [1])"));
  tensors_.erase("a.weight_scale");
  EXPECT_THAT(Error(kNoBlocks), HasSubstr(R"("a.weight_scale" is missing beside "a.weight")"));
  tensors_["a.weight_scale"] = View(levels_, DType::kU8, {3, 1});
  EXPECT_THAT(Error(kNoBlocks), HasSubstr(R"("a.weight_scale" has dtype U8)"));
  tensors_ = good;
  tensors_["a.input_scale"] = View(levels_, DType::kU8, {1});
  EXPECT_THAT(Error(kNoBlocks), HasSubstr(R"("a.input_scale" has dtype U8)"));
  for (const Shape& shape : {Shape{9}, Shape{0, 3}, Shape{3, 3, 1}}) {
    tensors_ = good;
    tensors_["a.weight"].shape = shape;
    EXPECT_THAT(Error(kNoBlocks), HasSubstr(R"("a.weight" has shape)"));
  }
}

}  // namespace
}  // namespace aril
