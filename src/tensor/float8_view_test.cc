#include "tensor/float8_view.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/weight_view.h"

namespace aril {
namespace {

// From the definition of E4M3.
float ByDefinition(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if ((bits & 0x7F) == 0x7F) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(Float8View, EveryLevelReadsAsItsDefinition) {
  float largest = 0;
  for (int bits = 0; bits < 256; ++bits) {
    const float value = ToFloat(F8E4M3{static_cast<uint8_t>(bits)});
    const float expected = ByDefinition(static_cast<uint8_t>(bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      continue;
    }
    EXPECT_EQ(value, expected) << bits;
    EXPECT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    largest = std::max(largest, value);
  }
  EXPECT_EQ(largest, kMaxF8E4M3);
}

// 1, 2, 3, 0.5 and -1.
constexpr uint8_t kOne = 0x38, kTwo = 0x40, kThree = 0x44, kHalf = 0x30, kMinusOne = 0xB8;

class Float8ViewTest : public ::testing::Test {
 protected:
  std::vector<float> Values(const Float8View& view, int64_t first, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    CopyAsFloat(view, first, count, values.data());
    return values;
  }

  const std::vector<uint8_t> levels_ = {kOne, kTwo, kThree, kHalf, kMinusOne,  //
                                        kTwo, kTwo, kTwo,   kTwo,  kTwo,       //
                                        kOne, kOne, kOne,   kOne,  kOne};
  const std::vector<float> scales_ = {10, 100, 1000, 0.25f, 0.5f, 2};
  // Blocks of 2 outputs by 2 inputs, of which the last ones are smaller.
  const Float8View view_{
      .levels = {reinterpret_cast<const std::byte*>(levels_.data()), DType::kF8E4M3, {3, 5}},
      .scales = {reinterpret_cast<const std::byte*>(scales_.data()), DType::kF32, {2, 3}},
      .block_rows = 2,
      .block_cols = 2};
};

TEST_F(Float8ViewTest, BlocksHaveScales) {
  EXPECT_EQ(view_.blocks(), 3);
  EXPECT_EQ(Values(view_, 0, 15), (std::vector<float>{10, 20, 300, 50, -1000,  //
                                                      20, 20, 200, 200, 2000,  //
                                                      0.25f, 0.25f, 0.5f, 0.5f, 2}));
  // Across rows, and of some.
  EXPECT_EQ(Values(view_, 3, 4), (std::vector<float>{50, -1000, 20, 20}));
  BF16 rounded[2];
  CopyAsBF16(view_, 4, 2, rounded);
  EXPECT_EQ(ToFloat(rounded[0]), -1000);
  EXPECT_EQ(ToFloat(rounded[1]), 20);
}

TEST_F(Float8ViewTest, RowsKeepTheScalesOfTheirBlock) {
  const Float8View rows = view_.Rows(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 5}));
  EXPECT_EQ(Values(rows, 0, 10),
            (std::vector<float>{20, 20, 200, 200, 2000, 0.25f, 0.25f, 0.5f, 0.5f, 2}));
  EXPECT_EQ(Values(rows.Rows(1, 1), 0, 1), std::vector<float>{0.25f});
}

TEST_F(Float8ViewTest, OnlyNanIsNotFinite) {
  std::vector<uint8_t> levels;
  for (int bits = 0; bits < 256; ++bits) levels.push_back(static_cast<uint8_t>(bits));
  for (int bits = 0; bits < 256; ++bits) {
    const TensorView one{
        reinterpret_cast<const std::byte*>(levels.data() + bits), DType::kF8E4M3, {1}};
    EXPECT_EQ(AllFinite(one), (bits & 0x7F) != 0x7F) << bits;
  }
}

}  // namespace
}  // namespace aril
