// Plans for models whose sequences have a state.

#include "engine/planner_test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int64_t kStatePages = 10;

PlanLimits Limits() {
  PlanLimits limits = kLimits;
  limits.pages.state_pages = kStatePages;
  return limits;
}

PlanSequence WithState(PlanSequence sequence) {
  sequence.num_pages += kStatePages;
  sequence.num_own_pages += kStatePages;
  return sequence;
}

// Nobody who runs will want another one.
TEST(PlannerStates, TheirPagesAreCounted) {
  const auto plan_with = [&](int64_t available) {
    return MakePlan(
        {.sequences = {WithState(Decoding(0, 5)), Waiting(1, 7)}, .available_pages = available},
        Limits());
  };
  // One page for the running one's next token, which its state's are not part of; 12 for who joins,
  // and one for the running one to grow by.
  EXPECT_THAT(Values(plan_with(14).admit), ElementsAre(1));
  EXPECT_THAT(NewPages(plan_with(14)), ElementsAre(12, 1));
  EXPECT_THAT(plan_with(13).admit, IsEmpty());
}

TEST(PlannerStates, WithoutRowsNoneIsTaken) {
  const auto plan_with = [&](int64_t available) {
    return MakePlan({.sequences = {Running(0, 20, 0), Running(1, 7, 0), Waiting(2, 2)},
                     .available_pages = available},
                    Limits());
  };
  // The oldest one has all rows, and takes 14 pages for them.
  const Plan plan = plan_with(14);
  EXPECT_THAT(plan.evict, IsEmpty());
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 16)));
  EXPECT_THAT(NewPages(plan), ElementsAre(14));
  EXPECT_THAT(Values(plan_with(13).evict), ElementsAre(1));
}

// And what the tokens behind a stop will take, as those of any prompt.
TEST(PlannerStates, TheirPagesArePromised) {
  const auto admits = [&](int64_t available) {
    PlanSequence large = WithState(Running(0, 17, 8));
    large.max_rows = 8;
    return !MakePlan(
                {.sequences = {large, Running(1, 40, 0), Waiting(2, 2)},
                 .available_pages = available},
                {.max_rows = 100, .max_running = 8, .pages = Limits().pages, .headroom_tokens = 4})
                .admit.empty();
  };
  // 2 and 1 for the rest of the first; 20 for the second; 11 for who joins; and two to grow by.
  EXPECT_TRUE(admits(36));
  EXPECT_FALSE(admits(35));
}

// Where a state is to be kept, a step ends, whatever rows there are.
TEST(PlannerStates, AStepEndsWhereOneIsKept) {
  PlanSequence stopping = WithState(Running(0, 13, 2));
  stopping.max_rows = 6;
  PlanSequence joining = Waiting(1, 12);
  joining.max_rows = 4;
  const PlanView view{.sequences = {stopping, joining, Waiting(2, 9)}, .available_pages = 100};
  const Plan plan = MakePlan(view, Limits());
  // The rest of the 16 rows is others'.
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 6), Pair(1, 4), Pair(2, 6)));
  EXPECT_THAT(NewPages(plan), ElementsAre(1, 11, 12));
  for (const Plan::Item& item : plan.items) EXPECT_TRUE(item.prefill);
}

// What begins with one that is cached takes pages for its own.
TEST(PlannerStates, ACachedOneIsCopied) {
  const auto plan_with = [&](int64_t available) {
    return MakePlan({.sequences = {WithState(Cached(Waiting(0, 14), 3, 3)),
                                   WithState(Cached(Waiting(1, 13), 3, 0))},
                     .available_pages = available},
                    Limits());
  };
  // Three that are cached, and for each one more, and a state; one for the first to grow by.
  EXPECT_THAT(Values(plan_with(26).admit), ElementsAre(0, 1));
  EXPECT_THAT(NewPages(plan_with(26)), ElementsAre(1, 1));
  EXPECT_THAT(Values(plan_with(25).admit), ElementsAre(0));
}

}  // namespace
}  // namespace aril
