// What goes on when processes and links of a cluster fail (docs/failures.md).

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

TEST_F(NodesTest, ADeadRunnersStreamsGoOnElsewhere) {
  StartScheduler("scheduler:1");
  StartRunner();
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  for (int32_t id = 0; id < 4; ++id) Submit(gateway, id, 20, {id, 5});
  for (int i = 0; i < 7; ++i) Step();
  Runner& busy = Busy();
  EXPECT_THAT(busy.engine.sequences, SizeIs(4)) << "they are consolidated";
  busy.engine.sequences.clear();
  Kill(busy);
  StepToEnd();
  for (int32_t id = 0; id < 4; ++id) {
    EXPECT_EQ(gateway.client.streams[id].tokens, Expected({id, 5}, 20));
    EXPECT_EQ(gateway.client.streams[id].finish, wire::FinishReason::kLength);
  }
}

wire::SequenceRequest RequestOf(const wire::OutputFormat& format, int64_t id = 0) {
  wire::SequenceRequest request;
  request.sequence = SequenceId(id);
  request.prompt = {3, 5};
  request.max_tokens = 9;
  request.format = format;
  return request;
}

// A cluster whose runner is of an older release.
class OlderRunnerTest : public NodesTest {
 protected:
  using Lacking = std::initializer_list<bool Hello::*>;

  Gateway& StartWithout(Lacking lacking) {
    StartScheduler("scheduler:1");
    Hello old = HelloOf(Role::kRunner);
    for (const auto flag : lacking) old.*flag = false;
    StartRunner(old);
    Gateway& gateway = StartGateway();
    network_.Run(seconds(1));
    return gateway;
  }
  // What it is refused with.
  std::string ErrorOf(Gateway& gateway, wire::SequenceRequest request) {
    const int64_t id = num_requests_++;
    request.sequence = SequenceId(id);
    gateway.node->Submit(std::move(request), network_.now());
    network_.Run(seconds(60));
    EXPECT_EQ(gateway.client.streams[id].finish, wire::FinishReason::kError);
    return Message(gateway.client.streams[id].error);
  }

 private:
  int64_t num_requests_ = 0;
};

// It would answer with any text.
TEST_F(OlderRunnerTest, KeepsToNoFormats) {
  Gateway& gateway =
      StartWithout({&Hello::keeps_formats, &Hello::keeps_tool_calls, &Hello::keeps_reasoning});
  const wire::OutputFormat format = {.kind = wire::OutputFormat::Kind::kRegex, .source = "a*"};
  EXPECT_THAT(ErrorOf(gateway, RequestOf(format)), HasSubstr("keeps to no format"));

  StartRunner();
  network_.Run(seconds(1));
  Submit(gateway, 1, 9, {3, 5});
  gateway.node->Submit(RequestOf(format, 2), network_.now());
  for (int i = 0; i < 40; ++i) {
    Step();
    for (const auto& [id, request] : runners_[0]->engine.sequences) {
      EXPECT_TRUE(request.format.is_text());
    }
    network_.Run(seconds(1));
  }
  EXPECT_EQ(gateway.client.streams[1].tokens, Expected({3, 5}, 9));
  EXPECT_EQ(gateway.client.streams[2].tokens, Expected({3, 5}, 9));
}

TEST_F(OlderRunnerTest, CallsNoToolsAndKeepsToNoFormatBehindReasoning) {
  Gateway& gateway = StartWithout({&Hello::keeps_tool_calls, &Hello::keeps_reasoning});
  using Kind = wire::OutputFormat::Kind;
  EXPECT_THAT(ErrorOf(gateway, RequestOf({.kind = Kind::kToolCalls, .source = "{}"})),
              HasSubstr("calls no tools"));
  EXPECT_THAT(
      ErrorOf(gateway, RequestOf({.kind = Kind::kRegex, .source = "a", .reasoning = {{"b", "c"}}})),
      HasSubstr("behind reasoning"));
}

TEST_F(OlderRunnerTest, CallsNoToolsBehindReasoning) {
  Gateway& gateway = StartWithout({&Hello::keeps_reasoning});
  EXPECT_THAT(ErrorOf(gateway, RequestOf({.kind = wire::OutputFormat::Kind::kToolCalls,
                                          .source = "{}",
                                          .reasoning = {{"b", "c"}}})),
              HasSubstr("behind reasoning"));
}

// It would end the prompt without, or with something else.
TEST_F(OlderRunnerTest, PoolsNothing) {
  Gateway& gateway = StartWithout({&Hello::makes_embeddings, &Hello::classifies});
  const std::pair<wire::Pooling, const char*> cases[] = {
      {wire::Pooling::kEmbedding, "makes no embeddings"},
      {wire::Pooling::kClassLogits, "classifies no texts"},
      {wire::Pooling::kClassProbabilities, "classifies no texts"}};
  for (const auto& [pooling, complaint] : cases) {
    wire::SequenceRequest request = RequestOf({});
    request.max_tokens = 0;
    request.pooling = pooling;
    EXPECT_THAT(ErrorOf(gateway, request), HasSubstr(complaint));
  }
}

// It would choose other tokens.
TEST_F(OlderRunnerTest, RulesNoTokensOut) {
  Gateway& gateway = StartWithout({&Hello::bounds_reasoning, &Hello::masks_tokens});
  wire::SequenceRequest with_budget = RequestOf({});
  with_budget.reasoning_budget = {.max_tokens = 3, .closing = {1}};
  EXPECT_THAT(ErrorOf(gateway, with_budget), HasSubstr("bounds no reasoning"));
  wire::SequenceRequest with_tokens = RequestOf({});
  with_tokens.sampling.allowed_token_ids = {1};
  EXPECT_THAT(ErrorOf(gateway, with_tokens), HasSubstr("rules out no tokens and no words"));
  wire::SequenceRequest with_words = RequestOf({});
  with_words.sampling.bad_words = {{1}};
  EXPECT_THAT(ErrorOf(gateway, with_words), HasSubstr("rules out no tokens and no words"));
}

// Clients that must name one are served there, as they were before.
TEST_F(OlderRunnerTest, IsNotToldOfABudgetThatNeedNotBeKeptTo) {
  Gateway& gateway = StartWithout({&Hello::bounds_reasoning});
  wire::SequenceRequest request = RequestOf({});
  request.reasoning_budget = {.max_tokens = 3, .closing = {1}, .is_required = false};
  gateway.node->Submit(request, network_.now());
  network_.Run(seconds(60));
  EXPECT_TRUE(gateway.client.streams[0].error.ok());
  ASSERT_EQ(runners_[0]->engine.sequences.size(), 1u);
  EXPECT_FALSE(runners_[0]->engine.sequences.begin()->second.reasoning_budget.has_value());
}

TEST_F(NodesTest, ABrokenLinkToARunnerLeavesNothingRunningTwice) {
  StartScheduler("scheduler:1");
  StartRunner();
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  Submit(gateway, 0, 30, {3});
  Step();
  network_.Cut(*gateway.links, *Busy().links);
  network_.Pump();
  EXPECT_LE(NumRunning(runners_), 1u);
  StepToEnd();
  EXPECT_EQ(gateway.client.streams[0].tokens, Expected({3}, 30));
  EXPECT_EQ(NumRunning(runners_), 0u);
}

TEST_F(NodesTest, ADeadGatewaysSequencesAreReleasedAtOnce) {
  StartScheduler("scheduler:1");
  StartRunner();
  Gateway& first = StartGateway();
  Gateway& second = StartGateway();
  network_.Run(seconds(1));
  Submit(first, 0, 30, {3});
  Submit(second, 0, 30, {4});
  Step();
  EXPECT_EQ(NumRunning(runners_), 2u);
  Kill(first);
  EXPECT_EQ(NumRunning(runners_), 1u);
  StepToEnd(40);
  EXPECT_EQ(second.client.streams[0].tokens, Expected({4}, 30)) << "the other is untouched";
  EXPECT_EQ(schedulers_[0]->node->reign()->num_sequences(), 0u);
}

TEST_F(NodesTest, AStartedAgainSchedulerRulesAboveItsEarlierLife) {
  Scheduler& old = StartScheduler("scheduler:1", true, Epoch(7));
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  Submit(gateway, 0, 40, {3});
  Step();
  Kill(old);
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_THAT(gateway.client.streams[0].tokens, SizeIs(6)) << "streams go on without a scheduler";
  Submit(gateway, 1, 3, {9});
  Step();
  EXPECT_THAT(gateway.client.streams[1].tokens, IsEmpty()) << "new ones wait for it";
  // Its clock went back, or it would know by itself.
  Scheduler& successor = StartScheduler("scheduler:1", true, Epoch(3));
  network_.Run(seconds(1));
  EXPECT_EQ(successor.node->reign()->epoch(), Epoch(8));
  EXPECT_EQ(runners_[0]->node->end().epoch(), Epoch(8));
  StepToEnd(40);
  EXPECT_EQ(gateway.client.streams[0].tokens, Expected({3}, 40));
  EXPECT_EQ(gateway.client.streams[1].tokens, Expected({9}, 3));
}

TEST_F(NodesTest, OnlyTheElectedSchedulerIsObeyed) {
  addresses_ = {"scheduler:1", "scheduler:2"};
  Scheduler& first = StartScheduler("scheduler:1", false);
  Scheduler& second = StartScheduler("scheduler:2", false);
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  EXPECT_FALSE(gateway.node->has_scheduler());
  first.node->Lead(Epoch(5), network_.now());
  network_.Run(seconds(1));
  EXPECT_EQ(gateway.node->end().epoch(), Epoch(5));
  // The first one is paused, the second one elected, and the first one wakes up late.
  second.node->Lead(Epoch(8), network_.now());
  network_.Run(seconds(1));
  Submit(gateway, 0, 3, {9});
  EXPECT_EQ(first.node->reign()->num_sequences(), 0u) << "the second was asked";
  first.node->Lead(Epoch(5), network_.now());
  network_.Run(seconds(1));
  EXPECT_EQ(gateway.node->end().epoch(), Epoch(8));
  EXPECT_EQ(runners_[0]->node->end().epoch(), Epoch(8));
  first.node->StepDown(network_.now());
  StepToEnd(5);
  EXPECT_EQ(gateway.client.streams[0].tokens, Expected({9}, 3));
}

TEST_F(NodesTest, WithoutASchedulerOrARunnerNewRequestsFailAfterAWhile) {
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  Submit(gateway, 0, 3, {9});
  network_.Run(seconds(5));
  EXPECT_FALSE(gateway.client.streams[0].finish.has_value());
  StartScheduler("scheduler:1");
  network_.Run(delivery::GatewayEndOptions().max_without_scheduler + seconds(1));
  EXPECT_EQ(gateway.client.streams[0].error.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(gateway.client.streams[0].error), HasSubstr("no scheduler, or no runner"));
  Runner& runner = StartRunner();
  network_.Run(seconds(1));
  Submit(gateway, 1, 3, {9});
  EXPECT_THAT(runner.engine.sequences, SizeIs(1));
}

TEST_F(NodesTest, WithoutARunnerAnyMoreNewRequestsFailAfterAWhile) {
  StartScheduler("scheduler:1");
  Runner& runner = StartRunner();
  Gateway& gateway = StartGateway();
  EXPECT_FALSE(gateway.node->is_serving()) << "there is nobody yet";
  network_.Run(seconds(1));
  EXPECT_TRUE(gateway.node->is_serving());
  Kill(runner);
  network_.Run(seconds(1));
  EXPECT_FALSE(gateway.node->has_scheduler()) << "a leader without a runner is none";
  EXPECT_TRUE(gateway.node->is_serving()) << "it may come back";
  Submit(gateway, 0, 3, {9});
  network_.Run(delivery::GatewayEndOptions().max_without_scheduler + seconds(1));
  EXPECT_EQ(gateway.client.streams[0].error.code(), StatusCode::kUnavailable);
  EXPECT_FALSE(gateway.node->is_serving());
  StartRunner();
  network_.Run(seconds(1));
  EXPECT_TRUE(gateway.node->is_serving());
  Submit(gateway, 1, 3, {9});
  EXPECT_THAT(runners_[1]->engine.sequences, SizeIs(1));
}

TEST_F(NodesTest, WhoDoesNotLeadAnyMoreTellsItsGateways) {
  Scheduler& scheduler = StartScheduler("scheduler:1", false);
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  scheduler.node->Lead(Epoch(5), network_.now());
  network_.Run(seconds(1));
  EXPECT_TRUE(gateway.node->has_scheduler());
  scheduler.node->StepDown(network_.now());
  network_.Run(seconds(1));
  EXPECT_FALSE(gateway.node->has_scheduler());
  Submit(gateway, 0, 3, {9});
  network_.Run(delivery::GatewayEndOptions().max_without_scheduler + seconds(1));
  EXPECT_EQ(gateway.client.streams[0].error.code(), StatusCode::kUnavailable);
}

TEST_F(NodesTest, ABrokenLinkToTheOnlyRunnerIsMended) {
  StartScheduler("scheduler:1");
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  Submit(gateway, 0, 60, {3});
  for (int i = 0; i < 3; ++i) {
    Step();
    network_.Cut(*gateway.links, *runners_[0]->links);
    StepToEnd(25);
  }
  StepToEnd();
  EXPECT_EQ(gateway.client.streams[0].tokens, Expected({3}, 60));
  EXPECT_EQ(NumRunning(runners_), 0u);
}

TEST_F(NodesTest, AReconnectionDoesNotBeginANewReign) {
  Scheduler& scheduler = StartScheduler("scheduler:1");
  Runner& runner = StartRunner();
  StartRunner();
  StartGateway();
  network_.Run(seconds(1));
  const auto* const reign = scheduler.node->reign();
  network_.Cut(*runner.links, *scheduler.links);
  network_.Run(seconds(2));
  EXPECT_EQ(scheduler.node->reign(), reign);
  EXPECT_EQ(reign->epoch(), Epoch(1));
  EXPECT_EQ(reign->runners().size(), 2u);
}

TEST_F(NodesTest, ALeavingRunnersSequencesMove) {
  StartScheduler("scheduler:1");
  StartRunner();
  StartRunner();
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  for (int32_t id = 0; id < 3; ++id) Submit(gateway, id, 60, {id, 5});
  Step();
  Runner& leaving = Busy();
  leaving.node->Leave(network_.now());
  StepToEnd(20);
  EXPECT_THAT(leaving.engine.sequences, IsEmpty());
  EXPECT_EQ(leaving.node->end().num_live(), 0u);
  StepToEnd(60);
  for (int32_t id = 0; id < 3; ++id) {
    EXPECT_EQ(gateway.client.streams[id].tokens, Expected({id, 5}, 60));
  }
}

TEST_F(NodesTest, AFullRunnerIsTriedAgainUntilTheAttemptsAreUsedUp) {
  StartScheduler("scheduler:1");
  StartRunner().engine.is_full = true;
  Gateway& gateway = StartGateway();
  network_.Run(seconds(1));
  Submit(gateway, 0, 3, {1});
  network_.Run(seconds(30));
  EXPECT_EQ(gateway.client.streams[0].error.code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      Message(gateway.client.streams[0].error),
      HasSubstr("failed on 6 runners, one after the other (the last one says: the queue is full)"));
}

TEST_F(NodesTest, WhoSaysNothingIsDisconnected) {
  struct Silent final : public Node {
    void OnAccepted(LinkId, TimePoint) override {}
    void OnFrame(LinkId, Frame, TimePoint) override {}
    void OnBroken(LinkId, const Status& status, TimePoint) override { why = Message(status); }
    void OnTick(TimePoint) override {}
    std::string why;
  } silent;
  StartScheduler("scheduler:1");
  Links& links = network_.LinksOf("runner-77:1");
  network_.SetNode(links, &silent);
  links.Dial("scheduler:1");
  network_.Run(kHelloTimeout + seconds(1));
  EXPECT_EQ(silent.why, "no Hello came in time");
}

}  // namespace
}  // namespace aril::cluster
