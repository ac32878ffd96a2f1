#include "kernels/sampling/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::kernels {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int32_t> Tokens(const std::vector<Candidate>& candidates) {
  std::vector<int32_t> tokens;
  for (const Candidate& candidate : candidates) tokens.push_back(candidate.token);
  return tokens;
}

std::vector<int32_t> Select(const std::vector<float>& logits, int64_t count) {
  std::vector<Candidate> selected(3);
  SelectLargest(logits, count, &selected);
  return Tokens(selected);
}

TEST(SelectLargest, TakesLowestIdsAmongEqualsAndKeepsTheOrderOfIds) {
  EXPECT_THAT(Select({1, 3, 2, 3, 2, 2}, 1), ElementsAre(1));
  EXPECT_THAT(Select({1, 3, 2, 3, 2, 2}, 3), ElementsAre(1, 2, 3));
  EXPECT_THAT(Select({1, 3, 2, 3, 2, 2}, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Select({-0.0f, 0.0f, -0.0f}, 2), ElementsAre(0, 1));
}

TEST(SelectLargest, LeavesOutWhatCannotBeChosen) {
  EXPECT_THAT(Select({-kInfinity, 1, std::nanf(""), 0}, 4), ElementsAre(1, 3));
  EXPECT_THAT(Select({-kInfinity}, 1), IsEmpty());
  EXPECT_THAT(Select({5, 6}, 1'000'000'000), ElementsAre(0, 1));
}

// Logits from a coarse grid, so that ties are everywhere.
std::vector<Candidate> RandomCandidates(size_t size, std::mt19937_64& random) {
  std::uniform_int_distribution<int> level(-20, 20);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < size; ++i) {
    const auto logit = static_cast<float>(level(random));
    candidates.push_back({static_cast<int32_t>(i), logit, std::exp2(logit / 4)});
  }
  return candidates;
}

TEST(SelectLargest, AgreesWithSorting) {
  constexpr uint64_t kSeed = 17;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    const size_t size = 1 + random() % 700;
    std::vector<Candidate> sorted = RandomCandidates(size, random);
    std::vector<float> logits;
    for (const Candidate& candidate : sorted) logits.push_back(candidate.logit);
    const size_t count = 1 + random() % size;
    std::sort(sorted.begin(), sorted.end(), Before);
    sorted.resize(count);
    std::vector<int32_t> expected = Tokens(sorted);
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(Select(logits, static_cast<int64_t>(count)), expected)
        << "seed " << kSeed << ", round " << round;
  }
}

TEST(PrefixEnd, EndsWhereTheTargetIsReached) {
  std::vector<Candidate> candidates = {{0, 1, 0.25f}, {1, 2, 0.5f}, {2, 1, 0.25f}};
  EXPECT_EQ(PrefixEnd(candidates, 0.0).token, 1);
  EXPECT_EQ(PrefixEnd(candidates, 0.5).token, 1);
  EXPECT_EQ(PrefixEnd(candidates, 0.51).token, 0);
  EXPECT_EQ(PrefixEnd(candidates, 0.75).token, 0);
  EXPECT_EQ(PrefixEnd(candidates, 0.76).token, 2);
  EXPECT_EQ(PrefixEnd(candidates, 9.0).token, 2);
}

TEST(PrefixEnd, AgreesWithSorting) {
  constexpr uint64_t kSeed = 18;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    std::vector<Candidate> sorted = RandomCandidates(1 + random() % 700, random);
    std::vector<Candidate> shuffled = sorted;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    std::sort(sorted.begin(), sorted.end(), Before);
    const size_t end = random() % sorted.size();
    double sum = 0;
    for (size_t i = 0; i <= end; ++i) sum += sorted[i].weight;
    // Half a weight short of the sum: no rounding decides.
    const double target = sum - 0.5 * double{sorted[end].weight};
    ASSERT_EQ(PrefixEnd(shuffled, target).token, sorted[end].token)
        << "seed " << kSeed << ", round " << round;
  }
}

}  // namespace
}  // namespace aril::kernels
