// Adapters that come at run time: a runner that lacks one gets it when an attempt needs it.

#include "base/strings.h"
#include "cluster/nodes_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

AdapterId Shared(int32_t i) { return AdapterId(delivery::kFirstSharedAdapter.value() + i); }

class SharedAdaptersTest : public NodesTest {
 protected:
  SharedAdaptersTest() {
    StartScheduler("scheduler:1");
    StartRunner();
    StartGateway();
    network_.Run(seconds(1));
  }
  Gateway& gateway() { return *gateways_[0]; }
  Runner& runner() { return *runners_[0]; }
  void Finish(Runner& runner, const StatusOr<SharedAdapterLoader::Ready>& ready) {
    runner.shared.Finish(ready, network_.now());
    network_.Pump();
  }
  static SharedAdapterLoader::Ready Ready(int32_t engine_adapter) {
    return {.adapter = AdapterId(engine_adapter), .pages = 2, .hold = nullptr};
  }
};

TEST_F(SharedAdaptersTest, IsLoadedOnceForAllThatWait) {
  Submit(gateway(), 0, 5, {1, 2}, MixOf(Shared(7)));
  Submit(gateway(), 1, 5, {3, 4}, MixOf(Shared(7)));
  Submit(gateway(), 2, 5, {5, 6});
  EXPECT_THAT(runner().engine.sequences, SizeIs(1)) << "who needs nothing goes on";
  ASSERT_THAT(runner().shared.loads, SizeIs(1)) << "one for both";
  EXPECT_EQ(runner().shared.loads[0].shared,
            (delivery::SharedAdapter{Shared(7), StrCat("digest ", Shared(7)), {"default's"}}));
  // Longer than an attempt may take to begin: they are reported, or they would be begun anew.
  network_.Run(seconds(6));
  EXPECT_EQ(schedulers_[0]->node->reign()->num_sequences(), 3u);
  ASSERT_THAT(runner().shared.loads, SizeIs(1)) << "still";
  Finish(runner(), Ready(40));
  ASSERT_THAT(runner().engine.sequences, SizeIs(3));
  int num_users = 0;
  for (const auto& [id, request] : runner().engine.sequences) {
    num_users += Uses(request.adapters, AdapterId(40)) ? 1 : 0;
  }
  EXPECT_EQ(num_users, 2) << "by the engine's id";
  StepToEnd(6);
  EXPECT_EQ(gateway().client.streams[0].tokens, Expected({1, 2}, 5));
  EXPECT_EQ(gateway().client.streams[1].tokens, Expected({3, 4}, 5));
  Submit(gateway(), 3, 5, {1, 2}, MixOf(Shared(7)));
  EXPECT_THAT(runner().shared.loads, IsEmpty()) << "it is there";
  EXPECT_THAT(runner().engine.sequences, SizeIs(1));
}

TEST_F(SharedAdaptersTest, NobodyWaitsForAnotherTenantsSource) {
  Submit(gateway(), 0, 5, {1, 2}, MixOf(Shared(7)), "a");
  Submit(gateway(), 1, 5, {3, 4}, MixOf(Shared(7)), "b");
  ASSERT_THAT(runner().shared.loads, SizeIs(2));
  for (const auto& load : runner().shared.loads) {
    EXPECT_THAT(load.shared.sources, ElementsAre(load.tenant + "'s"));
  }
  EXPECT_EQ(runner().shared.loads[0].tenant, "a");
  Finish(runner(), Unavailable("the source does not answer"));
  Finish(runner(), Ready(40));
  StepToEnd(6);
  EXPECT_EQ(gateway().client.streams[1].tokens, Expected({3, 4}, 5));
}

TEST_F(SharedAdaptersTest, IsLoadedWhileItsSequenceWaits) {
  constexpr int64_t kSeats = 8;
  for (int64_t id = 0; id < kSeats; ++id) Submit(gateway(), id, 5, {1, 2});
  Submit(gateway(), kSeats, 5, {3, 4}, MixOf(Shared(7)));
  Submit(gateway(), kSeats + 1, 5, {5, 6}, MixOf(AdapterId(0)));
  network_.Run(seconds(1));
  EXPECT_THAT(runner().engine.sequences, SizeIs(kSeats));
  ASSERT_THAT(runner().shared.loads, SizeIs(1));
  EXPECT_EQ(runner().shared.loads[0].shared.adapter, Shared(7));
  Finish(runner(), Ready(40));
  StepToEnd(12);
  EXPECT_EQ(gateway().client.streams[kSeats].tokens, Expected({3, 4}, 5));
  EXPECT_EQ(gateway().client.streams[kSeats + 1].tokens, Expected({5, 6}, 5));
  EXPECT_THAT(runner().shared.loads, IsEmpty()) << "it was there";
  // What cannot be loaded ahead is tried again when it is needed.
  for (int64_t id = 20; id < 20 + kSeats; ++id) Submit(gateway(), id, 5, {1, 2});
  Submit(gateway(), 30, 5, {3, 4}, MixOf(Shared(8)));
  ASSERT_THAT(runner().shared.loads, SizeIs(1));
  Finish(runner(), Unavailable("the source does not answer"));
  StepToEnd(6);
  ASSERT_THAT(runner().shared.loads, SizeIs(1));
  Finish(runner(), Ready(41));
  StepToEnd(6);
  EXPECT_EQ(gateway().client.streams[30].tokens, Expected({3, 4}, 5));
}

TEST_F(SharedAdaptersTest, HintsLeaveRoomForWhatIsNeeded) {
  constexpr int64_t kSeats = 8;
  for (int64_t id = 0; id < kSeats; ++id) Submit(gateway(), id, 5, {1, 2});
  Submit(gateway(), 20, 5, {3, 4}, MixOf(Shared(1)));
  Submit(gateway(), 21, 5, {3, 4}, MixOf(Shared(2)));
  ASSERT_THAT(runner().shared.loads, SizeIs(2));
  gateway().node->Cancel(SequenceId(20));
  Submit(gateway(), 22, 5, {5, 6}, MixOf(Shared(3)));
  EXPECT_THAT(runner().shared.loads, SizeIs(2)) << "two at a time, whatever comes of them";
  StepToEnd(6);
  ASSERT_THAT(runner().shared.loads, SizeIs(3)) << "it is needed now";
  EXPECT_EQ(runner().shared.loads[2].shared.adapter, Shared(3));
}

// A release before there were hints would break the link that one comes by.
class HintsTest : public NodesTest, public ::testing::WithParamInterface<Role> {};

TEST_P(HintsTest, AreForThoseThatTakeThem) {
  constexpr int64_t kSeats = 8;
  StartScheduler("scheduler:1");
  Hello runner = HelloOf(Role::kRunner), gateway = HelloOf(Role::kGateway);
  (GetParam() == Role::kRunner ? runner : gateway).takes_hints = false;
  StartRunner(runner);
  StartGateway(gateway);
  network_.Run(seconds(1));
  for (int64_t id = 0; id < kSeats; ++id) Submit(*gateways_[0], id, 5, {1, 2});
  Submit(*gateways_[0], 20, 5, {3, 4}, MixOf(Shared(1)));
  EXPECT_THAT(runners_[0]->engine.sequences, SizeIs(kSeats));
  EXPECT_THAT(runners_[0]->shared.loads, IsEmpty());
  StepToEnd(6);
  EXPECT_THAT(runners_[0]->shared.loads, SizeIs(1)) << "when it is needed";
}

INSTANTIATE_TEST_SUITE_P(Roles, HintsTest, ::testing::Values(Role::kRunner, Role::kGateway),
                         [](const auto& test) { return std::string(NameOf(test.param)); });

TEST_F(SharedAdaptersTest, SeveralOfOneSequenceAreAllWaitedFor) {
  Submit(gateway(), 0, 5, {1, 2}, {{Shared(1), 1}, {AdapterId(0), 1}, {Shared(2), 0.5F}});
  ASSERT_THAT(runner().shared.loads, SizeIs(2));
  Finish(runner(), Ready(41));
  EXPECT_THAT(runner().engine.sequences, IsEmpty());
  Finish(runner(), Ready(42));
  ASSERT_THAT(runner().engine.sequences, SizeIs(1));
  EXPECT_EQ(runner().engine.sequences.begin()->second.adapters,
            (AdapterMix{{AdapterId(41), 1}, {AdapterId(0), 1}, {AdapterId(42), 0.5F}}));
}

TEST_F(SharedAdaptersTest, WhatCannotBeLoadedFailsItsOwnOnly) {
  Submit(gateway(), 0, 5, {1, 2}, MixOf(Shared(1)));
  Submit(gateway(), 1, 5, {1, 2}, MixOf(Shared(2)));
  Submit(gateway(), 2, 5, {1, 2}, MixOf(kUnknown));
  ASSERT_THAT(runner().shared.loads, SizeIs(2));
  Finish(runner(), InvalidArgument("adapter_model.safetensors is truncated"));
  EXPECT_EQ(gateway().client.streams[0].finish, wire::FinishReason::kError);
  EXPECT_EQ(gateway().client.streams[0].error.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(gateway().client.streams[0].error), HasSubstr("is truncated"));
  EXPECT_EQ(gateway().client.streams[2].finish, wire::FinishReason::kError);
  Finish(runner(), Ready(41));
  StepToEnd(6);
  EXPECT_EQ(gateway().client.streams[1].tokens, Expected({1, 2}, 5));
  EXPECT_EQ(runner().node->end().num_live(), 0u);
}

TEST_F(SharedAdaptersTest, AnotherRunnerMayReachTheSource) {
  StartRunner();
  network_.Run(seconds(1));
  Submit(gateway(), 0, 5, {1, 2}, MixOf(Shared(1)));
  Runner& first = runner().shared.loads.empty() ? *runners_[1] : runner();
  Runner& second = &first == &runner() ? *runners_[1] : runner();
  ASSERT_THAT(first.shared.loads, SizeIs(1));
  Finish(first, Unavailable("the source does not answer"));
  network_.Run(seconds(2));
  ASSERT_THAT(second.shared.loads, SizeIs(1));
  Finish(second, Ready(41));
  StepToEnd(6);
  EXPECT_EQ(gateway().client.streams[0].tokens, Expected({1, 2}, 5));
}

TEST_F(SharedAdaptersTest, WhoIsCancelledMeanwhileDoesNotBegin) {
  Submit(gateway(), 0, 5, {1, 2}, MixOf(Shared(1)));
  Submit(gateway(), 1, 5, {1, 2}, MixOf(Shared(1)));
  gateway().node->Cancel(SequenceId(0));
  network_.Pump();
  EXPECT_EQ(runner().node->end().num_live(), 1u);
  Finish(runner(), Ready(41));
  EXPECT_THAT(runner().engine.sequences, SizeIs(1));
  Submit(gateway(), 2, 5, {1, 2}, MixOf(Shared(2)));
  Submit(gateway(), 3, 5, {1, 2}, MixOf(Shared(2)));
  Kill(gateway());
  network_.Run(milliseconds(500));
  Finish(runner(), Ready(42));
  EXPECT_THAT(runner().engine.sequences, IsEmpty()) << "nobody is there for it";
  EXPECT_EQ(runner().node->end().num_live(), 0u);
}

}  // namespace
}  // namespace aril::cluster
