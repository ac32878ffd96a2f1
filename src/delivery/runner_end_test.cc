#include "delivery/runner_end.h"

#include "gtest/gtest.h"

namespace aril::delivery {
namespace {

const ConnectionId kLine(1);

StartAttempt Start(int64_t sequence, uint32_t attempt, int64_t epoch = 1) {
  StartAttempt start;
  start.epoch = Epoch(epoch);
  start.gateway = GatewayId(0);
  start.request.sequence = SequenceId(sequence);
  start.request.attempt = attempt;
  return start;
}

TEST(RunnerEndTest, RefusesOlderEpochs) {
  RunnerEnd end(9);
  EXPECT_EQ(end.OnStart(Start(1, 1, 5), kLine).verdict, StartVerdict::kAccepted);
  EXPECT_EQ(end.OnStart(Start(2, 1, 4), kLine).verdict, StartVerdict::kStaleEpoch);
  EXPECT_TRUE(end.OnEpoch(Epoch(7)));
  EXPECT_FALSE(end.OnEpoch(Epoch(6)));
  EXPECT_EQ(end.OnStart(Start(2, 1, 6), kLine).verdict, StartVerdict::kStaleEpoch);
  EXPECT_EQ(end.num_live(), 1u);
}

TEST(RunnerEndTest, RunsTheLatestAttemptOnly) {
  RunnerEnd end(9);
  end.OnStart(Start(1, 2), kLine);
  EXPECT_EQ(end.OnStart(Start(1, 2), kLine).verdict, StartVerdict::kStaleAttempt) << "repeated";
  EXPECT_EQ(end.OnStart(Start(1, 1), kLine).verdict, StartVerdict::kStaleAttempt) << "late";
  const auto result = end.OnStart(Start(1, 3), kLine);
  EXPECT_EQ(result.verdict, StartVerdict::kAccepted);
  ASSERT_EQ(result.superseded.size(), 1u);
  EXPECT_EQ(result.superseded[0], (ReleaseAttempt{SequenceId(1), 2}));
  EXPECT_EQ(end.Find(SequenceId(1))->attempt, 3u);
}

TEST(RunnerEndTest, ReleasesOnlyTheAttemptNamed) {
  RunnerEnd end(9);
  end.OnStart(Start(1, 2), kLine);
  EXPECT_FALSE(end.OnRelease({SequenceId(1), 1}));
  EXPECT_FALSE(end.OnRelease({SequenceId(1), 3}));
  EXPECT_FALSE(end.OnRelease({SequenceId(2), 2}));
  EXPECT_TRUE(end.OnRelease({SequenceId(1), 2}));
  EXPECT_EQ(end.Find(SequenceId(1)), nullptr);
}

TEST(RunnerEndTest, ABrokenConnectionReleasesWhatCameOverIt) {
  RunnerEnd end(9);
  end.OnStart(Start(1, 1), ConnectionId(1));
  end.OnStart(Start(2, 1), ConnectionId(1));
  end.OnStart(Start(3, 1), ConnectionId(2));
  // The same gateway is back already, with the next attempt, before the old line's end is noticed.
  end.OnStart(Start(2, 2), ConnectionId(3));
  EXPECT_EQ(end.OnConnectionBroken(ConnectionId(1)),
            (std::vector<ReleaseAttempt>{{SequenceId(1), 1}}));
  EXPECT_EQ(end.num_live(), 2u);
  EXPECT_TRUE(end.OnConnectionBroken(ConnectionId(1)).empty());
}

TEST(RunnerEndTest, IsBoundedAndDrains) {
  RunnerEnd end(2);
  end.OnStart(Start(1, 1), kLine);
  end.OnStart(Start(2, 1), kLine);
  EXPECT_EQ(end.OnStart(Start(3, 1), kLine).verdict, StartVerdict::kFull);
  EXPECT_EQ(end.OnStart(Start(2, 2), kLine).verdict, StartVerdict::kAccepted) << "in its own place";
  end.OnFinished({SequenceId(1), 1});
  end.SetDraining(true);
  EXPECT_EQ(end.OnStart(Start(3, 1), kLine).verdict, StartVerdict::kDraining);
  EXPECT_EQ(end.num_live(), 1u);
}

}  // namespace
}  // namespace aril::delivery
