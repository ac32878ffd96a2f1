#include "spec/int8_checkpoint.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Int8CheckpointTest : public ::testing::Test {
 protected:
  Int8CheckpointTest() {
    tensors_["a.weight"] = View(levels_, DType::kI8, {2, 3});
    tensors_["a.weight_scale"] = View(scales_, DType::kF32, {2, 1});
    tensors_["a.bias"] = View(scales_, DType::kF32, {2});
    tensors_["b.weight"] = View(scales_, DType::kF32, {1, 2});
  }
  template <typename T>
  static TensorView View(const std::vector<T>& values, DType dtype, Shape shape) {
    return {reinterpret_cast<const std::byte*>(values.data()), dtype, std::move(shape)};
  }
  std::string Error() {
    TensorMap tensors = tensors_;
    return Message(TakeInt8Matrices(&tensors).status());
  }

  const std::vector<int8_t> levels_ = {-128, 0, 1, 127, -1, 2};
  const std::vector<int8_t> zeros_ = {0, 0};
  const std::vector<float> scales_ = {0.5f, -0.25f};
  TensorMap tensors_;
};

TEST_F(Int8CheckpointTest, AreTakenWithTheirScales) {
  tensors_["a.weight_zero_point"] = View(zeros_, DType::kI8, {2, 1});
  const auto matrices = TakeInt8Matrices(&tensors_);
  ASSERT_TRUE(matrices.ok()) << matrices.status();
  ASSERT_EQ(matrices->size(), 1u);
  const Int8View& view = matrices->at("a.weight");
  std::vector<float> values(6);
  CopyAsFloat(view, 0, 6, values.data());
  EXPECT_THAT(values, ElementsAre(-64, 0, 0.5, -31.75, 0.25, -0.5));
  // Across rows, and of some.
  CopyAsFloat(view, 2, 2, values.data());
  EXPECT_EQ(values[0], 0.5f);
  EXPECT_EQ(values[1], -31.75f);
  BF16 rounded[3];
  CopyAsBF16(view.Rows(1, 1), 0, 3, rounded);
  EXPECT_EQ(ToFloat(rounded[0]), -31.75f);
  EXPECT_EQ(view.Rows(1, 1).shape(), (Shape{1, 3}));
  std::vector<std::string> left;
  for (const auto& [name, tensor] : tensors_) left.push_back(name);
  EXPECT_THAT(left, ElementsAre("a.bias", "b.weight"));
}

TEST_F(Int8CheckpointTest, ErrorsNameTheTensor) {
  const TensorMap good = tensors_;
  tensors_.erase("a.weight_scale");
  EXPECT_THAT(Error(), HasSubstr(R"("a.weight_scale" is missing beside "a.weight")"));
  tensors_ = good;
  tensors_["a.weight_scale"] = View(scales_, DType::kF32, {1, 2});
  EXPECT_THAT(Error(), HasSubstr(R"("a.weight_scale" has shape [1, 2], expected [2, 1])"));
  tensors_["a.weight_scale"] = View(levels_, DType::kI8, {2, 1});
  EXPECT_THAT(Error(), HasSubstr(R"("a.weight_scale" has dtype I8)"));
  for (const Shape& shape : {Shape{6}, Shape{0, 3}, Shape{2, 3, 1}}) {
    tensors_ = good;
    tensors_["a.weight"].shape = shape;
    EXPECT_THAT(Error(), HasSubstr(R"("a.weight" has shape)"));
  }
  tensors_ = good;
  tensors_["a.weight_zero_point"] = View(levels_, DType::kI8, {2, 1});
  EXPECT_THAT(Error(), HasSubstr(R"("a.weight_zero_point" has zero points that are not 0)"));
}

}  // namespace
}  // namespace aril
