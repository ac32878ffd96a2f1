#include "scheduler/scheduler.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"
#include "scheduler/test_support.h"

namespace aril::scheduler {
namespace {

using std::chrono::seconds;
using State = wire::RunnerSequenceState;

template <typename T>
std::vector<T> Of(const Actions& actions) {
  std::vector<T> found;
  for (const Action& action : actions) {
    if (const auto* a = std::get_if<T>(&action)) found.push_back(*a);
  }
  return found;
}

TEST(SchedulerTest, FillsOneRunnerBeforeTheNext) {
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

TEST(SchedulerTest, PromisedPagesCountUntilReported) {
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

TEST(SchedulerTest, QueueIsFirstComeFirstServed) {
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

TEST(SchedulerTest, PrioritiesGoFirst) {
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
TEST(SchedulerTest, HeadOfLineNeitherBlocksNorStarves) {
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

TEST(SchedulerTest, RefusesWhatFitsNoRunner) {
  TestCluster cluster;
  cluster.Join(1, 10);
  const auto early = Of<Refuse>(cluster.Submit(1, 16 * 11));
  ASSERT_EQ(early.size(), 1u);
  EXPECT_GT(early[0].retry_after, Duration(0)) << "a larger runner may be about to come";
  cluster.Advance(seconds(5));
  const auto refusals = Of<Refuse>(cluster.Submit(1, 16 * 11));
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].retry_after, Duration(0));
  EXPECT_NE(refusals[0].reason.find("no runner has more than 10"), std::string::npos);
  EXPECT_EQ(cluster.scheduler.num_sequences(), 0u);
  // What has had an attempt fits a runner that may come back.
  wire::Submission failed = cluster.Make(2, 16 * 11);
  failed.attempt = 1;
  EXPECT_TRUE(Of<Refuse>(cluster.Submit(failed)).empty());
}

TEST(SchedulerTest, WhatFitsNoneOfTheRunnersThatAreLeftDoesNotWaitForEver) {
  TestCluster cluster({.forget_lost_after = seconds(30)});
  cluster.Join(1, 20);
  cluster.Join(2, 10);
  cluster.Advance(seconds(10));
  cluster.Do(RunnerLost{RunnerId(1)});
  cluster.Do(Tick{});
  EXPECT_TRUE(Of<Refuse>(cluster.Submit(1, 16 * 11)).empty()) << "the large runner may come back";
  // Its client has tokens: they are not given up.
  wire::Submission begun = cluster.Make(2, 16 * 11);
  begun.attempt = 1;
  begun.num_generated = 5;
  cluster.Submit(begun);
  cluster.Advance(seconds(29));
  EXPECT_TRUE(Of<Refuse>(cluster.Do(Tick{})).empty());
  cluster.Advance(seconds(1));
  const auto refusals = Of<Refuse>(cluster.Do(Tick{}));
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].sequence, SequenceId(1));
  EXPECT_EQ(refusals[0].retry_after, Duration(0));
  EXPECT_NE(refusals[0].reason.find("no runner has more than 10"), std::string::npos);
  EXPECT_EQ(cluster.scheduler.num_sequences(), 1u);
  EXPECT_EQ(Of<Refuse>(cluster.Submit(3, 16 * 11)).size(), 1u) << "nor is it let in any more";
  cluster.Join(1, 20);
  EXPECT_EQ(cluster.Where(2), RunnerId(1));
  EXPECT_TRUE(Of<Refuse>(cluster.Submit(4, 16 * 9)).empty());
}

TEST(SchedulerTest, WithoutRunnersEverythingWaits) {
  TestCluster cluster;
  cluster.Join(1, 20);
  cluster.Do(RunnerLost{RunnerId(1)});
  cluster.Submit(1, 16 * 11);
  for (int i = 0; i < 3; ++i) {
    cluster.Advance(seconds(60));
    EXPECT_TRUE(Of<Refuse>(cluster.Do(Tick{})).empty());
  }
  cluster.Join(1, 20);
  EXPECT_EQ(cluster.Where(1), RunnerId(1));
}

TEST(SchedulerTest, QueueIsBounded) {
  Policies policies;
  policies.bound = std::make_unique<FixedBound>(2);
  TestCluster cluster({}, std::move(policies));
  cluster.Submit(1);
  cluster.Submit(2);
  const auto refusals = Of<Refuse>(cluster.Submit(3));
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_GE(refusals[0].retry_after, seconds(1));
  // What has been let in once is let in again.
  wire::Submission again = cluster.Make(4);
  again.attempt = 1;
  EXPECT_TRUE(Of<Refuse>(cluster.Submit(again)).empty());
  // The first sequence of a request is judged for all of them.
  wire::Submission sibling = cluster.Make(5);
  sibling.is_sibling = true;
  EXPECT_TRUE(Of<Refuse>(cluster.Submit(sibling)).empty());
}

TEST(SchedulerTest, AbortsWhatCannotBeInTime) {
  Policies policies;
  policies.abort = std::make_unique<EarlyAbort>(seconds(5));
  TestCluster cluster({}, std::move(policies));
  cluster.Submit(1);
  wire::Submission started = cluster.Make(2);
  started.num_generated = 3;
  started.attempt = 1;
  cluster.Submit(started);
  cluster.Advance(seconds(6));
  const auto refusals = Of<Refuse>(cluster.Do(Tick{}));
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].sequence, SequenceId(1));
  EXPECT_EQ(cluster.scheduler.num_waiting(), 1u) << "its client has had tokens";
}

TEST(SchedulerTest, EvictedSequencesMoveWhereThereIsRoom) {
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

TEST(SchedulerTest, EvictedSequencesMayResumeThere) {
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

TEST(SchedulerTest, RepeatedSubmissionsRepeatThePlacement) {
  TestCluster cluster;
  cluster.Join(1);
  const auto first = Of<wire::Placement>(cluster.Submit(1));
  const auto again = Of<wire::Placement>(cluster.Submit(1));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].attempt, first[0].attempt);
  EXPECT_EQ(again[0].runner, first[0].runner);
  cluster.Report(1);
  EXPECT_TRUE(cluster.Submit(1).empty()) << "it is known to run";
}

TEST(SchedulerTest, AFailedAttemptIsPlacedElsewhere) {
  TestCluster cluster;
  cluster.Join(1);
  cluster.Join(2);
  cluster.Submit(1);
  ASSERT_EQ(cluster.Where(1), RunnerId(2));
  wire::Submission failed = cluster.Make(1);
  failed.attempt = 1;
  failed.failed_on = RunnerId(2);
  const auto placements = Of<wire::Placement>(cluster.Submit(failed));
  ASSERT_EQ(placements.size(), 1u);
  EXPECT_EQ(placements[0].runner, RunnerId(1));
  EXPECT_EQ(placements[0].attempt, 2u);
  // Rather there again than nowhere.
  failed.attempt = 2;
  failed.failed_on = RunnerId(1);
  cluster.Do(RunnerLost{RunnerId(2)});
  EXPECT_TRUE(Of<wire::Placement>(cluster.Submit(failed)).empty()) << "but not at once";
  cluster.Advance(seconds(1));
  EXPECT_EQ(Of<wire::Placement>(cluster.Do(Tick{})).at(0).runner, RunnerId(1));
}

TEST(SchedulerTest, ALostRunnerGetsNothingAndKeepsItsStreams) {
  TestCluster cluster;
  cluster.Join(1);
  cluster.Submit(1);
  cluster.Report(1);
  EXPECT_TRUE(cluster.Do(RunnerLost{RunnerId(1)}).empty());
  cluster.Submit(2);
  EXPECT_EQ(cluster.scheduler.num_waiting(), 1u);
  EXPECT_EQ(cluster.scheduler.num_sequences(), 2u);
  // It was not dead, only not heard of.
  cluster.Do(RunnerJoined{cluster.runners[RunnerId(1)].info});
  cluster.Report(1);
  EXPECT_EQ(cluster.Where(2), RunnerId(1));
}

TEST(SchedulerTest, LostRunnersAreForgottenWithTheirLastSequence) {
  TestCluster cluster;
  cluster.Join(1);
  cluster.Submit(1);
  cluster.Do(RunnerLost{RunnerId(1)});
  EXPECT_EQ(cluster.scheduler.runners().size(), 1u);
  cluster.End(1);
  EXPECT_EQ(cluster.scheduler.runners().size(), 0u);
}

TEST(SchedulerTest, WhatALostRunnerRanIsForgottenAfterAWhile) {
  TestCluster cluster;
  cluster.Join(1);
  cluster.Submit(1);
  cluster.Do(RunnerLost{RunnerId(1)});
  cluster.Advance(seconds(29));
  cluster.Do(Tick{});
  EXPECT_EQ(cluster.scheduler.num_sequences(), 1u);
  cluster.Advance(seconds(2));
  cluster.Do(Tick{});
  EXPECT_EQ(cluster.scheduler.num_sequences(), 0u);
  EXPECT_EQ(cluster.scheduler.runners().size(), 0u);
}

TEST(SchedulerTest, OldReportsAreIgnored) {
  TestCluster cluster;
  cluster.Join(1);
  cluster.Submit(1);
  cluster.Report(1);
  wire::RunnerReport old{RunnerId(1), 1, 100, {}};
  cluster.Do(old);
  EXPECT_EQ(cluster.scheduler.num_sequences(), 1u);
  cluster.runners[RunnerId(1)].sequences.clear();
  cluster.Report(1);
  EXPECT_EQ(cluster.scheduler.num_sequences(), 0u) << "it ended there";
}

TEST(SchedulerTest, LostPlacementsAreGivenUp) {
  TestCluster cluster;
  cluster.Join(1);
  cluster.Submit(1);
  cluster.runners[RunnerId(1)].sequences.clear();  // it never came there
  cluster.Report(1);
  EXPECT_EQ(cluster.scheduler.num_sequences(), 1u);
  cluster.Advance(seconds(6));
  cluster.Report(1);
  EXPECT_EQ(cluster.scheduler.num_sequences(), 0u);
  EXPECT_EQ(cluster.scheduler.runners().Get(RunnerId(1)).promised_pages, 0);
}

TEST(SchedulerTest, ASuccessorLearnsEverythingFromReportsAndSubmissions) {
  TestCluster cluster;
  cluster.Join(1, 100, 2);
  for (int64_t id = 1; id <= 3; ++id) cluster.Submit(id);
  cluster.ReportAll();
  TestCluster successor({}, {}, 2);
  successor.runners = cluster.runners;
  successor.submissions = cluster.submissions;
  // In either order.
  successor.Submit(3);
  successor.Do(RunnerJoined{cluster.runners[RunnerId(1)].info});
  successor.Report(1);
  EXPECT_EQ(successor.scheduler.num_sequences(), 3u);
  EXPECT_EQ(successor.scheduler.num_waiting(), 1u);
  const RunnerLoad& load = successor.scheduler.runners().Get(RunnerId(1));
  EXPECT_EQ(load.num_sequences, 2);
  EXPECT_EQ(load.promised_pages, 0);
  successor.End(1);
  successor.Report(1);
  EXPECT_EQ(successor.Where(3), RunnerId(1));
}

TEST(SchedulerTest, AdoptedSequencesMoveUnderTheNextAttempt) {
  TestCluster cluster;
  cluster.submissions[SequenceId(1)] = cluster.Make(1);
  cluster.Join(1);
  cluster.runners[RunnerId(1)].sequences[SequenceId(1)] = {.attempt = 7};
  cluster.Report(1);
  cluster.Join(2);
  const auto placements = Of<wire::Placement>(cluster.Do(RunnerLeaving{RunnerId(1)}));
  ASSERT_EQ(placements.size(), 1u);
  EXPECT_EQ(placements[0].attempt, 8u);
  EXPECT_EQ(placements[0].runner, RunnerId(2));
}

TEST(SchedulerTest, ALostGatewaysSequencesAreVoid) {
  TestCluster cluster;
  cluster.Join(1, 100, 1);
  cluster.Submit(1);
  cluster.Submit(2);
  wire::Submission other = cluster.Make(3);
  other.gateway = GatewayId(9);
  cluster.Submit(other);
  cluster.runners[RunnerId(1)].sequences.clear();
  cluster.Do(GatewayLost{kGateway});
  EXPECT_EQ(cluster.scheduler.num_sequences(), 1u);
  EXPECT_EQ(cluster.Where(3), RunnerId(1));
}

TEST(SchedulerTest, PrefersRunnersWithFewAdapters) {
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

TEST(SchedulerTest, SpreadsLargeAdapters) {
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

TEST(SchedulerTest, PromptsGoWhereTheyAreComputedSooner) {
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

TEST(SchedulerTest, WhoWaitsForAnAdapterKeepsNobodyFromTheRunner) {
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

TEST(SchedulerTest, WhatALeavingRunnerHasGoesBeforeWhatWaits) {
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

TEST(SchedulerTest, ASuccessorKnowsTheBacklog) {
  TestCluster cluster({.max_backlog_tokens = 100}, {}, 2);
  cluster.runners[RunnerId(1)].info = {RunnerId(1), "a", 8, 1000};
  for (const int64_t id : {1, 2}) {
    cluster.submissions[SequenceId(id)] = cluster.Make(id, 90);
    cluster.runners[RunnerId(1)].sequences[SequenceId(id)].attempt = 1;
  }
  cluster.runners[RunnerId(1)].sequences[SequenceId(1)].num_generated = 3;
  cluster.Join(1, 1000);
  cluster.Submit(3, 16);
  EXPECT_EQ(cluster.Where(3), RunnerId(1)) << "only one of them waits for a token";
  cluster.Submit(4, 16);
  EXPECT_FALSE(cluster.Where(4).valid());
}

TEST(SchedulerTest, PrefetchesForTheNextInLine) {
  TestCluster cluster;
  cluster.Join(1, 10);
  cluster.Submit(1, 16 * 6);
  const auto prefetches = Of<Prefetch>(cluster.Submit(2, 16 * 6, 5, 1));
  ASSERT_EQ(prefetches.size(), 1u);
  EXPECT_EQ(prefetches[0].sequence, SequenceId(2));
  EXPECT_EQ(prefetches[0].runner, RunnerId(1));
  EXPECT_TRUE(Of<Prefetch>(cluster.Do(Tick{})).empty()) << "once";
}

TEST(SchedulerTest, PrefetchesWhereAnySeatMayBeTheNextThatIsFree) {
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

TEST(SchedulerTest, FairShareDecidesWhoIsNext) {
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
