#include "delivery/gateway_end.h"

#include "gtest/gtest.h"

namespace aril::delivery {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const SequenceId kSequence(1);

template <typename T>
std::vector<T> Of(const Effects& effects) {
  std::vector<T> found;
  for (const Effect& effect : effects) {
    if (const auto* e = std::get_if<T>(&effect)) found.push_back(*e);
  }
  return found;
}

class GatewayEndTest : public testing::Test {
 protected:
  GatewayEndTest() { end_.OnScheduler(Epoch(1), now_); }

  Effects Open(int64_t id = 1) {
    wire::SequenceRequest request;
    request.sequence = SequenceId(id);
    request.prompt = {1, 2, 3};
    request.max_tokens = 8;
    request.is_sibling = id > 1;
    return *end_.Open(request, {.adapter_pages = 2}, now_);
  }
  Effects Place(uint32_t attempt, int32_t runner, int64_t epoch = 1) {
    return end_.OnPlacement({Epoch(epoch), kSequence, GatewayId(0), attempt, RunnerId(runner)},
                            now_);
  }
  Effects Token(int32_t runner, uint32_t attempt, int32_t index,
                std::optional<wire::FinishReason> finish = {}) {
    wire::TokenEvent event;
    event.sequence = kSequence;
    event.attempt = attempt;
    event.index = index;
    event.token = 100 + index;
    event.finish = finish;
    return end_.OnToken(RunnerId(runner), event, now_);
  }

  TimePoint now_{seconds(1)};
  GatewayEnd end_{{.gateway = GatewayId(0), .max_failures = 2, .max_live = 3}};
};

TEST_F(GatewayEndTest, SubmitsPlacesStreamsCloses) {
  const auto submissions = Of<wire::Submission>(Open());
  ASSERT_EQ(submissions.size(), 1u);
  EXPECT_EQ(submissions[0].num_tokens, 3);
  EXPECT_EQ(submissions[0].max_tokens, 11);
  EXPECT_EQ(submissions[0].attempt, 0u);
  const auto starts = Of<StartOn>(Place(1, 7));
  ASSERT_EQ(starts.size(), 1u);
  EXPECT_EQ(starts[0].runner, RunnerId(7));
  EXPECT_EQ(starts[0].start.request.attempt, 1u);
  EXPECT_EQ(Of<Deliver>(Token(7, 1, 0)).size(), 1u);
  const Effects last = Token(7, 1, 1, wire::FinishReason::kStop);
  EXPECT_EQ(Of<Deliver>(last).at(0).event.finish, wire::FinishReason::kStop);
  EXPECT_EQ(Of<CloseSequence>(last).size(), 1u);
  EXPECT_EQ(end_.num_live(), 0u);
}

TEST_F(GatewayEndTest, SaysWhatHasASiblingBeforeIt) {
  EXPECT_FALSE(Of<wire::Submission>(Open(1)).at(0).is_sibling);
  EXPECT_TRUE(Of<wire::Submission>(Open(2)).at(0).is_sibling);
}

TEST_F(GatewayEndTest, ObeysOnlyTheNextAttemptOfNoOlderEpoch) {
  Open();
  EXPECT_TRUE(Place(2, 7).empty());
  EXPECT_EQ(Place(1, 7, 5).size(), 1u);
  EXPECT_TRUE(Place(1, 8, 5).empty()) << "repeated";
  EXPECT_TRUE(Place(2, 8, 4).empty()) << "a scheduler of the past";
  EXPECT_EQ(Of<StartOn>(Place(2, 8, 5)).size(), 1u);
}

TEST_F(GatewayEndTest, AMigrationGoesOnWithTheTokensSoFar) {
  Open();
  Place(1, 7);
  Token(7, 1, 0);
  Token(7, 1, 1);
  const Effects moved = Place(2, 8);
  EXPECT_EQ(Of<ReleaseOn>(moved).at(0).release, (ReleaseAttempt{kSequence, 1}));
  EXPECT_EQ(Of<StartOn>(moved).at(0).start.output, (std::vector<int32_t>{100, 101}));
  // What the old one still sends is fenced off, and answered.
  const Effects stale = Token(7, 1, 2);
  EXPECT_TRUE(Of<Deliver>(stale).empty());
  EXPECT_EQ(Of<ReleaseOn>(stale).at(0).runner, RunnerId(7));
  EXPECT_EQ(Of<Deliver>(Token(8, 2, 2)).size(), 1u);
}

TEST_F(GatewayEndTest, RepeatedTokensAreDropped) {
  Open();
  Place(1, 7);
  Token(7, 1, 0);
  EXPECT_TRUE(Token(7, 1, 0).empty());
  EXPECT_EQ(Of<Deliver>(Token(7, 1, 1)).size(), 1u);
}

TEST_F(GatewayEndTest, AGapEndsTheAttempt) {
  Open();
  Place(1, 7);
  Token(7, 1, 0);
  const Effects gap = Token(7, 1, 2);
  EXPECT_TRUE(Of<Deliver>(gap).empty());
  EXPECT_EQ(Of<ReleaseOn>(gap).size(), 1u);
  const auto again = Of<wire::Submission>(gap);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].attempt, 1u);
  EXPECT_EQ(again[0].num_tokens, 4);
  EXPECT_EQ(again[0].failed_on, RunnerId(7));
}

TEST_F(GatewayEndTest, ALostFinishIsAGap) {
  Open();
  Place(1, 7);
  wire::TokenEvent finish;
  finish.sequence = kSequence;
  finish.attempt = 1;
  finish.index = 1;  // after a token that never came
  finish.finish = wire::FinishReason::kStop;
  EXPECT_EQ(Of<wire::Submission>(end_.OnToken(RunnerId(7), finish, now_)).size(), 1u);
}

// Once at once, so that a stream goes on quickly; then slower and slower.
TEST_F(GatewayEndTest, TooManyFailuresAreAnExplicitError) {
  Open();
  Place(1, 7);
  EXPECT_EQ(Of<wire::Submission>(end_.OnRunnerBroken(RunnerId(7), now_)).size(), 1u);
  Place(2, 7);
  EXPECT_TRUE(end_.OnRunnerBroken(RunnerId(7), now_).empty());
  EXPECT_TRUE(end_.OnTick(now_ + milliseconds(499)).empty());
  EXPECT_EQ(Of<wire::Submission>(end_.OnTick(now_ += milliseconds(500))).size(), 1u);
  Place(3, 8);
  const Effects last = end_.OnRunnerBroken(RunnerId(8), now_);
  const auto delivered = Of<Deliver>(last);
  ASSERT_EQ(delivered.size(), 1u);
  EXPECT_EQ(delivered[0].event.error.code(), StatusCode::kUnavailable);
  EXPECT_EQ(Of<CloseSequence>(last).size(), 1u);
}

TEST_F(GatewayEndTest, OnlyFailuresWithoutATokenBetweenThemCount) {
  Open();
  for (int32_t i = 0; i < 7; ++i) {
    const auto attempt = static_cast<uint32_t>(i + 1);
    Place(attempt, 7);
    EXPECT_EQ(Of<Deliver>(Token(7, attempt, i)).size(), 1u);
    EXPECT_EQ(Of<wire::Submission>(end_.OnRunnerBroken(RunnerId(7), now_)).size(), 1u);
  }
}

TEST_F(GatewayEndTest, APlacementComesBeforeARetry) {
  Open();
  Place(1, 7);
  end_.OnRunnerBroken(RunnerId(7), now_);
  Place(2, 7);
  end_.OnRunnerBroken(RunnerId(7), now_);
  EXPECT_EQ(Of<StartOn>(Place(3, 8)).size(), 1u) << "the scheduler has moved it meanwhile";
  EXPECT_TRUE(end_.OnTick(now_ += seconds(1)).empty());
}

TEST_F(GatewayEndTest, MigrationsAreNoFailures) {
  Open();
  for (uint32_t attempt = 1; attempt <= 20; ++attempt) {
    EXPECT_EQ(Of<StartOn>(Place(attempt, static_cast<int32_t>(attempt % 2))).size(), 1u);
  }
}

TEST_F(GatewayEndTest, OnlyTheBrokenRunnersAttemptsFail) {
  Open();
  Place(1, 7);
  EXPECT_TRUE(end_.OnRunnerBroken(RunnerId(8), now_).empty());
  EXPECT_TRUE(end_.OnAttemptRefused(RunnerId(7), {kSequence, 2}, now_).empty());
  EXPECT_EQ(Of<wire::Submission>(end_.OnAttemptRefused(RunnerId(7), {kSequence, 1}, now_)).size(),
            1u);
}

TEST_F(GatewayEndTest, ANewSchedulerIsToldWhatWaits) {
  Open(1);
  Open(2);
  Place(1, 7);
  end_.OnScheduler(std::nullopt, now_);
  EXPECT_TRUE(Open(3).empty()) << "there is nobody to ask";
  const auto waiting = Of<wire::Submission>(end_.OnScheduler(Epoch(2), now_));
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].sequence, SequenceId(2));
}

TEST_F(GatewayEndTest, ASchedulerOfThePastIsNone) {
  end_.OnScheduler(Epoch(5), now_);
  end_.OnScheduler(std::nullopt, now_);
  end_.OnScheduler(Epoch(4), now_);
  EXPECT_TRUE(Open().empty());
  EXPECT_EQ(end_.epoch(), Epoch(5));
}

TEST_F(GatewayEndTest, WithoutASchedulerNewOnesFailAndStreamsGoOn) {
  Open(1);
  Open(2);
  Place(1, 7);
  end_.OnScheduler(std::nullopt, now_);
  now_ += GatewayEndOptions().max_without_scheduler + seconds(1);
  const auto failed = Of<Deliver>(end_.OnTick(now_));
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].event.sequence, SequenceId(2));
  EXPECT_EQ(Of<Deliver>(Token(7, 1, 0)).size(), 1u);
}

TEST_F(GatewayEndTest, SilenceEndsAnAttemptAndASubmissionIsRepeated) {
  Open();
  now_ += seconds(3);
  EXPECT_EQ(Of<wire::Submission>(end_.OnTick(now_)).size(), 1u);
  EXPECT_TRUE(end_.OnTick(now_).empty());
  Place(1, 7);
  now_ += seconds(599);
  EXPECT_TRUE(end_.OnTick(now_).empty()) << "a long prompt is no failure";
  now_ += seconds(2);
  const Effects effects = end_.OnTick(now_);
  EXPECT_EQ(Of<ReleaseOn>(effects).size(), 1u);
  EXPECT_EQ(Of<wire::Submission>(effects).at(0).attempt, 1u);
}

TEST_F(GatewayEndTest, RefusalsEndWhatHasNotBegun) {
  Open();
  const Effects refused = end_.OnRefused(kSequence, ResourceExhausted("full"), now_);
  EXPECT_EQ(Of<Deliver>(refused).at(0).event.error.code(), StatusCode::kResourceExhausted);
  Open();
  Place(1, 7);
  EXPECT_TRUE(end_.OnRefused(kSequence, ResourceExhausted("full"), now_).empty());
  Token(7, 1, 0);
  end_.OnRunnerBroken(RunnerId(7), now_);
  EXPECT_TRUE(end_.OnRefused(kSequence, ResourceExhausted("full"), now_).empty());
  EXPECT_EQ(end_.num_live(), 1u);
}

TEST_F(GatewayEndTest, CancelReleasesAndCloses) {
  Open();
  Place(1, 7);
  const Effects effects = end_.Cancel(kSequence);
  EXPECT_EQ(Of<ReleaseOn>(effects).size(), 1u);
  EXPECT_EQ(Of<CloseSequence>(effects).size(), 1u);
  EXPECT_TRUE(end_.Cancel(kSequence).empty());
  // A placement that was under way finds nothing, and says so.
  EXPECT_EQ(Of<CloseSequence>(Place(2, 8)).size(), 1u);
  EXPECT_EQ(Of<ReleaseOn>(Token(7, 1, 0)).size(), 1u);
}

TEST_F(GatewayEndTest, IsBounded) {
  for (int64_t id = 1; id <= 3; ++id) Open(id);
  wire::SequenceRequest request;
  request.sequence = SequenceId(4);
  EXPECT_EQ(end_.Open(request, {}, now_).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace aril::delivery
