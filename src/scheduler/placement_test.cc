// Who is placed where, and who goes before whom.

#include <set>

#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "scheduler/test_support.h"

namespace aril::scheduler {
namespace {

using std::chrono::seconds;
using State = wire::RunnerSequenceState;

TEST(PlacementTest, FillsOneRunnerBeforeTheNext) {
  TestCluster cluster;
  cluster.Join(1);
  cluster.Join(2);
  for (int64_t id = 1; id <= 9; ++id) {
    const auto placements = Of<wire::Placement>(cluster.Submit(id));
    ASSERT_EQ(placements.size(), 1u);
    EXPECT_EQ(placements[0].attempt, 1u);
    EXPECT_EQ(placements[0].epoch, Epoch(1));
  }
  EXPECT_EQ(cluster.Count(2), 8u) << "the highest id of equals";
  EXPECT_EQ(cluster.Count(1), 1u);
}

TEST(PlacementTest, PromisedPagesCountUntilReported) {
  TestCluster cluster;
  cluster.Join(1, 20);
  cluster.Submit(1, 16 * 12);
  EXPECT_EQ(cluster.scheduler.runners().Get(RunnerId(1)).available_pages(), 8);
  cluster.Submit(2, 16 * 8);  // and one to grow by
  EXPECT_EQ(cluster.Where(2), RunnerId());
  cluster.Report(1);
  EXPECT_EQ(cluster.scheduler.runners().Get(RunnerId(1)).available_pages(), 8);
  cluster.Submit(3, 16 * 7);
  EXPECT_EQ(cluster.Where(3), RunnerId(1));
}

TEST(PlacementTest, QueueIsFirstComeFirstServed) {
  TestCluster cluster;
  cluster.Join(1, 100, 2);
  for (int64_t id = 1; id <= 4; ++id) {
    cluster.Advance(seconds(1));
    cluster.Submit(id);
  }
  EXPECT_EQ(cluster.scheduler.num_waiting(), 2u);
  cluster.End(2);
  EXPECT_EQ(cluster.Where(3), RunnerId(1));
  EXPECT_EQ(cluster.Where(4), RunnerId());
}

TEST(PlacementTest, PrioritiesGoFirst) {
  TestCluster cluster;
  cluster.Join(1, 100, 1);
  cluster.Submit(1);
  cluster.Submit(2);
  wire::Submission urgent = cluster.Make(3);
  urgent.priority = 5;
  cluster.Submit(urgent);
  cluster.End(1);
  EXPECT_EQ(cluster.Where(3), RunnerId(1));
}

// A large one at the head does not stop the small ones, and is not starved by them either.
TEST(PlacementTest, HeadOfLineNeitherBlocksNorStarves) {
  SchedulerOptions options;
  options.max_overtakes = 10;
  TestCluster cluster(options);
  cluster.Join(1, 40, 4);
  cluster.Join(2, 40, 4);
  int64_t next = 1;
  for (; next <= 8; ++next) cluster.Submit(next, 16 * 8);
  const int64_t large = next++;
  const wire::Submission waiting = cluster.Make(large, 16 * 30);
  cluster.Submit(waiting);
  int64_t oldest = 1, overtook = 0;
  while (cluster.Where(large) == RunnerId() && next < 200) {
    cluster.Advance(seconds(1));
    cluster.Submit(next++, 16 * 8);
    while (oldest == large) ++oldest;
    cluster.End(oldest++);
    cluster.ReportAll();
    cluster.Submit(waiting);  // as its gateway does while it waits
    if (cluster.Where(next - 1).valid()) ++overtook;
  }
  EXPECT_TRUE(cluster.Where(large).valid());
  EXPECT_GT(overtook, 5);
  EXPECT_LT(next, 60);
  EXPECT_EQ(cluster.scheduler.stats().reservations, 1);
}

TEST(PlacementTest, EvictedSequencesMoveWhereThereIsRoom) {
  TestCluster cluster;
  cluster.Join(1, 20);
  cluster.Submit(1, 16 * 5);
  cluster.Advance(seconds(1));
  cluster.Submit(2, 16 * 5);
  cluster.Report(1);
  cluster.runners[RunnerId(1)].sequences[SequenceId(2)].state = State::kEvicted;
  cluster.Report(1);
  EXPECT_EQ(cluster.scheduler.num_waiting(), 1u);
  // Nobody joins a runner whose own have to wait.
  cluster.Submit(3);
  EXPECT_EQ(cluster.Where(3), RunnerId());
  cluster.Join(2, 20);
  EXPECT_EQ(cluster.Where(2), RunnerId(2));
  EXPECT_EQ(cluster.runners[RunnerId(2)].sequences[SequenceId(2)].attempt, 2u);
  EXPECT_EQ(cluster.Where(3), RunnerId(2));
  EXPECT_EQ(cluster.scheduler.stats().migrations, 1);
}

TEST(PlacementTest, EvictedSequencesMayResumeThere) {
  TestCluster cluster;
  cluster.Join(1);
  cluster.Submit(1);
  auto& state = cluster.runners[RunnerId(1)].sequences[SequenceId(1)].state;
  state = State::kEvicted;
  cluster.Report(1);
  EXPECT_EQ(cluster.scheduler.num_waiting(), 1u);
  state = State::kRunning;
  cluster.Report(1);
  EXPECT_EQ(cluster.scheduler.num_waiting(), 0u);
  EXPECT_EQ(cluster.scheduler.runners().Get(RunnerId(1)).num_evicted, 0);
}

TEST(PlacementTest, PrefersRunnersWithFewAdapters) {
  Policies policies;
  policies.preferred_adapters.number = 1;
  TestCluster cluster({}, std::move(policies));
  cluster.Join(1);
  cluster.Join(2);
  cluster.Submit(1, 16, 1, 2);
  cluster.Submit(2, 16, 2, 2);
  EXPECT_NE(cluster.Where(1), cluster.Where(2));
  cluster.Submit(3, 16, 1, 2);
  EXPECT_EQ(cluster.Where(3), cluster.Where(1));
  // A third adapter rather joins than waits.
  cluster.Submit(4, 16, 3, 2);
  EXPECT_TRUE(cluster.Where(4).valid());
}

TEST(PlacementTest, SpreadsLargeAdapters) {
  Policies policies;
  policies.preferred_adapters.pool_share = 0.25;
  TestCluster cluster({}, std::move(policies));
  cluster.Join(1);
  cluster.Join(2);
  const int64_t large = cluster.runners[RunnerId(1)].info.pages_total / 5;
  cluster.Submit(1, 16, 1, large);
  cluster.Submit(2, 16, 2, large);
  EXPECT_NE(cluster.Where(1), cluster.Where(2));
  cluster.Submit(3, 16, 3, 1);
  cluster.Submit(4, 16, 2, large);
  EXPECT_EQ(cluster.Where(4), cluster.Where(2)) << "it is there already";
  // What is over is not counted any more.
  const RunnerId first = cluster.Where(1);
  cluster.runners[first].sequences.clear();
  cluster.Do(SequenceClosed{SequenceId(1)});
  cluster.Submit(5, 16, 5, large);
  EXPECT_EQ(cluster.Where(5), first);
  // A third large one rather joins than waits.
  cluster.Submit(6, 16, 6, large);
  EXPECT_TRUE(cluster.Where(6).valid());
}

TEST(PlacementTest, PromptsGoWhereTheyAreComputedSooner) {
  TestCluster cluster({.max_backlog_tokens = 100});
  cluster.Join(1, 1000);
  cluster.Submit(1, 60);
  cluster.Submit(2, 60);  // 60 before it
  EXPECT_EQ(cluster.Where(2), RunnerId(1));
  cluster.Join(2, 1000);
  cluster.Submit(3, 60);
  EXPECT_EQ(cluster.Where(3), RunnerId(2)) << "120 are too many";
  cluster.Submit(4, 400);
  cluster.Submit(5, 16);
  EXPECT_EQ(cluster.Where(4), RunnerId(2)) << "as large as it is, somebody must take it";
  EXPECT_FALSE(cluster.Where(5).valid());
  // A report with a first token is what makes room; one without is none.
  cluster.ReportAll();
  EXPECT_FALSE(cluster.Where(5).valid());
  cluster.runners[RunnerId(1)].sequences[SequenceId(1)].num_generated = 1;
  cluster.Report(1);
  EXPECT_EQ(cluster.Where(5), RunnerId(1));
  cluster.Submit(6, 16);
  EXPECT_EQ(cluster.Where(6), RunnerId(1));
  cluster.Submit(7, 60);
  cluster.Submit(8, 16);
  EXPECT_FALSE(cluster.Where(8).valid());
  // So is the end of one that had no token.
  cluster.End(2);
  EXPECT_EQ(cluster.Where(8), RunnerId(1));
}

TEST(PlacementTest, WhoWaitsForAnAdapterKeepsNobodyFromTheRunner) {
  TestCluster cluster({.max_backlog_tokens = 100});
  cluster.Join(1, 1000);
  cluster.Submit(1, 150);
  cluster.Submit(2, 16);
  EXPECT_FALSE(cluster.Where(2).valid());
  auto& first = cluster.runners[RunnerId(1)].sequences[SequenceId(1)];
  first.state = wire::RunnerSequenceState::kLoading;
  cluster.Report(1);
  EXPECT_EQ(cluster.Where(2), RunnerId(1)) << "nothing is computed for the first";
  first.state = wire::RunnerSequenceState::kPending;
  cluster.Report(1);
  cluster.Submit(3, 16);
  EXPECT_FALSE(cluster.Where(3).valid()) << "now it is";
}

TEST(PlacementTest, WhatALeavingRunnerHasGoesBeforeWhatWaits) {
  TestCluster cluster({.max_backlog_tokens = 100});
  cluster.Join(2, 1000);
  cluster.Submit(2, 150);
  cluster.Join(1, 1000);
  cluster.Submit(1, 150);
  ASSERT_EQ(cluster.Where(1), RunnerId(1));
  cluster.Submit(3, 16);
  EXPECT_FALSE(cluster.Where(3).valid()) << "both have enough to compute";
  cluster.ReportAll();
  cluster.Do(RunnerLeaving{RunnerId(1)});
  EXPECT_EQ(cluster.Where(1), RunnerId(1)) << "nobody has room";
  cluster.runners[RunnerId(2)].sequences[SequenceId(2)].num_generated = 1;
  cluster.Report(2);
  EXPECT_EQ(cluster.Where(1), RunnerId(2));
  EXPECT_FALSE(cluster.Where(3).valid());
}

TEST(PlacementTest, PrefetchesForTheNextInLine) {
  TestCluster cluster;
  cluster.Join(1, 10);
  cluster.Submit(1, 16 * 6);
  const auto prefetches = Of<Prefetch>(cluster.Submit(2, 16 * 6, 5, 1));
  ASSERT_EQ(prefetches.size(), 1u);
  EXPECT_EQ(prefetches[0].sequence, SequenceId(2));
  EXPECT_EQ(prefetches[0].runner, RunnerId(1));
  EXPECT_TRUE(Of<Prefetch>(cluster.Do(Tick{})).empty()) << "once";
}

TEST(PlacementTest, PrefetchesWhereAnySeatMayBeTheNextThatIsFree) {
  TestCluster cluster;
  for (const int32_t runner : {1, 2, 3}) cluster.Join(runner, 100, 1);
  for (const int64_t id : {1, 2, 3}) cluster.Submit(id);
  std::set<RunnerId> runners;
  for (const int32_t adapter : {5, 6, 7}) {
    const auto prefetches = Of<Prefetch>(cluster.Submit(10 + adapter, 16, adapter, 1));
    ASSERT_EQ(prefetches.size(), adapter < 7 ? 1u : 0u) << "the first two of the queue";
    if (!prefetches.empty()) runners.insert(prefetches[0].runner);
  }
  EXPECT_EQ(runners.size(), 2u) << "in turn";
}

TEST(PlacementTest, FairShareDecidesWhoIsNext) {
  Policies policies;
  policies.tenants = std::make_unique<FairShare>(FairShareOptions{});
  TestCluster cluster({}, std::move(policies));
  cluster.Join(1, 100, 1);
  for (int64_t id = 1; id <= 10; ++id) cluster.Submit(id);  // a noisy tenant
  wire::Submission quiet = cluster.Make(11);
  quiet.tenant = "quiet";
  cluster.Advance(seconds(1));
  quiet.arrival = cluster.now;
  cluster.Submit(quiet);
  cluster.End(1);
  cluster.Report(1);
  cluster.End(2);
  cluster.Report(1);
  EXPECT_EQ(cluster.Where(11), RunnerId(1)) << "the second after one of the noisy tenant's";
}

}  // namespace
}  // namespace aril::scheduler
