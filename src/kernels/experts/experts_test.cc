#include "kernels/experts/experts.h"

#include <algorithm>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/test_support.h"

namespace aril::kernels {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kSeed = 11;

struct Chosen {
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

Chosen Choose(const std::vector<float>& logits, const Routing& routing) {
  const auto count = static_cast<size_t>(routing.experts_per_row);
  Chosen chosen{std::vector<int32_t>(count), std::vector<float>(count)};
  ChooseExperts(logits, routing, chosen.experts.data(), chosen.weights.data());
  return chosen;
}

TEST(Experts, AreTheBestOnes) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<float> normal(0, 3);
  for (const size_t count : {1, 2, 7, 128}) {
    for (size_t per_row = 1; per_row <= std::min<size_t>(count, 9); ++per_row) {
      std::vector<float> logits(count);
      for (float& logit : logits) logit = normal(random);
      for (const bool normalized : {false, true}) {
        const Routing routing{static_cast<int64_t>(per_row), normalized};
        const Chosen chosen = Choose(logits, routing);
        std::vector<int32_t> best(count);
        std::iota(best.begin(), best.end(), 0);
        std::ranges::sort(best, std::greater(),
                          [&](int32_t expert) { return logits[static_cast<size_t>(expert)]; });
        best.resize(per_row);
        std::ranges::sort(best);
        EXPECT_EQ(chosen.experts, best);
        std::vector<double> expected(per_row);
        ExpertWeightsRef(logits, routing, best, expected.data());
        // A difference of at most 20 or so, whose rounding exp makes as large as that; exp, within
        // 3e-7 (sampling/weights.h), twice; a sum of `count` at most, a quotient.
        const double tolerance = (static_cast<double>(count) + 22) * kFloatEps + 2 * 3e-7;
        for (size_t i = 0; i < per_row; ++i) {
          EXPECT_NEAR(chosen.weights[i], expected[i], tolerance * expected[i])
              << count << " " << per_row << " seed " << kSeed;
        }
      }
    }
  }
}

TEST(Experts, OfEqualOnesTheFirstAreTaken) {
  EXPECT_THAT(Choose({1, 2, 1, 2, 1}, {3, true}).experts, ElementsAre(0, 1, 3));
  EXPECT_THAT(Choose({0, 0, 0, 0}, {2, true}).weights, ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(Choose({0, 0, 0, 0}, {2, false}).weights, ElementsAre(0.25f, 0.25f));
}

// exp of neither would be a number.
TEST(Experts, LargeLogitsHaveWeights) {
  EXPECT_THAT(Choose({1000, -1000, 1000}, {2, false}).weights, ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(Choose({-1000, -2000, -3000}, {2, true}).weights, ElementsAre(1.0f, 0.0f));
}

TEST(Experts, AreDifferentOnesWhateverTheLogitsAre) {
  const float inf = INFINITY;
  for (const std::vector<float>& logits : {std::vector<float>{NAN, NAN, NAN, NAN},
                                           {1, NAN, 2, NAN},
                                           {inf, inf, -inf, NAN},
                                           {-inf, -inf, -inf, -inf}}) {
    for (int64_t per_row = 1; per_row <= 4; ++per_row) {
      std::vector<int32_t> experts = Choose(logits, {per_row, true}).experts;
      EXPECT_TRUE(std::ranges::is_sorted(experts));
      EXPECT_EQ(std::ranges::adjacent_find(experts), experts.end());
      EXPECT_GE(experts.front(), 0);
      EXPECT_LT(experts.back(), 4);
    }
  }
}

class ExpertRowsTest : public testing::Test {
 protected:
  static constexpr int64_t kExperts = 6;

  std::mt19937_64 random_{kSeed};
  ThreadPool threads_{2};
  CpuContext context_{threads_, AvailableIsas().back()};
};

TEST_F(ExpertRowsTest, AreThoseThatChoseIt) {
  ExpertRows rows;
  // Fewer and more than the time before; in the end none.
  for (const int64_t count : {5, 40, 3, 0}) {
    const TestMatrix logits(DType::kF32, count, kExperts, 1.0, random_);
    const Routing routing{2, true};
    rows.Assign(context_, logits.floats(), routing);
    std::vector<std::vector<int32_t>> expected(kExperts);
    for (int32_t r = 0; r < count; ++r) {
      const float* row = logits.floats().row(r);
      for (const int32_t expert : Choose({row, row + kExperts}, routing).experts) {
        expected[static_cast<size_t>(expert)].push_back(r);
      }
    }
    std::vector<std::vector<int32_t>> found(kExperts);
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      for (int64_t i = rows.FirstPlace(expert); i < rows.FirstPlace(expert + 1); ++i) {
        found[static_cast<size_t>(expert)].push_back(rows.RowAt(i));
      }
    }
    EXPECT_EQ(found, expected);
    EXPECT_EQ(rows.FirstPlace(0), 0);
    EXPECT_EQ(rows.num_places(), 2 * count);
  }
}

TEST_F(ExpertRowsTest, AreGathered) {
  const TestMatrix logits(DType::kF32, 7, kExperts, 1.0, random_);
  ExpertRows rows;
  rows.Assign(context_, logits.floats(), {3, true});
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TestMatrix x(dtype, 7, 9, 1.0, random_), gathered(dtype, 5, 9, 1.0, random_);
    rows.Gather(context_, x.view(), 4, gathered.view());
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t c = 0; c < 9; ++c) {
        EXPECT_EQ(gathered.view().At(i, c), x.view().At(rows.RowAt(4 + i), c));
      }
    }
  }
}

// In whatever pieces: each row's in the order of its experts.
TEST_F(ExpertRowsTest, AreAddedInTheOrderOfExperts) {
  constexpr int64_t kRows = 7, kPerRow = 3, kCols = 9;
  const TestMatrix logits(DType::kF32, kRows, kExperts, 1.0, random_);
  const Routing routing{kPerRow, true};
  ExpertRows rows;
  rows.Assign(context_, logits.floats(), routing);
  const TestMatrix y(DType::kF32, kRows * kPerRow, kCols, 1.0, random_);
  const TestMatrix before(DType::kF32, kRows, kCols, 1.0, random_);
  std::vector<float> expected = Floats(before);
  std::vector<int64_t> next(kExperts);
  for (int64_t expert = 0; expert < kExperts; ++expert) {
    next[static_cast<size_t>(expert)] = rows.FirstPlace(expert);
  }
  for (int64_t r = 0; r < kRows; ++r) {
    const float* row = logits.floats().row(r);
    const Chosen chosen = Choose({row, row + kExperts}, routing);
    for (size_t i = 0; i < chosen.experts.size(); ++i) {
      const int64_t place = next[static_cast<size_t>(chosen.experts[i])]++;
      for (int64_t c = 0; c < kCols; ++c) {
        expected[static_cast<size_t>(r * before.floats().stride + c)] +=
            chosen.weights[i] * y.floats().row(place)[c];
      }
    }
  }
  for (const int64_t piece : {1, 4, 21}) {
    const TestMatrix sum(DType::kF32, kRows, kCols, 1.0, random_);
    std::memcpy(sum.view().data, before.view().data, Floats(before).size() * sizeof(float));
    for (int64_t first = 0; first < kRows * kPerRow; first += piece) {
      const int64_t count = std::min(piece, kRows * kPerRow - first);
      const MatrixView<const float> part{y.floats().row(first), count, kCols, y.floats().stride};
      rows.AddWeighted(context_, part, first, sum.floats());
    }
    const std::vector<float> got = Floats(sum);
    EXPECT_TRUE(BitwiseEqual(got.data(), expected.data(), got.size() * sizeof(float))) << piece;
  }
}

}  // namespace
}  // namespace aril::kernels
