#include "scheduler/scheduler.h"

#include "gtest/gtest.h"
#include "scheduler/test_support.h"

namespace aril::scheduler {
namespace {

using std::chrono::seconds;

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

}  // namespace
}  // namespace aril::scheduler
