#include "engine/bounded_reasoning.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace aril {
namespace {

constexpr int32_t kBegin = 100;
constexpr int32_t kSo = 101;
constexpr int32_t kEnd = 102;

std::optional<int32_t> NextBehind(const wire::ReasoningBudget& budget,
                                  const std::vector<int32_t>& output) {
  return BoundedReasoning(budget, output).NextOfClosing();
}

TEST(BoundedReasoning, IsClosedOnceItsBudgetIsSpent) {
  const wire::ReasoningBudget budget = {.max_tokens = 2, .closing = {kSo, kSo, kEnd}};
  EXPECT_EQ(NextBehind(budget, {}), std::nullopt);
  EXPECT_EQ(NextBehind(budget, {1}), std::nullopt);
  EXPECT_EQ(NextBehind(budget, {1, 2}), kSo);
  EXPECT_EQ(NextBehind(budget, {1, 2, kSo}), kSo);
  EXPECT_EQ(NextBehind(budget, {1, 2, kSo, kSo}), kEnd);
  EXPECT_EQ(NextBehind(budget, {1, 2, kSo, kSo, kEnd}), std::nullopt);
  EXPECT_EQ(NextBehind(budget, {1, 2, kSo, kSo, kEnd, 1, 2, 3}), std::nullopt);
}

TEST(BoundedReasoning, MayEndByItself) {
  const wire::ReasoningBudget budget = {.max_tokens = 2, .closing = {kSo, kEnd}};
  EXPECT_EQ(NextBehind(budget, {kEnd, 1, 2, 3}), std::nullopt);
  EXPECT_EQ(NextBehind(budget, {1, kEnd, 2, 3}), std::nullopt);
  EXPECT_EQ(NextBehind(budget, {kSo, 1}), kSo) << "which it may say by itself, too";
}

TEST(BoundedReasoning, BeginsOnceBehindItsBeginning) {
  const wire::ReasoningBudget budget = {.max_tokens = 1, .begin = kBegin, .closing = {kEnd}};
  EXPECT_EQ(NextBehind(budget, {1, 2, kEnd, 3}), std::nullopt);
  EXPECT_EQ(NextBehind(budget, {1, kBegin}), std::nullopt);
  EXPECT_EQ(NextBehind(budget, {1, kBegin, kBegin}), kEnd);
  EXPECT_EQ(NextBehind(budget, {1, kBegin, 2, kEnd, kBegin, 3}), std::nullopt);
}

// As the reader of an answer has it: only whitespace may come before it.
TEST(BoundedReasoning, DoesNotBeginInTheMiddleOfAnAnswer) {
  const wire::ReasoningBudget budget = {.begin = kBegin, .closing = {kEnd}};
  EXPECT_EQ(NextBehind(budget, {1, 1, 1, 1, kBegin}), kEnd);
  EXPECT_EQ(NextBehind(budget, {1, 1, 1, 1, 1, kBegin}), std::nullopt);
  EXPECT_FALSE(BoundedReasoning(budget, std::vector<int32_t>(5)).MayCloseBehind(9));
}

TEST(BoundedReasoning, CountsWhatMayComeBeforeItIsClosed) {
  const wire::ReasoningBudget budget = {.max_tokens = 2, .closing = {kSo, kEnd}};
  const BoundedReasoning reasoning(budget, std::vector<int32_t>{1});
  EXPECT_EQ(reasoning.CountChosen({}), 0);
  EXPECT_EQ(reasoning.CountChosen(std::vector<int32_t>{2, 3, 4}), 1);
  EXPECT_EQ(reasoning.CountChosen(std::vector<int32_t>{kEnd, 3, 4}), 3);
  EXPECT_EQ(BoundedReasoning(budget, std::vector<int32_t>{1, 2}).CountChosen(std::vector{kSo}), 0);
}

TEST(BoundedReasoning, OfNoTokensEndsAtOnce) {
  EXPECT_EQ(NextBehind({.closing = {kEnd}}, {}), kEnd);
  EXPECT_EQ(NextBehind({.begin = kBegin, .closing = {kEnd}}, {kBegin}), kEnd);
}

// A token that may not follow now is not taken for the one that should have.
TEST(BoundedReasoning, IsClosedLaterWhereItCouldNotBe) {
  const wire::ReasoningBudget budget = {.max_tokens = 1, .closing = {kSo, kEnd}};
  EXPECT_EQ(NextBehind(budget, {1, 2, 3}), kSo);
  EXPECT_EQ(NextBehind(budget, {1, 2, 3, kSo}), kEnd);
}

// Exhaustively: behind some known tokens and some that may be any.
TEST(BoundedReasoning, KnowsWhereItMayHaveToBeClosed) {
  const int32_t tokens[] = {1, kBegin, kEnd};
  for (const bool has_begun : {false, true}) {
    for (int32_t max_tokens = 0; max_tokens < 4; ++max_tokens) {
      wire::ReasoningBudget budget = {.max_tokens = max_tokens, .closing = {kEnd}};
      if (!has_begun) budget.begin = kBegin;
      for (int known = 0; known < 27; ++known) {
        const BoundedReasoning behind(
            budget, {{tokens[known % 3], tokens[known / 3 % 3], tokens[known / 9]}});
        EXPECT_EQ(behind.MayCloseBehind(0), behind.NextOfClosing().has_value());
        bool may_close[3] = {};  // behind 1, 2, 3 more
        for (int unknown = 0; unknown < 27; ++unknown) {
          BoundedReasoning further = behind;
          int left = unknown;
          for (bool& may : may_close) {
            further.Append(tokens[left % 3]);
            left /= 3;
            may |= further.NextOfClosing().has_value();
          }
        }
        for (int64_t i = 0; i < 3; ++i) {
          EXPECT_EQ(behind.MayCloseBehind(i + 1), may_close[i])
              << has_begun << ' ' << max_tokens << ' ' << known << ' ' << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace aril
