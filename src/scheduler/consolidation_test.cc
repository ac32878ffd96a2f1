#include <algorithm>

#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "scheduler/test_support.h"

namespace aril::scheduler {
namespace {

using std::chrono::seconds;

SchedulerOptions Consolidating() {
  SchedulerOptions options;
  options.flat_batch = 8;
  options.drain_margin = 2;
  options.min_active = seconds(10);
  options.migrations_per_tick = 1;
  options.idle_before_return = seconds(30);
  return options;
}

// Two runners; 12 sequences, then all but `left`.
void Thin(TestCluster& cluster, int64_t left) {
  cluster.Join(1);
  cluster.Join(2);
  for (int64_t id = 1; id <= 12; ++id) cluster.Submit(id);
  cluster.ReportAll();
  // From the fuller one.
  for (int64_t id = 1; id <= 12 - left; ++id) cluster.End(id);
  cluster.ReportAll();
}

void Tick10(TestCluster& cluster) {
  for (int i = 0; i < 10; ++i) {
    cluster.Advance(seconds(1));
    cluster.Do(Tick{});
    cluster.ReportAll();
  }
}

TEST(ConsolidationTest, DrainsTheLightestRunnerSlowly) {
  TestCluster cluster(Consolidating());
  Thin(cluster, 6);
  ASSERT_EQ(cluster.Count(1) + cluster.Count(2), 6u);
  cluster.Advance(seconds(9));
  cluster.Do(Tick{});
  EXPECT_EQ(cluster.scheduler.stats().drains, 0) << "it has just been opened";
  cluster.Advance(seconds(2));
  cluster.Do(Tick{});
  EXPECT_EQ(cluster.scheduler.stats().drains, 1);
  EXPECT_EQ(cluster.scheduler.stats().consolidations, 1) << "one at each tick";
  Tick10(cluster);
  EXPECT_EQ(std::max(cluster.Count(1), cluster.Count(2)), 6u);
  EXPECT_EQ(cluster.scheduler.stats().drains, 1);
}

TEST(ConsolidationTest, LeavesAMargin) {
  TestCluster cluster(Consolidating());
  Thin(cluster, 7);  // 7 of the flat part's 8 seats would be taken: fewer than 2 left
  cluster.Advance(seconds(20));
  Tick10(cluster);
  EXPECT_EQ(cluster.scheduler.stats().drains, 0);
}

// Load that goes up and down by one around the point of draining, for an hour.
TEST(ConsolidationTest, DoesNotPingPong) {
  TestCluster cluster(Consolidating());
  Thin(cluster, 6);
  int64_t next = 100;
  for (int second = 0; second < 3600; ++second) {
    cluster.Advance(seconds(1));
    cluster.Submit(next);
    cluster.ReportAll();
    cluster.Do(Tick{});
    cluster.End(next++);
    cluster.ReportAll();
  }
  EXPECT_LE(cluster.scheduler.stats().drains, 1);
  EXPECT_LE(cluster.scheduler.stats().migrations, 3);
}

TEST(ConsolidationTest, WhoeverWaitsGoesFirst) {
  SchedulerOptions options = Consolidating();
  TestCluster cluster(options);
  Thin(cluster, 6);
  cluster.Advance(seconds(20));
  cluster.Do(Tick{});
  ASSERT_EQ(cluster.scheduler.stats().drains, 1);
  for (int64_t id = 50; id < 60; ++id) cluster.Submit(id);
  ASSERT_GT(cluster.scheduler.num_waiting(), 0u);
  cluster.Do(Tick{});
  EXPECT_EQ(cluster.scheduler.num_waiting(), 0u) << "the drained one takes sequences again";
}

TEST(ConsolidationTest, NobodyIsDrainedWhoseSequencesFitNowhere) {
  TestCluster cluster(Consolidating());
  cluster.Join(1, 10);
  for (int64_t id = 1; id <= 3; ++id) cluster.Submit(id);
  cluster.Report(1);
  cluster.Join(2, 100);
  cluster.Submit(4, 16 * 12);
  cluster.Submit(5, 16 * 12);
  cluster.ReportAll();
  ASSERT_EQ(cluster.Count(2), 2u);
  cluster.Advance(seconds(20));
  cluster.Do(Tick{});
  EXPECT_EQ(cluster.scheduler.stats().drains, 0) << "there are seats for them, but no pages";
  EXPECT_TRUE(cluster.scheduler.runners().Get(RunnerId(2)).is_accepting);
}

// Seats are free elsewhere, but no pages.
TEST(ConsolidationTest, WhoeverNeedsTheDrainedRunnersPagesGoesFirst) {
  TestCluster cluster(Consolidating());
  cluster.Join(2, 50);
  for (int64_t id = 1; id <= 4; ++id) cluster.Submit(id, 16 * 9);
  cluster.Join(1, 100);
  for (int64_t id = 5; id <= 6; ++id) cluster.Submit(id, 16 * 11);
  ASSERT_EQ(cluster.Count(1), 2u);
  for (int64_t id = 1; id <= 2; ++id) cluster.End(id);
  cluster.ReportAll();
  cluster.Advance(seconds(20));
  cluster.Do(Tick{});
  ASSERT_FALSE(cluster.scheduler.runners().Get(RunnerId(1)).is_accepting) << "it is being drained";
  ASSERT_EQ(cluster.Count(1), 1u);
  cluster.Submit(7, 16 * 30);
  EXPECT_EQ(cluster.scheduler.num_waiting(), 1u);
  cluster.Do(Tick{});
  EXPECT_EQ(cluster.Where(7), RunnerId(1));
}

// (Found by chaos: it was never placed on again.)
TEST(ConsolidationTest, ARunnerLostWhileBeingDrainedComesBackAsAnyOther) {
  TestCluster cluster(Consolidating());
  Thin(cluster, 6);
  cluster.Advance(seconds(20));
  cluster.Do(Tick{});
  const auto& runners = cluster.scheduler.runners();
  const RunnerId drained(runners.Get(RunnerId(1)).is_accepting ? 2 : 1);
  ASSERT_FALSE(runners.Get(drained).is_accepting);
  cluster.Do(RunnerLost{drained});
  cluster.Do(RunnerJoined{cluster.runners[drained].info});
  cluster.Report(drained.value());
  EXPECT_TRUE(runners.Get(drained).is_accepting);
}

TEST(ConsolidationTest, ALeavingRunnerIsEmptiedWhateverItCosts) {
  TestCluster cluster;
  cluster.Join(1);
  for (int64_t id = 1; id <= 5; ++id) cluster.Submit(id);
  cluster.Report(1);
  cluster.Join(2);
  cluster.Do(RunnerLeaving{RunnerId(1)});
  Tick10(cluster);
  EXPECT_EQ(cluster.Count(1), 0u);
  EXPECT_EQ(cluster.Count(2), 5u);
  cluster.Submit(6);
  EXPECT_EQ(cluster.Where(6), RunnerId(2));
}

TEST(ScaleAdviceTest, OffersIdleRunnersBackAfterAWhile) {
  TestCluster cluster(Consolidating());
  for (int32_t id = 1; id <= 3; ++id) cluster.Join(id);
  EXPECT_TRUE(Of<ScaleAdvice>(cluster.Do(Tick{})).empty());
  cluster.Advance(seconds(31));
  const auto advice = Of<ScaleAdvice>(cluster.Do(Tick{}));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].returnable, (std::vector<RunnerId>{RunnerId(1), RunnerId(2)}));
  EXPECT_TRUE(Of<ScaleAdvice>(cluster.Do(Tick{})).empty()) << "only what is new";
}

TEST(ScaleAdviceTest, AsksForMoreWhenNobodyIsLightlyLoaded) {
  TestCluster cluster(Consolidating());
  cluster.Join(1);
  for (int64_t id = 1; id <= 8; ++id) cluster.Submit(id);
  auto advice = Of<ScaleAdvice>(cluster.Do(Tick{}));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].num_wanted, 1);
  for (int64_t id = 9; id <= 20; ++id) cluster.Submit(id);
  advice = Of<ScaleAdvice>(cluster.Do(Tick{}));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].num_wanted, 3) << "and for those that wait";
  cluster.Join(2);
  cluster.Join(3);
  cluster.Join(4);
  advice = Of<ScaleAdvice>(cluster.Do(Tick{}));
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].num_wanted, 0);
}

}  // namespace
}  // namespace aril::scheduler
