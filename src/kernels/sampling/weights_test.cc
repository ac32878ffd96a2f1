#include "kernels/sampling/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace aril::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ExpNonPositive, StaysWithinTheStatedError) {
  double worst = 0;
  for (int i = 0; i <= 1'000'000; ++i) {
    const float x = -86.99f * static_cast<float>(i) / 1e6f;
    const double expected = std::exp(double{x});
    worst = std::max(worst, std::abs(ExpNonPositive(x) - expected) / expected);
  }
  EXPECT_LT(worst, 3e-7);
}

TEST(ExpNonPositive, IsExactAtTheEnds) {
  EXPECT_EQ(ExpNonPositive(0.0f), 1.0f);
  EXPECT_EQ(ExpNonPositive(-0.0f), 1.0f);
  EXPECT_GT(ExpNonPositive(-86.9f), 0.0f);
  EXPECT_EQ(ExpNonPositive(-87.0f), 0.0f);
  EXPECT_EQ(ExpNonPositive(-1e30f), 0.0f);
  EXPECT_EQ(ExpNonPositive(-kInfinity), 0.0f);
}

TEST(Weight, DoesNotOverflow) {
  EXPECT_EQ(Weight(3e38f, 3e38f, 1e-5f), 1.0f);
  EXPECT_EQ(Weight(-3e38f, 3e38f, 1.0f), 0.0f);
  EXPECT_EQ(Weight(1.0f, 2.0f, 1e-45f), 0.0f);
  EXPECT_EQ(Weight(2.0f, 2.0f, 1e-45f), 1.0f);
}

// Sizes around the lanes and blocks of the sum.
TEST(WeightTable, FindsEveryTokenAtItsCumulativeWeight) {
  WeightTable table;
  for (const size_t size : {1, 7, 8, 9, 511, 512, 513, 1024, 1500}) {
    table.Assign(std::vector<float>(size, 2.5f), 2.5f, 0.7f);  // all weights 1: sums are exact
    EXPECT_EQ(table.total(), static_cast<double>(size));
    for (size_t i = 0; i < size; ++i) {
      const auto cumulative = static_cast<double>(i);
      ASSERT_EQ(table.Find(cumulative), static_cast<int32_t>(i)) << "of " << size;
      ASSERT_EQ(table.Find(cumulative + 0.999), static_cast<int32_t>(i)) << "of " << size;
    }
  }
}

TEST(WeightTable, SumsWhatIsLargeEnough) {
  WeightTable table;
  std::vector<float> logits(1000, -kInfinity);
  logits[3] = logits[996] = 0;
  logits[500] = -1;
  table.Assign(logits, 0, 1);
  EXPECT_EQ(table.SumAtLeast(1.0f), 2.0);
  EXPECT_NEAR(table.SumAtLeast(0.3f), 2 + std::exp(-1.0), 1e-6);
  EXPECT_EQ(table.SumAtLeast(0.0f), table.total());
}

TEST(WeightTable, NeverFindsATokenWithoutWeight) {
  WeightTable table;
  std::vector<float> logits(2000, -kInfinity);
  logits[700] = logits[1300] = 1.0f;
  table.Assign(logits, 1.0f, 1.0f);
  EXPECT_EQ(table.Find(0.0), 700);
  EXPECT_EQ(table.Find(std::nextafter(1.0, 0.0)), 700);
  EXPECT_EQ(table.Find(1.0), 1300);
  EXPECT_EQ(table.Find(std::nextafter(2.0, 0.0)), 1300);
}

}  // namespace
}  // namespace aril::kernels
