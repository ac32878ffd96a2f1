// A gateway, a scheduler and runners that all live: streams, and who is refused.

#include "base/retry_after.h"
#include "base/strings.h"
#include "cluster/nodes_test_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::cluster {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A new leader lists the runners as they come to it: one may be off the list for a moment.
TEST(Dialler, AnAddressThatComesBackHasTheLinkItHad) {
  struct CountingLinks final : Links {
    LinkId Dial(const std::string&) override { return LinkId(++num_dials); }
    void Send(LinkId, const Frame&) override {}
    void Close(LinkId, const Status&) override {}
    int64_t num_dials = 0;
  } links;
  Dialler dialler(links, seconds(1));
  TimePoint now{seconds(100)};
  dialler.Add("a");
  dialler.OnTick({}, now);
  dialler.OnHello(LinkId(1));
  dialler.Remove("a");
  EXPECT_FALSE(dialler.Has("a"));
  dialler.Add("a");
  dialler.OnTick({}, now);
  EXPECT_EQ(links.num_dials, 1);
  dialler.OnBroken(LinkId(1), now);
  dialler.OnTick({}, now += seconds(1));
  EXPECT_EQ(links.num_dials, 2) << "it is wanted";
  dialler.Remove("a");
  dialler.OnBroken(LinkId(2), now);
  dialler.OnTick({}, now += seconds(10));
  EXPECT_EQ(links.num_dials, 2);
}

TEST_F(NodesTest, AStreamGoesThroughThreeProcesses) {
  StartScheduler("scheduler:1");
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  EXPECT_EQ(gateway.node->num_runners(), 1u);
  Submit(gateway, 0, 5, {1, 2});
  EXPECT_EQ(NumRunning(runners_), 1u);
  StepToEnd(6);
  EXPECT_EQ(gateway.client.streams[0].tokens, Expected({1, 2}, 5));
  EXPECT_EQ(gateway.client.streams[0].finish, wire::FinishReason::kLength);
  EXPECT_EQ(gateway.node->end().num_live(), 0u);
  EXPECT_EQ(runners_[0]->node->end().num_live(), 0u);
  EXPECT_EQ(schedulers_[0]->node->reign()->num_sequences(), 0u);
}

TEST_F(NodesTest, WhatHasBegunGoesOnWithTheSameArithmetic) {
  StartScheduler("scheduler:1");
  for (const char* numeric_class : {"x", "y", "y", "x"}) {
    Hello hello = HelloOf(Role::kRunner);
    hello.runner.numeric_class = numeric_class;
    StartRunner(hello);
  }
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  for (int32_t id = 0; id < 3; ++id) Submit(gateway, id, 20, {id, 5});
  Step();
  EXPECT_EQ(&Busy(), runners_[3].get()) << "of runners that are alike the last is taken";
  runners_[3]->engine.sequences.clear();
  Kill(*runners_[3]);
  network_.Run(seconds(1));
  EXPECT_THAT(runners_[0]->engine.sequences, SizeIs(3));
  StepToEnd(25);
  EXPECT_EQ(gateway.client.streams[0].tokens, Expected({0, 5}, 20));
}

TEST_F(NodesTest, APromptGoesWhereItsBeginningWasComputed) {
  StartScheduler("scheduler:1");
  for (int i = 0; i < 2; ++i) {
    Hello hello = HelloOf(Role::kRunner);
    hello.runner.max_running = 1;
    StartRunner(hello).shared.there[StrCat("digest ", kInvoked)] = AdapterId(1);
  }
  Gateway& one = StartGateway();
  Gateway& other = StartGateway();
  network_.Run(seconds(1));
  const std::vector<int32_t> text(100, 5);
  Submit(one, 0, 3, {1, 2});
  EXPECT_EQ(&Busy(), runners_[1].get()) << "of runners that are alike the last is taken";
  Submit(one, 1, 2, text, {});
  EXPECT_THAT(runners_[0]->engine.sequences, SizeIs(1)) << "the seat that is left";
  StepToEnd(5);
  // What each would be placed on the last runner for, else.
  int64_t id = 2;
  const auto where = [&](Gateway& gateway, const std::vector<int32_t>& more, AdapterMix adapters,
                         const std::string& tenant = "default") {
    std::vector<int32_t> prompt = text;
    prompt.insert(prompt.end(), more.begin(), more.end());
    Submit(gateway, id++, 1, std::move(prompt), std::move(adapters), tenant);
    const Runner* const runner = &Busy();
    StepToEnd(3);
    return runner == runners_[0].get() ? 0 : 1;
  };
  EXPECT_EQ(where(one, {6}, {}), 0);
  EXPECT_EQ(where(other, {7}, {}), 0) << "whichever gateway it comes through";
  EXPECT_EQ(where(other, {7}, {}, "acme"), 1) << "caches are a tenant's";
  EXPECT_EQ(where(one, {8}, MixOf(AdapterId(0))), 1) << "and an adapter's";
  wire::SequenceRequest curious = {.sequence = SequenceId(id++), .prompt = text, .max_tokens = 1};
  curious.sampling.prompt_logprobs = true;
  one.node->Submit(curious, network_.now());
  network_.Pump();
  EXPECT_EQ(&Busy(), runners_[1].get()) << "all of it is computed, wherever it goes";
  StepToEnd(3);
  EXPECT_EQ(where(one, kInvocation, MixOf(kInvoked)), 0) << "but before where it is invoked";
  EXPECT_EQ(where(one, {}, MixOf(kInvoked)), 1) << "it is not: the runner will say so";
}

TEST_F(NodesTest, ACancelledSequenceIsReleased) {
  StartScheduler("scheduler:1");
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  Submit(gateway, 4, 30, {3});
  gateway.node->Cancel(SequenceId(4));
  network_.Pump();
  EXPECT_EQ(NumRunning(runners_), 0u);
  EXPECT_THAT(gateway.client.streams, IsEmpty()) << "nobody listens any more";
}

// There is nowhere else to go: the attempt waits for the link.
TEST_F(NodesTest, WhatCanRunNowhereFailsWithTheEnginesReason) {
  StartScheduler("scheduler:1");
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  Submit(gateway, 0, 3, {});
  EXPECT_EQ(gateway.client.streams[0].error.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(gateway.client.streams[0].error), HasSubstr("no tokens"));
  EXPECT_EQ(runners_[0]->node->end().num_live(), 0u);
  Submit(gateway, 1, 1'000'000, {1});
  EXPECT_THAT(Message(gateway.client.streams[1].error), HasSubstr("no runner has more than 1000"));
}

TEST_F(NodesTest, AFullQueueSaysWhenToTryAgain) {
  StartScheduler("scheduler:1", /*is_alone=*/true, Epoch(1), {.max_waiting = 1});
  Hello hello = HelloOf(Role::kRunner);
  hello.runner.max_running = 1;
  StartRunner(hello);
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  for (int32_t id = 0; id < 3; ++id) Submit(gateway, id, 5, {1});
  EXPECT_TRUE(gateway.client.streams[1].error.ok()) << "it waits for the first";
  const Status refused = gateway.client.streams[2].error;
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryAfter(refused), seconds(1)) << "one a second is placed, for want of news";
}

TEST_F(NodesTest, WhoeverServesSomethingElseIsRefusedAndToldWhy) {
  StartScheduler("scheduler:1");
  StartRunner();
  network_.Run(seconds(1));
  Hello other = HelloOf(Role::kGateway);
  other.deployment.adapters[0].digest = "d2";
  Gateway& gateway = StartGateway(other);
  Hello smaller = HelloOf(Role::kRunner);
  smaller.runner.pages.page_tokens = 8;
  StartRunner(smaller);
  Hello with_states = HelloOf(Role::kRunner);
  with_states.runner.pages.state_pages = 1;
  StartRunner(with_states);
  network_.Run(seconds(2));
  EXPECT_FALSE(gateway.node->has_scheduler());
  EXPECT_EQ(schedulers_[0]->node->reign()->runners().size(), 1u);
}

// Gateways dial an address, and would wait for one of the two there for ever.
TEST_F(NodesTest, TwoRunnersWithOneAddressAreNotBothTaken) {
  StartScheduler("scheduler:1");
  Hello hello = HelloOf(Role::kRunner);
  Runner& first = StartRunner(hello);
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  hello.id = next_id_++;
  Runner& second = StartRunner(hello);
  std::string why;
  network_.on_broken = [&](const Status& status) { why = Message(status); };
  network_.Run(seconds(1));
  EXPECT_THAT(why, AllOf(HasSubstr("runner 1 is at runner-1:1 already"),
                         HasSubstr("start runner 3 with an --advertise of its own")));
  network_.on_broken = nullptr;
  EXPECT_EQ(schedulers_[0]->node->reign()->runners().size(), 1u);
  for (int32_t id = 0; id < 12; ++id) Submit(gateway, id, 3, {id});
  StepToEnd(10);
  for (int32_t id = 0; id < 12; ++id) {
    EXPECT_EQ(gateway.client.streams[id].tokens, Expected({id}, 3));
  }
  // Started again, it takes the place of its earlier life as soon as that has gone.
  Kill(first);
  network_.Run(seconds(2));
  Submit(gateway, 12, 3, {9});
  EXPECT_EQ(second.engine.sequences.size(), 1u);
}

TEST_F(NodesTest, ARunnerThatHoldsLessThanPromisedGetsNothing) {
  StartScheduler("scheduler:1");
  Hello small = HelloOf(Role::kRunner);
  small.runner.max_model_len = 499;
  StartRunner(small);
  Gateway& gateway = StartGateway();
  network_.Run(seconds(2));
  EXPECT_TRUE(gateway.node->has_scheduler());
  EXPECT_EQ(gateway.node->num_runners(), 0u);
}

TEST_F(NodesTest, FramesForSomebodyElseBreakTheLink) {
  struct Prober final : public Node {
    void OnAccepted(LinkId, TimePoint) override {}
    void OnFrame(LinkId, Frame, TimePoint) override {}
    void OnBroken(LinkId, const Status& status, TimePoint) override { why = Message(status); }
    void OnTick(TimePoint) override {}
    std::string why;
  } prober;
  StartScheduler("scheduler:1");
  Runner& runner = StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  Submit(gateway, 0, 10, {1});
  Links& links = network_.LinksOf("");
  network_.SetNode(links, &prober);
  const auto why_broken = [&](const std::string& address, const std::vector<Frame>& frames) {
    prober.why.clear();
    const LinkId link = links.Dial(address);
    for (const Frame& frame : frames) links.Send(link, frame);
    network_.Pump();
    return prober.why;
  };
  const Hello hello = HelloOf(Role::kGateway);
  const SequenceId others = MakeSequenceId(GatewayId(9999), 0);
  EXPECT_EQ(why_broken("scheduler:1", {Welcome{Epoch(99)}}), "a Welcome before Hello");
  EXPECT_EQ(why_broken("scheduler:1", {hello, hello}), "a Hello after the first");
  EXPECT_EQ(why_broken("scheduler:1", {hello, Welcome{Epoch(99)}}),
            "a Welcome is not for a scheduler");
  EXPECT_THAT(why_broken("scheduler:1", {hello, delivery::CloseSequence{others}}),
              HasSubstr("of another gateway's"));
  EXPECT_THAT(why_broken("scheduler:1", {hello, RunnerLeaving{}}), HasSubstr("of a gateway"));
  const std::string runner_address = "runner-1:1";
  EXPECT_EQ(why_broken(runner_address, {hello, Welcome{Epoch(99)}}), "")
      << "who is no scheduler is not listened to";
  EXPECT_THAT(why_broken(runner_address, {RunnerList{}}), HasSubstr("is not for a runner"));
  delivery::StartAttempt start;
  start.gateway = GatewayId(hello.id);
  start.request.sequence = others;
  EXPECT_THAT(why_broken(runner_address, {start}), HasSubstr("before Hello"));
  EXPECT_EQ(runner.node->end().epoch(), Epoch(1));
  // None of this did others any harm.
  StepToEnd(12);
  EXPECT_EQ(gateway.client.streams[0].tokens, Expected({1}, 10));
}

}  // namespace
}  // namespace aril::cluster
