#include "engine/row_shares.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int64_t> Shares(int64_t num_rows, const std::vector<RowDemand>& demands) {
  return ShareRows(num_rows, demands);
}

TEST(RowShares, EverybodyGetsAllWhereThereIsEnough) {
  EXPECT_THAT(Shares(100, {{.rows = 60}, {.rows = 1}, {.rows = 39}}), ElementsAre(60, 1, 39));
  EXPECT_THAT(Shares(100, {}), IsEmpty());
}

TEST(RowShares, WhatOneDoesNotNeedGoesToTheOthers) {
  EXPECT_THAT(Shares(48, {{.rows = 4000}, {.rows = 20}}), ElementsAre(28, 20));
  EXPECT_THAT(Shares(48, {{.rows = 4000}, {.rows = 20}, {.rows = 4}, {.rows = 900}}),
              ElementsAre(14, 15, 4, 15));
}

TEST(RowShares, FollowWeights) {
  const std::vector<RowDemand> demands = {{.rows = 4000, .weight = 3}, {.rows = 4000}};
  EXPECT_THAT(Shares(48, demands), ElementsAre(36, 12));
}

TEST(RowShares, NobodyGetsNothingWhateverTheWeights) {
  EXPECT_THAT(Shares(3, {{.rows = 9, .weight = 1e300}, {.rows = 9, .weight = 1e-300}, {.rows = 9}}),
              ElementsAre(1, 1, 1));
  EXPECT_THAT(Shares(4, {{.rows = 100, .weight = 1000}, {.rows = 5}, {.rows = 9}}),
              ElementsAre(2, 1, 1));
}

// By the definition of max-min fairness: all rows are given, and whoever lacks some has, by weight,
// no less than anybody else has; in whole rows, so up to one row per demand.
TEST(RowShares, AreMaxMinFair) {
  constexpr uint64_t kSeed = 1;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  const auto draw = [&random](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 2000; ++i) {
    std::vector<RowDemand> demands(static_cast<size_t>(draw(1, 9)));
    int64_t wanted = 0;
    for (RowDemand& demand : demands) {
      demand = {.rows = draw(1, draw(1, 200)), .weight = static_cast<double>(draw(1, 4))};
      wanted += demand.rows;
    }
    const int64_t count = std::ssize(demands);
    const int64_t num_rows = count + draw(0, 300);
    const std::vector<int64_t> shares = Shares(num_rows, demands);
    ASSERT_EQ(std::accumulate(shares.begin(), shares.end(), int64_t{0}),
              std::min(num_rows, wanted));
    for (size_t a = 0; a < demands.size(); ++a) {
      ASSERT_GE(shares[a], 1);
      ASSERT_LE(shares[a], demands[a].rows);
      if (shares[a] == demands[a].rows) continue;
      for (size_t b = 0; b < demands.size(); ++b) {
        EXPECT_GE(static_cast<double>(shares[a] + count) / demands[a].weight,
                  static_cast<double>(shares[b] - 1) / demands[b].weight);
      }
    }
  }
}

}  // namespace
}  // namespace aril
