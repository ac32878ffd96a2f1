#include "kernels/gemm/int4_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/gemm/int4_test_support.h"

namespace aril::kernels {
namespace {

constexpr uint64_t kSeed = 5;

double SquaredError(const std::vector<float>& row, const Int4Row& rounded, size_t first,
                    size_t count) {
  double sum = 0;
  for (size_t k = first; k < first + count; ++k) sum += std::pow(row[k] - rounded.Value(k), 2);
  return sum;
}

// The same group by its range alone, with the better of two zero points.
double SquaredErrorOfTheRange(const std::vector<float>& row, size_t first, size_t count) {
  double low = 0, high = 0;
  for (size_t k = first; k < first + count; ++k) {
    low = std::min(low, double{row[k]});
    high = std::max(high, double{row[k]});
  }
  const double factor = (high - low) / 15;
  double best = std::numeric_limits<double>::infinity();
  for (const double zero : {std::floor(-low / factor), std::ceil(-low / factor)}) {
    double sum = 0;
    for (size_t k = first; k < first + count; ++k) {
      const double q = std::clamp(std::round(row[k] / factor + zero), 0.0, 15.0);
      sum += std::pow(row[k] - factor * (q - zero), 2);
    }
    best = std::min(best, sum);
  }
  return best;
}

TEST(Int4Weights, AreAtLeastAsCloseAsByTheRangeOfAGroup) {
  std::mt19937_64 random(kSeed);
  std::student_t_distribution<float> values(4.0f);  // with outliers, as models have them
  double all = 0, of_range = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<float> row(100);
    for (float& value : row) value = values(random) * 0.02f;
    const Int4Row rounded = Int4Row(row);
    for (const auto& [first, count] :
         {std::pair<size_t, size_t>{0, 32}, {32, 32}, {64, 32}, {96, 4}}) {
      const double error = SquaredError(row, rounded, first, count);
      const double by_range = SquaredErrorOfTheRange(row, first, count);
      // An FP16's factor is off by 2^-11 at most: by 15 steps of it at the ends, 32 times.
      const double step =
          double{rounded.scale} * ToFloat(rounded.groups[first / kInt4GroupSize].factor);
      EXPECT_LE(error, by_range * 1.02 + 32 * std::pow(step * 15 / 2048, 2)) << "seed " << kSeed;
      all += error;
      of_range += by_range;
    }
  }
  EXPECT_LT(all, 0.97 * of_range);
}

TEST(Int4Weights, AreExactWhereFourBitsAre) {
  // Whole steps from −5 to 10.
  std::vector<float> row;
  for (int k = 0; k < 32; ++k) row.push_back(static_cast<float>(k % 16 - 5) * 0.25f);
  const Int4Row rounded = Int4Row(row);
  EXPECT_EQ(rounded.groups[0].zero, 5);
  for (size_t k = 0; k < row.size(); ++k) EXPECT_EQ(rounded.Value(k), row[k]) << k;
}

TEST(Int4Weights, AGroupOfOneSignKeepsZero) {
  const Int4Row positive = Int4Row(std::vector<float>{3, 1.4f, 0.2f});
  EXPECT_EQ(positive.groups[0].zero, 0);
  EXPECT_NEAR(positive.Value(0), 3, 0.01);
  const Int4Row negative = Int4Row(std::vector<float>{-3, -1.4f, -0.2f});
  EXPECT_EQ(negative.groups[0].zero, 15);
  EXPECT_NEAR(negative.Value(0), -3, 0.01);
}

TEST(Int4Weights, ZerosAreZero) {
  for (const std::vector<float>& row :
       {std::vector<float>(40, 0.0f), std::vector<float>(1, -0.0f)}) {
    const Int4Row rounded = Int4Row(row);
    for (size_t k = 0; k < row.size(); ++k) EXPECT_EQ(rounded.Value(k), 0);
  }
  // A group of zeros beside another; and one that FP16 holds nothing of beside the first.
  std::vector<float> row(96, 0.0f);
  row[0] = 1;
  row[64] = 1e-12f;
  const Int4Row rounded = Int4Row(row);
  for (size_t k = 1; k < row.size(); ++k) EXPECT_NEAR(rounded.Value(k), 0, 1e-12) << k;
}

// Of a row whose groups lie far apart, each is rounded as well as the first.
TEST(Int4Weights, AreAsGoodInAGroupAMillionTimesAsSmall) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> values;
  std::vector<float> row(96);
  for (size_t k = 0; k < 32; ++k) {
    row[k] = values(random);
    row[32 + k] = std::ldexp(row[k], -10);
    row[64 + k] = std::ldexp(row[k], -20);
  }
  const Int4Row rounded(row);
  for (size_t k = 0; k < 32; ++k) {
    EXPECT_EQ(std::ldexp(rounded.Value(32 + k), 10), rounded.Value(k)) << k;
    EXPECT_EQ(std::ldexp(rounded.Value(64 + k), 20), rounded.Value(k)) << k;
  }
}

TEST(Int4Weights, AreAsGoodAtAnyMagnitude) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> values;
  std::vector<float> row(64);
  for (float& value : row) value = values(random);
  const Int4Row plain = Int4Row(row);
  for (const int exponent : {-130, -100, -20, 20, 100, 122}) {
    std::vector<float> other = row;
    for (float& value : other) value = std::ldexp(value, exponent);
    const Int4Row rounded = Int4Row(other);
    for (size_t k = 0; k < row.size(); ++k) {
      // Below the normal numbers the values themselves are rounded.
      EXPECT_NEAR(std::ldexp(rounded.Value(k), -exponent), plain.Value(k),
                  exponent < -120 ? 0.05 : 0)
          << exponent;
    }
  }
}

// Four bits of a checkpoint are packed as they are, whatever their layout, scales and last group.
TEST(Int4Weights, OfACheckpointStandForWhatItSays) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kN = 16;
  for (const auto layout :
       {Int4View::Layout::kGptq, Int4View::Layout::kAwq, Int4View::Layout::kCompressed}) {
    for (const DType scales : {DType::kF16, DType::kBF16}) {
      for (const auto& [k, group_size] :
           {std::pair<int64_t, int64_t>{128, 32}, {200, 64}, {200, 200}, {24, 32}}) {
        const RandomInt4 weights(layout, kN, k, group_size, scales, random);
        const Int4View view = weights.view();
        EXPECT_TRUE(HasExactFactors(view));
        for (int64_t row = 0; row < kN; ++row) {
          std::vector<Int4Group> groups(static_cast<size_t>((k + 31) / 32));
          const float scale = CopyInt4(view, row, {}, groups);
          const Int4Row copied(scale, groups, static_cast<size_t>(k));
          EXPECT_EQ(copied.scale == 1, scales == DType::kF16);
          std::vector<float> values(static_cast<size_t>(k));
          CopyAsFloat(view, row * k, k, values.data());
          for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(copied.Value(i), values[i]) << i;
          for (size_t i = values.size(); i < groups.size() * 32; ++i) {
            EXPECT_EQ(copied.Value(i), 0);
          }
        }
      }
    }
  }
}

// Inputs of a group lie together, wherever a checkpoint has them.
TEST(Int4Weights, OfACheckpointAreGroupByGroup) {
  std::mt19937_64 random(kSeed);
  constexpr int64_t kN = 8, kK = 152;  // the last group is not whole
  const RandomInt4 weights(Int4View::Layout::kGptq, kN, kK, 64, DType::kF16, random);
  const std::vector<int32_t> order = RandomOrder(kK, 64, random);
  Int4View view = weights.view();
  view.order = {reinterpret_cast<const std::byte*>(order.data()), DType::kI32, {kK}};
  const std::vector<int32_t> inputs = view.InputsByGroup();
  for (int64_t row = 0; row < kN; ++row) {
    std::vector<Int4Group> groups((kK + 31) / 32);
    const float scale = CopyInt4(view, row, inputs, groups);
    const Int4Row copied(scale, groups, kK);
    std::vector<float> values(kK);
    CopyAsFloat(view, row * kK, kK, values.data());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(copied.Value(i), values[static_cast<size_t>(inputs[i])]) << i;
    }
  }
}

TEST(Int4Weights, OfACheckpointNeedScalesThatFP16Holds) {
  const std::vector<uint32_t> words(16, 0);
  const auto has = [&](const std::vector<float>& scales) {
    return HasExactFactors(
        {.layout = Int4View::Layout::kCompressed,
         .words = {reinterpret_cast<const std::byte*>(words.data()), DType::kI32, {2, 8}},
         .scales = {reinterpret_cast<const std::byte*>(scales.data()), DType::kF32, {2, 2}},
         .group_size = 32,
         .rows = 2,
         .cols = 64});
  };
  EXPECT_TRUE(has({1, 2, 3, 0}));
  EXPECT_TRUE(has({0, 0, -1.5f, 1}));
  // Each row has a power of two of its own.
  EXPECT_TRUE(has({0x1p-60f, 0x3p-70f, 0x1p80f, 0x5p70f}));
  EXPECT_TRUE(has({1, 0x1p-38f, 1, 1}));
  EXPECT_FALSE(has({1, 0x1p-40f, 1, 1}));
  EXPECT_FALSE(has({0x1p127f, 0x1p-60f, 1, 1}));
  EXPECT_FALSE(has({1, 1, 1, 1.0f / 3}));
  EXPECT_FALSE(has({1, 1, std::numeric_limits<float>::infinity(), 1}));
  EXPECT_FALSE(has({1, 1, 1, std::nanf("")}));
}

}  // namespace
}  // namespace aril::kernels
