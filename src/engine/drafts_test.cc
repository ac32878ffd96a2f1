#include "engine/drafts.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;

std::vector<int32_t> Draft(const std::vector<int32_t>& prompt, const std::vector<int32_t>& output,
                           int64_t length, const DraftOptions& options = {}) {
  const aril::Draft draft =
      MakeDraft({.prompt = prompt, .output = output}, options, {.said = length});
  EXPECT_FALSE(draft.is_predicted);
  return draft.tokens;
}

std::vector<int32_t> Predicted(const std::vector<int32_t>& output,
                               const std::vector<int32_t>& prediction, int64_t length,
                               const DraftOptions& options = {}) {
  const std::vector<int32_t> prompt = {100, 101};
  const aril::Draft draft =
      MakeDraft({.prompt = prompt, .output = output, .prediction = prediction}, options,
                {.said = length, .predicted = length});
  EXPECT_EQ(draft.is_predicted, !draft.tokens.empty());
  return draft.tokens;
}

TEST(MakeDraft, IsWhatFollowedTheLastTime) {
  EXPECT_THAT(Draft({1, 2, 3, 4, 5, 6}, {1, 2}, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(Draft({1, 2, 3, 4, 5, 6}, {9, 3, 4}, 2), ElementsAre(5, 6));
  EXPECT_THAT(Draft({1, 2, 3}, {7, 1, 2, 4, 1, 2}, 1), ElementsAre(4)) << "not the first time";
}

TEST(MakeDraft, PrefersTheLongerMatch) {
  // 7 8 came last before 2, but 6 7 8 before 1.
  EXPECT_THAT(Draft({6, 7, 8, 1, 5, 7, 8, 2}, {6, 7, 8}, 1), ElementsAre(1));
  EXPECT_THAT(Draft({6, 7, 8, 1, 5, 7, 8, 2}, {6, 7, 8}, 1, {.max_match = 2}), ElementsAre(2))
      << "longer ones are not looked at";
}

TEST(MakeDraft, WantsAMatch) {
  EXPECT_THAT(Draft({1, 2, 3}, {4, 5}, 4), IsEmpty());
  EXPECT_THAT(Draft({1, 2, 3}, {4, 2}, 4), IsEmpty()) << "of two";
  EXPECT_THAT(Draft({1, 2, 3}, {4, 2}, 1, {.min_match = 1}), ElementsAre(3));
  EXPECT_THAT(Draft({1}, {}, 4, {.min_match = 1}), IsEmpty());
  EXPECT_THAT(Draft({}, {}, 4), IsEmpty());
  EXPECT_THAT(Draft({1, 2, 3}, {1, 2}, 0), IsEmpty());
}

TEST(MakeDraft, GoesOnIntoItself) {
  EXPECT_THAT(Draft({5, 1, 2}, {1, 2}, 5), ElementsAre(1, 2, 1, 2, 1));
  EXPECT_THAT(Draft({7, 7}, {7}, 3), ElementsAre(7, 7, 7));
}

// The definition, written down another way.
TEST(MakeDraft, FindsWhatALookAtEveryPlaceFinds) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> all(random() % 24);
    for (int32_t& token : all) token = static_cast<int32_t>(random() % 3);
    const DraftOptions options{.min_match = 1 + static_cast<int64_t>(random() % 2),
                               .max_match = 2 + static_cast<int64_t>(random() % 3)};
    std::vector<int32_t> expected;
    const auto size = static_cast<int64_t>(all.size());
    for (int64_t n = std::min(options.max_match, size); n >= options.min_match; --n) {
      const auto found = std::find_end(all.begin(), all.end() - 1, all.end() - n, all.end());
      if (found == all.end() - 1) continue;
      for (auto from = found + n; expected.size() < 4; ++from) {
        const auto i = static_cast<size_t>(from - all.begin());
        expected.push_back(i < all.size() ? all[i] : expected[i - all.size()]);
      }
      break;
    }
    const size_t cut = all.empty() ? 0 : random() % all.size();
    EXPECT_EQ(Draft({all.begin(), all.begin() + static_cast<int64_t>(cut)},
                    {all.begin() + static_cast<int64_t>(cut), all.end()}, 4, options),
              expected)
        << "round " << round << " of seed 1";
  }
}

TEST(MakeDraft, FollowsAPrediction) {
  EXPECT_THAT(Predicted({1}, {1, 2, 3, 4}, 2), ElementsAre(2, 3)) << "as it begins";
  EXPECT_THAT(Predicted({1, 2, 3}, {1, 2, 3, 4}, 8), ElementsAre(4)) << "it ends there";
  EXPECT_THAT(Predicted({1, 2, 3, 4}, {1, 2, 3, 4}, 8), IsEmpty());
  EXPECT_THAT(Predicted({9}, {1, 2, 3, 4}, 8), IsEmpty());
  EXPECT_THAT(Predicted({9, 1}, {1, 2, 3, 4}, 8), IsEmpty()) << "one is too few elsewhere";
  EXPECT_THAT(Predicted({1, 9, 3, 4}, {1, 2, 3, 4, 5, 6}, 8), ElementsAre(5, 6));
  EXPECT_THAT(Predicted({1, 2, 9}, {1, 2, 3, 4}, 8), IsEmpty());
}

TEST(MakeDraft, LooksForItsPlaceInAPrediction) {
  // Two lines that begin alike.
  const std::vector<int32_t> lines = {7, 8, 1, 5, 7, 8, 2, 5, 7, 8, 3, 5};
  EXPECT_THAT(Predicted({7, 8}, lines, 1), ElementsAre(1));
  EXPECT_THAT(Predicted({7, 8, 1, 5, 7, 8}, lines, 1), ElementsAre(2));
  EXPECT_THAT(Predicted({7, 8, 1, 9, 7, 8}, lines, 1), ElementsAre(2)) << "the nearest";
  EXPECT_THAT(Predicted({9, 9, 9, 9, 9, 9, 9, 9, 7, 8}, lines, 1), ElementsAre(3));
  EXPECT_THAT(Predicted({9, 2, 5, 7, 8}, lines, 1), ElementsAre(3)) << "more before it";
}

TEST(MakeDraft, PrefersWhatMoreIsBefore) {
  const auto draft = [](const std::vector<int32_t>& prompt, const std::vector<int32_t>& output,
                        const std::vector<int32_t>& prediction, const DraftLengths& lengths) {
    return MakeDraft({.prompt = prompt, .output = output, .prediction = prediction}, {}, lengths)
        .tokens;
  };
  constexpr DraftLengths kBoth{.said = 1, .predicted = 2};
  EXPECT_THAT(draft({1, 2, 3, 4}, {0, 2, 3}, {8, 2, 3, 5, 6, 7}, kBoth), ElementsAre(5, 6));
  EXPECT_THAT(draft({1, 2, 3, 4}, {0, 1, 2, 3}, {8, 2, 3, 5}, kBoth), ElementsAre(4));
  EXPECT_THAT(draft({1, 2, 3, 4}, {0, 1, 2, 3}, {8, 2, 3, 5}, {.predicted = 1}), ElementsAre(5));
  EXPECT_THAT(draft({1, 2, 3, 4}, {0, 2, 3}, {8, 2, 3, 5}, {.said = 1}), ElementsAre(4));
  EXPECT_THAT(draft({1, 2, 3, 4}, {0, 1, 2, 3}, {}, {.predicted = 1}), IsEmpty());
}

TEST(DraftOptions, ARowCostsWhatItAddsToAStep) {
  EXPECT_EQ(DraftOptions().RowCost(1), 0.04);
  EXPECT_EQ(DraftOptions().RowCost(8), 0.25) << "and a token an eighth of 32";
  EXPECT_EQ(DraftOptions{.rows_of_step = 0}.RowCost(3), 1);
}

constexpr double kRowCost = 0.25;

TEST(DraftTrust, GrowsWithWhatIsRight) {
  DraftTrust trust(DraftTrust::kInItself);
  EXPECT_GT(DraftTrust(DraftTrust::kInPredictions).Length(100, kRowCost),
            trust.Length(100, kRowCost));
  EXPECT_EQ(trust.Length(100, kRowCost), 2);
  EXPECT_EQ(trust.Length(1, kRowCost), 1);
  for (int i = 0; i < 10; ++i) trust.OnChecked(8, false);
  EXPECT_EQ(trust.Length(100, kRowCost), 100);
  trust.OnChecked(0, true);
  EXPECT_THAT(trust.Length(100, kRowCost), AllOf(Ge(8), Le(12))) << "an eighth is wrong";
  EXPECT_EQ(trust.Length(100, 0.8), 1) << "where a row costs nearly as much as a token";
}

TEST(DraftTrust, TriesSeldomWhatIsAlwaysWrong) {
  DraftTrust trust(DraftTrust::kInItself);
  int num_tokens = 0;
  for (int step = 0; step < 200; ++step) {
    const int64_t length = trust.Length(8, kRowCost);
    num_tokens += static_cast<int>(length);
    length > 0 ? trust.OnChecked(0, true) : trust.OnPlainToken();
  }
  EXPECT_THAT(num_tokens, AllOf(Ge(10), Le(24)));
}

TEST(DraftTrust, LosesNothingByPlainTokens) {
  DraftTrust trust(DraftTrust::kInPredictions);
  for (int i = 0; i < 1000; ++i) trust.OnPlainToken();
  EXPECT_EQ(trust.Length(100, kRowCost),
            DraftTrust(DraftTrust::kInPredictions).Length(100, kRowCost));
}

TEST(DraftTrust, KnowsARate) {
  // Three of four are right: the fourth behind one is right with 0.32, the fifth with 0.24.
  DraftTrust trust(DraftTrust::kInItself);
  for (int i = 0; i < 100; ++i) trust.OnChecked(3, true);
  EXPECT_THAT(trust.Length(100, kRowCost), AllOf(Ge(3), Le(6)));
}

}  // namespace
}  // namespace aril
