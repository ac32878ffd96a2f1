// Who is placed where its prompt has been computed.

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/scheduler.h"
#include "scheduler/test_support.h"

namespace aril::scheduler {
namespace {

using Marks = std::vector<wire::PrefixMark>;

class PrefixPlacementTest : public ::testing::Test {
 protected:
  void Start(const SchedulerOptions& options = {}, int num_runners = 3) {
    cluster_ = std::make_unique<TestCluster>(options);
    for (int32_t id = 1; id <= num_runners; ++id) cluster_->Join(id, 200);
  }
  // A prompt of these marks, and of no more tokens than they are of.
  wire::Submission Make(int64_t id, const Marks& prefix) {
    const int64_t tokens = prefix.empty() ? 16 : wire::PrefixDepth(prefix.size() - 1);
    wire::Submission submission = cluster_->Make(id, static_cast<int32_t>(tokens));
    submission.prefix = prefix;
    return submission;
  }
  RunnerId Place(const wire::Submission& submission) {
    cluster_->Submit(submission);
    return cluster_->Where(submission.sequence.value());
  }
  RunnerId Place(int64_t id, const Marks& prefix) { return Place(Make(id, prefix)); }
  // Runner 3, which is taken first of equals, is avoided.
  RunnerId PlaceElsewhere(wire::Submission submission) {
    submission.failed_on = RunnerId(3);
    return Place(submission);
  }
  const SchedulerStats& stats() const { return cluster_->scheduler.stats(); }
  int64_t Backlog(int32_t runner) const {
    return cluster_->scheduler.runners().Get(RunnerId(runner)).backlog_tokens;
  }

  std::unique_ptr<TestCluster> cluster_;
};

TEST_F(PrefixPlacementTest, APromptGoesWhereItsBeginningWasComputed) {
  Start();
  EXPECT_EQ(Place(1, {1, 2}), RunnerId(3)) << "the highest id of equals";
  cluster_->Report(3);
  cluster_->End(1);
  EXPECT_EQ(stats().prefix_placements, 0);
  // Another one is busy.
  ASSERT_EQ(PlaceElsewhere(Make(2, {9})), RunnerId(2));
  EXPECT_EQ(Place(3, {}), RunnerId(2)) << "the largest working set, else";
  EXPECT_EQ(Place(4, {1, 2, 3}), RunnerId(3));
  EXPECT_EQ(stats().prefix_placements, 1);
  EXPECT_EQ(stats().prefix_tokens, 128);
  EXPECT_EQ(Place(5, {1, 7}), RunnerId(3)) << "as far as they are alike";
  EXPECT_EQ(stats().prefix_tokens, 192);
  EXPECT_EQ(Place(6, {7, 2}), RunnerId(3)) << "now the largest working set";
}

TEST_F(PrefixPlacementTest, TheLongestBeginningIsPreferredToAnyLoad) {
  Start();
  ASSERT_EQ(Place(1, {1}), RunnerId(3));
  ASSERT_EQ(PlaceElsewhere(Make(2, {1, 2})), RunnerId(2));
  cluster_->End(2);
  for (int64_t id = 10; id < 13; ++id) ASSERT_EQ(Place(id, {}), RunnerId(3));
  EXPECT_EQ(Place(20, {1, 2, 3}), RunnerId(2));
  EXPECT_EQ(Place(21, {1}), RunnerId(3)) << "the largest working set, of those that have as much";
}

TEST_F(PrefixPlacementTest, WhereThereIsNoRoomItIsComputedAgain) {
  Start();
  int64_t id = 0;
  for (; id < 8; ++id) ASSERT_EQ(Place(id, {1, 2}), RunnerId(3));
  EXPECT_EQ(Place(id++, {1, 2}), RunnerId(2)) << "all seats are taken";
  EXPECT_EQ(stats().prefix_placements, 7);
  EXPECT_EQ(Place(id++, {1, 2}), RunnerId(2));
  EXPECT_EQ(stats().prefix_placements, 8);
}

TEST_F(PrefixPlacementTest, WhatIsThereIsNoBacklog) {
  SchedulerOptions options;
  options.max_backlog_tokens = 200;
  Start(options);
  EXPECT_EQ(Place(1, {1, 2, 3}), RunnerId(3));
  EXPECT_EQ(Backlog(3), 192);
  EXPECT_EQ(Place(2, {1, 2, 3}), RunnerId(3));
  EXPECT_EQ(Backlog(3), 193) << "a token at least";
  cluster_->Report(3);
  EXPECT_EQ(Backlog(3), 193);
  EXPECT_EQ(Place(3, {1, 2, 4}), RunnerId(3));
  EXPECT_EQ(Backlog(3), 257);
  EXPECT_EQ(Place(4, {1, 2, 4}), RunnerId(2)) << "too much is to be computed before it";
  EXPECT_EQ(Backlog(2), 192);
}

TEST_F(PrefixPlacementTest, IdleRunnersAreLeftToIdleWhileOthersAreFilled) {
  for (const int64_t flat_batch : {0, 4}) {
    SchedulerOptions options;
    options.flat_batch = flat_batch;
    Start(options);
    ASSERT_EQ(Place(1, {1}), RunnerId(3));
    cluster_->End(1);
    ASSERT_EQ(PlaceElsewhere(Make(2, {})), RunnerId(2));
    EXPECT_EQ(Place(3, {1}), flat_batch == 0 ? RunnerId(3) : RunnerId(2)) << flat_batch;
  }
  SchedulerOptions options;
  options.flat_batch = 4;
  Start(options);
  ASSERT_EQ(Place(1, {}), RunnerId(3));
  ASSERT_EQ(PlaceElsewhere(Make(2, {1})), RunnerId(2));
  cluster_->End(1);
  cluster_->End(2);
  EXPECT_EQ(Place(3, {1}), RunnerId(2)) << "of two that idle";
}

TEST_F(PrefixPlacementTest, TheNumericClassGoesFirst) {
  Start({}, 0);
  cluster_->Join(1, 200, 8, "a");
  cluster_->Join(2, 200, 8, "b");
  wire::Submission first = Make(1, {1, 2});
  first.numeric_class = "b";
  ASSERT_EQ(Place(first), RunnerId(2));
  wire::Submission second = Make(2, {1, 2});
  second.numeric_class = "a";
  EXPECT_EQ(Place(second), RunnerId(1));
}

TEST_F(PrefixPlacementTest, WhatAGoneRunnerHadIsForgotten) {
  Start({}, 2);
  ASSERT_EQ(Place(1, {1, 2}), RunnerId(2));
  cluster_->End(1);
  cluster_->Do(RunnerLost{RunnerId(2)});
  cluster_->runners.erase(RunnerId(2));
  cluster_->Join(2, 200);
  EXPECT_EQ(Place(2, {1, 2}), RunnerId(2)) << "the highest id";
  EXPECT_EQ(stats().prefix_placements, 0);
  EXPECT_EQ(Place(3, {1, 2}), RunnerId(2));
  EXPECT_EQ(stats().prefix_placements, 1);
}

TEST_F(PrefixPlacementTest, TheSameMarksOfAnotherTenantAreOthers) {
  Start();
  ASSERT_EQ(Place(1, {1, 2}), RunnerId(3));
  cluster_->End(1);
  ASSERT_EQ(PlaceElsewhere(Make(2, {})), RunnerId(2));
  wire::Submission other = Make(3, {1, 2});
  other.tenant = "acme";
  EXPECT_EQ(Place(other), RunnerId(2));
  EXPECT_EQ(Place(4, {1, 2}), RunnerId(3));
}

// Of a runner without a cache nothing is expected, and its backlogs are what they are.
TEST_F(PrefixPlacementTest, RunnersWithoutACacheHaveNothing) {
  Start({}, 0);
  cluster_->runners[RunnerId(1)].info = {.runner = RunnerId(1),
                                         .numeric_class = "a",
                                         .max_running = 8,
                                         .pages_total = 200,
                                         .caches_prefixes = false};
  cluster_->Do(RunnerJoined{cluster_->runners[RunnerId(1)].info});
  cluster_->Report(1);
  EXPECT_EQ(Place(1, {1, 2}), RunnerId(1));
  EXPECT_EQ(Place(2, {1, 2}), RunnerId(1));
  EXPECT_EQ(Backlog(1), 256);
  EXPECT_EQ(stats().prefix_placements, 0);
}

// As much as a runner may say of itself.
TEST_F(PrefixPlacementTest, APoolMayHaveAnyNumberOfTokens) {
  SchedulerOptions options;
  options.pages.page_tokens = int64_t{1} << 30;
  cluster_ = std::make_unique<TestCluster>(options);
  cluster_->Join(1, int64_t{1} << 40);
  EXPECT_EQ(Place(1, {1, 2}), RunnerId(1));
  EXPECT_EQ(Place(2, {1, 2}), RunnerId(1));
  EXPECT_EQ(stats().prefix_tokens, 128);
}

TEST_F(PrefixPlacementTest, OfEqualOnesThatWhichUsesTheAdapterIsTaken) {
  Start();
  ASSERT_EQ(Place(1, {1}), RunnerId(3));
  wire::Submission with_adapter = Make(2, {1});
  with_adapter.adapter = AdapterId(7);
  ASSERT_EQ(PlaceElsewhere(with_adapter), RunnerId(2));
  wire::Submission latest = Make(3, {1});
  latest.failed_on = RunnerId(2);
  ASSERT_EQ(Place(latest), RunnerId(3));
  cluster_->End(3);
  with_adapter.sequence = SequenceId(4);
  EXPECT_EQ(Place(with_adapter), RunnerId(2));
}

TEST_F(PrefixPlacementTest, NobodyIsPlacedWhereNobodyIsToBe) {
  Start();
  ASSERT_EQ(Place(1, {1, 2}), RunnerId(3));
  cluster_->ReportAll();
  cluster_->Do(RunnerLeaving{RunnerId(3)});
  EXPECT_EQ(cluster_->Where(1), RunnerId(2)) << "moved";
  EXPECT_EQ(Place(2, {1, 2}), RunnerId(2)) << "and known to be there";
  EXPECT_EQ(stats().prefix_tokens, 128);
}

TEST_F(PrefixPlacementTest, WhatMovesGoesWhereItsBeginningIs) {
  Start();
  ASSERT_EQ(Place(1, {1, 2, 3, 4}), RunnerId(3));
  ASSERT_EQ(PlaceElsewhere(cluster_->Make(2, 16 * 190)), RunnerId(2));
  ASSERT_EQ(PlaceElsewhere(Make(3, {1, 2, 3, 4})), RunnerId(1)) << "where it fits";
  cluster_->End(2);
  cluster_->End(3);
  ASSERT_EQ(PlaceElsewhere(Make(4, {})), RunnerId(2)) << "which has the largest working set now";
  cluster_->ReportAll();
  cluster_->Do(RunnerLeaving{RunnerId(3)});
  EXPECT_EQ(cluster_->Where(1), RunnerId(1));
  EXPECT_EQ(stats().prefix_tokens, 256);
}

TEST_F(PrefixPlacementTest, APreferenceForFewAdaptersGoesFirst) {
  Policies policies;
  policies.preferred_adapters = {.number = 1};
  cluster_ = std::make_unique<TestCluster>(SchedulerOptions(), std::move(policies));
  for (int32_t id = 1; id <= 3; ++id) cluster_->Join(id, 200);
  const auto place = [&](int64_t id, int32_t adapter, const Marks& prefix) {
    wire::Submission submission = Make(id, prefix);
    submission.adapter = AdapterId(adapter);
    return Place(submission);
  };
  // An activated LoRA's, which begins like the base model's.
  ASSERT_EQ(place(1, -1, {1, 2}), RunnerId(3));
  ASSERT_EQ(place(2, 5, {3}), RunnerId(3));
  EXPECT_EQ(place(3, 6, {1, 2, 4}), RunnerId(2)) << "while somebody has none";
  EXPECT_EQ(place(4, 5, {1, 2, 5}), RunnerId(3));
}

TEST_F(PrefixPlacementTest, ItCanBeTurnedOff) {
  SchedulerOptions options;
  options.prefers_prefixes = false;
  Start(options);
  ASSERT_EQ(Place(1, {1, 2}), RunnerId(3));
  cluster_->End(1);
  ASSERT_EQ(PlaceElsewhere(Make(2, {})), RunnerId(2));
  EXPECT_EQ(Place(3, {1, 2}), RunnerId(2));
  EXPECT_EQ(stats().prefix_placements, 0);
  EXPECT_EQ(Backlog(2), 128 + 16);
}

}  // namespace
}  // namespace aril::scheduler
