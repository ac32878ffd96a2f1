#include "tensor/codebook4_view.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/weight_view.h"

namespace aril {
namespace {

template <typename T>
TensorView View(const std::vector<T>& values, DType dtype) {
  return {reinterpret_cast<const std::byte*>(values.data()), dtype, {std::ssize(values)}};
}

class Codebook4ViewTest : public ::testing::Test {
 protected:
  Codebook4ViewTest() {
    for (size_t i = 0; i < view_.codebook.size(); ++i) view_.codebook[i] = static_cast<float>(i);
  }
  static std::vector<float> Values(const Codebook4View& view, int64_t first, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    CopyAsFloat(view, first, count, values.data());
    return values;
  }

  // Of 3 by 5: the last byte has one code only, and blocks of 4 go on in the next row.
  const std::vector<uint8_t> codes_ = {0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xE0};
  const std::vector<float> scales_ = {1, 10, 100, 1000};
  Codebook4View view_{.codes = View(codes_, DType::kU8),
                      .scales = View(scales_, DType::kF32),
                      .block_size = 4,
                      .rows = 3,
                      .cols = 5};
};

TEST_F(Codebook4ViewTest, BlocksGoOnInTheNextRow) {
  EXPECT_EQ(view_.shape(), (Shape{3, 5}));
  EXPECT_EQ(view_.size_bytes(), 8u);
  EXPECT_EQ(Values(view_, 0, 15), (std::vector<float>{0, 1, 2, 3, 40,        //
                                                      50, 60, 70, 800, 900,  //
                                                      1000, 1100, 12000, 13000, 14000}));
  // Across rows, and of some.
  EXPECT_EQ(Values(view_, 3, 4), (std::vector<float>{3, 40, 50, 60}));
  BF16 rounded[2];
  CopyAsBF16(view_, 12, 2, rounded);
  EXPECT_EQ(ToFloat(rounded[0]), ToFloat(ToBF16(12000)));
  EXPECT_EQ(ToFloat(rounded[1]), ToFloat(ToBF16(13000)));
}

// As gpt-oss has its experts' matrices: rows in turns, low halves first, exponents as scales.
TEST_F(Codebook4ViewTest, RowsMayLieInTurnsAndScalesBeExponents) {
  const std::vector<uint8_t> codes = {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE};
  const std::vector<uint8_t> exponents = {127, 128, 126, 0};  // 1, 2, 1/2, 2^-127
  view_.codes = View(codes, DType::kU8);
  view_.low_half_first = true;
  view_.scales = View(exponents, DType::kU8);
  view_.rows = 2;
  view_.cols = 4;
  view_.row_step = 2;
  EXPECT_EQ(Values(view_, 0, 8), (std::vector<float>{0, 1, 2, 3, 4, 4.5f, 5, 5.5f}));
  EXPECT_EQ(Values(view_.Rows(1, 1), 1, 2), (std::vector<float>{4.5f, 5}));
  view_.first_row = 1;
  EXPECT_EQ(Values(view_, 0, 4), (std::vector<float>{8, 10, 12, 14}));
  EXPECT_EQ(Values(view_, 4, 1), std::vector<float>{12 * 0x1p-127f});
  const std::vector<uint8_t> none = {255, 255, 255, 255};  // of E8M0, no number
  view_.scales = View(none, DType::kU8);
  EXPECT_TRUE(std::isnan(Values(view_, 0, 1).front()));
}

TEST_F(Codebook4ViewTest, RowsAreWhereTheyWere) {
  const Codebook4View rows = view_.Rows(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 5}));
  EXPECT_EQ(Values(rows, 0, 10), Values(view_, 5, 10));
  EXPECT_EQ(Values(rows.Rows(1, 1), 1, 2), Values(view_, 11, 2));
  uint8_t codes[3];
  rows.CopyCodes(1, 2, 3, codes);
  EXPECT_EQ(std::vector<uint8_t>(codes, codes + 3), (std::vector<uint8_t>{12, 13, 14}));
}

TEST_F(Codebook4ViewTest, ScalesMayBeBytesThatHaveScales) {
  const std::vector<uint8_t> bytes = {0, 255, 7, 0};
  std::vector<float> codebook(256, 0);
  codebook[0] = -1, codebook[7] = 0.5f, codebook[255] = 1;
  const std::vector<float> scales = {2, 4};
  view_.scales = View(bytes, DType::kU8);
  view_.nested = {.codebook = View(codebook, DType::kF32),
                  .scales = View(scales, DType::kF32),
                  .block_size = 2,
                  .offset = 3};
  const std::vector<float> expected = {1, 5, 5, -1};
  for (int64_t block = 0; block < 4; ++block) {
    EXPECT_EQ(view_.Scale(block), expected[static_cast<size_t>(block)]) << block;
  }
  EXPECT_EQ(Values(view_, 3, 2), (std::vector<float>{3, 20}));
}

TEST_F(Codebook4ViewTest, IsAMatrixOfACheckpoint) {
  const WeightView matrix = view_;
  EXPECT_TRUE(IsQuantized(matrix));
  EXPECT_EQ(ShapeOf(matrix), (Shape{3, 5}));
  EXPECT_EQ(SizeBytes(matrix), 8u);
  float value;
  CopyAsFloat(RowsOf(matrix, 2, 1), 0, 1, &value);
  EXPECT_EQ(value, 1000);
}

}  // namespace
}  // namespace aril
