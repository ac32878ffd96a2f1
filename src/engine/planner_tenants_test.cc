// How tenants share a step.

#include "engine/planner_test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

PlanSequence Of(int32_t tenant, PlanSequence sequence, double weight = 1) {
  sequence.tenant = tenant;
  sequence.tenant_weight = weight;
  return sequence;
}

TEST(PlannerTenants, TenantsShareTheRowsOfPrefills) {
  const auto rows = [](double weight) {
    return Rows(MakePlan({.sequences = {Running(0, 80, 0), Running(1, 80, 0), Decoding(2, 4),
                                        Of(1, Running(3, 80, 0), weight)},
                          .available_pages = 100},
                         kLimits));
  };
  EXPECT_THAT(rows(1), ElementsAre(Pair(0, 7), Pair(3, 8), Pair(2, 1)));
  EXPECT_THAT(rows(2), ElementsAre(Pair(0, 5), Pair(3, 10), Pair(2, 1)));
  const PlanView fits{.sequences = {Running(0, 80, 0), Of(1, Running(1, 6, 0))},
                      .available_pages = 100};
  EXPECT_THAT(Rows(MakePlan(fits, kLimits)), ElementsAre(Pair(0, 10), Pair(1, 6)));
}

// Whose share is used up does not hold up others; within a tenant nobody is overtaken.
TEST(PlannerTenants, ATenantWithoutRowsJoinsAtOnceWhoeverWaitsBeforeIt) {
  const PlanView view{
      .sequences = {Running(0, 80, 40), Waiting(1, 40), Waiting(2, 1), Of(1, Waiting(3, 5)),
                    Of(1, Waiting(4, 40)), Of(1, Waiting(5, 1))},
      .available_pages = 100};
  const Plan plan = MakePlan(view, kLimits);
  EXPECT_THAT(Values(plan.admit), ElementsAre(3, 4));
  EXPECT_THAT(Rows(plan), ElementsAre(Pair(0, 8), Pair(3, 5), Pair(4, 3)));
  EXPECT_THAT(NewPages(plan), ElementsAre(2, 2, 1));
}

// 0 needs ten more pages in later steps, 1 those of five tokens and one of headroom.
TEST(PlannerTenants, WhoJoinsBesideUnfinishedPrefillsLeavesThemTheirPages) {
  const auto admits = [](int64_t available_pages) {
    return !MakePlan({.sequences = {Running(0, 80, 40), Of(1, Waiting(1, 5))},
                      .available_pages = available_pages},
                     kLimits)
                .admit.empty();
  };
  EXPECT_TRUE(admits(10 + 2 + 1));
  EXPECT_FALSE(admits(10 + 2 + 0));
}

TEST(PlannerTenants, NoTenantOvertakesWhoLacksPages) {
  const PlanView view{.sequences = {Decoding(0, 4), Waiting(1, 80), Of(1, Waiting(2, 1))},
                      .available_pages = 10};
  EXPECT_THAT(MakePlan(view, kLimits).admit, IsEmpty());
}

}  // namespace
}  // namespace aril
