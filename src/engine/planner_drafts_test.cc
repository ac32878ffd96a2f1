// Which rows, and which pages, guessed tokens get.

#include "engine/planner.h"
#include "engine/planner_test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr PlanLimits kFewRows{.max_rows = 16,
                              .max_running = 8,
                              .pages = {.page_tokens = 4},
                              .headroom_tokens = 4,
                              .max_draft_rows = 8};

TEST(PlannerDrafts, GetRowsBehindTheLastToken) {
  const Plan plan =
      MakePlan({.sequences = {Drafting(0, 9, 3), Decoding(1, 3)}, .available_pages = 100}, kLimits);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 4), Pair(1, 1)));
  EXPECT_THAT(NewPages(plan), ElementsAre(1, 0)) << "of 12 tokens, and of 3";
  EXPECT_FALSE(plan.items[0].prefill);
}

TEST(PlannerDrafts, TakeTurnsWhereRowsAreFew) {
  const Plan plan =
      MakePlan({.sequences = {Drafting(0, 9, 7), Drafting(1, 9, 1), Drafting(2, 9, 7)},
                .available_pages = 100},
               kFewRows);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 3), Pair(1, 2), Pair(2, 3)));
}

TEST(PlannerDrafts, GetWhatPrefillsLeaveInAStepOfFewRows) {
  const auto rows = [](int64_t prompt) {
    return Rows(
        MakePlan({.sequences = {Running(0, prompt, 0), Drafting(1, 9, 7)}, .available_pages = 100},
                 kFewRows));
  };
  EXPECT_THAT(rows(5), ElementsAre(Pair(0, 5), Pair(1, 3)));
  EXPECT_THAT(rows(8), ElementsAre(Pair(0, 8), Pair(1, 1)));
  EXPECT_THAT(rows(40), ElementsAre(Pair(0, 15), Pair(1, 1)));
}

TEST(PlannerDrafts, OfWhoJoinsComeFirst) {
  const Plan plan =
      MakePlan({.sequences = {Drafting(0, 9, 7), Waiting(1, 6)}, .available_pages = 100}, kFewRows);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(1, 6), Pair(0, 2)));
}

// A page for its last token, and one that each running sequence may want next.
TEST(PlannerDrafts, TakeNoPageThatOthersMayWant) {
  const auto rows = [](std::vector<PlanSequence> sequences, int64_t pages, int64_t promised = 0) {
    return Rows(MakePlan(
        {.sequences = std::move(sequences), .available_pages = pages, .promised_pages = promised},
        kLimits));
  };
  // With 7 tokens, one fits on the second page.
  EXPECT_THAT(rows({Drafting(0, 7, 3)}, 2), ElementsAre(Pair(0, 4)));
  EXPECT_THAT(rows({Drafting(0, 7, 3)}, 1), ElementsAre(Pair(0, 2)));
  EXPECT_THAT(rows({Drafting(0, 7, 3)}, 2, 1), ElementsAre(Pair(0, 2)));
  EXPECT_THAT(rows({Drafting(0, 7, 3), Decoding(1, 3)}, 2), ElementsAre(Pair(0, 2), Pair(1, 1)));
  // Who waits has 5 of the 6 pages that it wants.
  EXPECT_THAT(rows({Drafting(0, 7, 3), Waiting(1, 20)}, 5), ElementsAre(Pair(0, 2)));
  EXPECT_THAT(rows({Drafting(0, 7, 3), Waiting(1, 8)}, 6), ElementsAre(Pair(1, 8), Pair(0, 4)));
  PlanView view{.sequences = {Drafting(0, 7, 3)}, .available_pages = 2, .available_kv_pages = 1};
  EXPECT_THAT(Rows(MakePlan(view, kLimits)), ElementsAre(Pair(0, 2))) << "nor of the share of KV";
}

TEST(PlannerDrafts, EvictNobody) {
  const Plan plan = MakePlan({.sequences = {Drafting(0, 8, 3), Decoding(1, 3)}}, kLimits);
  EXPECT_THAT(plan.evict, IsEmpty());
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 1), Pair(1, 1)));
}

TEST(PlannerDrafts, WaitWithTheirSequence) {
  PlanSequence loading = Drafting(0, 9, 3);
  loading.adapters = MixOf(kA);
  const Plan plan = MakePlan({.sequences = {loading, Drafting(1, 9, 1)},
                              .adapters = {{kA, 1, PlanAdapter::State::kLoading}},
                              .available_pages = 100},
                             kLimits);
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(1, 2)));
}

}  // namespace
}  // namespace aril
