// Every frame survives the wire.

#include "cluster/codec.h"

#include "cluster/codec_test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/limits.h"

namespace aril::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Codec, KeepsHellos) {
  const Hello sent = RunnerHello();
  const Hello got = RoundTrip(sent);
  EXPECT_EQ(got.protocol, kProtocol);
  EXPECT_EQ(got.version, sent.version);
  EXPECT_EQ(got.role, sent.role);
  EXPECT_EQ(got.id, sent.id);
  EXPECT_EQ(got.instance, sent.instance);
  EXPECT_EQ(got.epoch, sent.epoch);
  EXPECT_EQ(got.address, sent.address);
  EXPECT_EQ(got.deployment, sent.deployment);
  EXPECT_EQ(got.runner.numeric_class, sent.runner.numeric_class);
  EXPECT_EQ(got.runner.max_running, 32);
  EXPECT_EQ(got.runner.pages_total, 1000);
  EXPECT_EQ(got.runner.pages, sent.runner.pages);
  EXPECT_EQ(got.runner.page_bytes, 4096);
  EXPECT_EQ(got.runner.max_model_len, 2048);
  EXPECT_THAT(got.runner.adapter_pages, ElementsAre(3, 4));
  EXPECT_TRUE(got.runner.caches_prefixes);
  Hello uncached = sent;
  uncached.runner.caches_prefixes = false;
  EXPECT_FALSE(RoundTrip(uncached).runner.caches_prefixes);
  Hello scheduler;
  scheduler.role = Role::kScheduler;
  scheduler.features = {"later"};
  EXPECT_THAT(RoundTrip(scheduler).features, ElementsAre("later"));
  for (const auto flag : {&Hello::takes_hints, &Hello::keeps_formats, &Hello::keeps_tool_calls,
                          &Hello::keeps_reasoning, &Hello::makes_embeddings, &Hello::classifies,
                          &Hello::bounds_reasoning, &Hello::masks_tokens}) {
    Hello old;
    old.role = Role::kScheduler;
    EXPECT_TRUE(RoundTrip(old).*flag);
    old.*flag = false;
    EXPECT_FALSE(RoundTrip(old).*flag) << "as of a release that says nothing of it";
  }
}

TEST(Codec, KeepsWhatGoesToAndFromASchedulerWithTimesAsAges) {
  const wire::Submission submission = RoundTrip(SomeSubmission());
  const wire::Submission sent = SomeSubmission();
  EXPECT_EQ(submission.sequence, sent.sequence);
  EXPECT_EQ(submission.gateway, sent.gateway);
  EXPECT_EQ(submission.tenant, sent.tenant);
  EXPECT_EQ(submission.adapter, sent.adapter);
  EXPECT_EQ(submission.adapter_pages, sent.adapter_pages);
  EXPECT_EQ(submission.num_tokens, sent.num_tokens);
  EXPECT_EQ(submission.num_generated, sent.num_generated);
  EXPECT_EQ(submission.max_tokens, sent.max_tokens);
  EXPECT_EQ(submission.priority, sent.priority);
  EXPECT_EQ(submission.attempt, sent.attempt);
  EXPECT_EQ(submission.arrival, kThere - milliseconds(1500));
  EXPECT_EQ(submission.failed_on, sent.failed_on);
  EXPECT_EQ(submission.is_sibling, sent.is_sibling);
  EXPECT_EQ(submission.prefix, sent.prefix);
  wire::Submission longer = sent;
  longer.prefix.assign(wire::kMaxPrefixMarks + 5, 7);
  EXPECT_EQ(RoundTrip(longer).prefix.size(), wire::kMaxPrefixMarks);
  EXPECT_EQ(submission.numeric_class, sent.numeric_class);
  EXPECT_EQ(RoundTrip(wire::Submission{.sequence = SequenceId(1), .gateway = GatewayId(0)}).adapter,
            kBaseModel);

  const auto placement =
      RoundTrip(wire::Placement{Epoch(9), SequenceId(8), GatewayId(7), 6, RunnerId(5)});
  EXPECT_EQ(placement.epoch, Epoch(9));
  EXPECT_EQ(placement.sequence, SequenceId(8));
  EXPECT_EQ(placement.gateway, GatewayId(7));
  EXPECT_EQ(placement.attempt, 6u);
  EXPECT_EQ(placement.runner, RunnerId(5));

  const auto refusal = RoundTrip(Refusal{SequenceId(1), milliseconds(1500), "full"});
  EXPECT_EQ(refusal.retry_after, milliseconds(1500));
  EXPECT_EQ(refusal.reason, "full");
  EXPECT_EQ(RoundTrip(delivery::CloseSequence{SequenceId(4)}).sequence, SequenceId(4));
  EXPECT_EQ(RoundTrip(Welcome{Epoch(2)}).epoch, Epoch(2));
  EXPECT_THAT(
      RoundTrip(RunnerList{{{RunnerId(1), "a:1"}, {RunnerId(2), "b:2"}}}).runners,
      ElementsAre(RunnerList::Runner{RunnerId(1), "a:1"}, RunnerList::Runner{RunnerId(2), "b:2"}));
  RoundTrip(RunnerLeaving());
  const auto prefetch = RoundTrip(Prefetch{SequenceId(3), RunnerId(4)});
  EXPECT_EQ(prefetch.sequence, SequenceId(3));
  EXPECT_EQ(prefetch.runner, RunnerId(4));
  const std::vector<delivery::SharedAdapter> shared = {
      {delivery::kFirstSharedAdapter, "digest", {"hf://owner/name", "", "folder"}}};
  const auto load = RoundTrip(LoadAdapters{.tenant = "acme", .shared = shared});
  EXPECT_EQ(load.tenant, "acme");
  EXPECT_EQ(load.shared, shared);
}

TEST(Codec, KeepsReports) {
  wire::RunnerReport report{.runner = RunnerId(3), .number = 9, .available_pages = 100};
  using State = wire::RunnerSequenceState;
  for (const State state : {State::kPending, State::kRunning, State::kEvicted}) {
    report.sequences.push_back({.sequence = SequenceId(5),
                                .gateway = GatewayId(2),
                                .attempt = 1,
                                .state = state,
                                .adapter = AdapterId(0),
                                .adapter_pages = 4,
                                .num_tokens = 30,
                                .num_generated = 10,
                                .priority = 1,
                                .arrival = kNow - milliseconds(250)});
  }
  const auto got = RoundTrip(report);
  EXPECT_EQ(got.runner, report.runner);
  EXPECT_EQ(got.number, 9);
  EXPECT_EQ(got.available_pages, 100);
  ASSERT_EQ(got.sequences.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got.sequences[i].state, report.sequences[i].state);
    EXPECT_EQ(got.sequences[i].sequence, SequenceId(5));
    EXPECT_EQ(got.sequences[i].gateway, GatewayId(2));
    EXPECT_EQ(got.sequences[i].attempt, 1u);
    EXPECT_EQ(got.sequences[i].adapter, AdapterId(0));
    EXPECT_EQ(got.sequences[i].adapter_pages, 4);
    EXPECT_EQ(got.sequences[i].num_tokens, 30);
    EXPECT_EQ(got.sequences[i].num_generated, 10);
    EXPECT_EQ(got.sequences[i].priority, 1);
    EXPECT_EQ(got.sequences[i].arrival, kThere - milliseconds(250));
  }
}

TEST(Codec, KeepsAttempts) {
  const delivery::StartAttempt sent = SomeStart();
  const delivery::StartAttempt got = RoundTrip(sent);
  EXPECT_EQ(got.epoch, sent.epoch);
  EXPECT_EQ(got.gateway, sent.gateway);
  EXPECT_EQ(got.adapter_pages, sent.adapter_pages);
  EXPECT_EQ(got.output, sent.output);
  EXPECT_EQ(got.request.sequence, sent.request.sequence);
  EXPECT_EQ(got.request.tenant, sent.request.tenant);
  EXPECT_EQ(got.request.adapters, sent.request.adapters);
  EXPECT_EQ(got.shared, sent.shared);
  EXPECT_EQ(got.request.prompt, sent.request.prompt);
  EXPECT_EQ(got.request.choice, sent.request.choice);
  EXPECT_EQ(got.request.max_tokens, sent.request.max_tokens);
  EXPECT_EQ(got.request.min_tokens, sent.request.min_tokens);
  EXPECT_EQ(got.request.stop_token_ids, sent.request.stop_token_ids);
  EXPECT_EQ(got.request.format, sent.request.format);
  EXPECT_EQ(got.request.reasoning_budget, sent.request.reasoning_budget);
  EXPECT_EQ(got.request.prediction, sent.request.prediction);
  EXPECT_EQ(got.request.pooling, wire::Pooling::kEmbedding);
  EXPECT_EQ(got.request.priority, -7);
  for (const auto pooling :
       {wire::Pooling::kNone, wire::Pooling::kClassLogits, wire::Pooling::kClassProbabilities}) {
    delivery::StartAttempt other = SomeStart();
    other.request.pooling = pooling;
    EXPECT_EQ(RoundTrip(other).request.pooling, pooling);
  }
  EXPECT_EQ(got.request.attempt, sent.request.attempt);
  EXPECT_EQ(got.request.arrival, kThere - milliseconds(10));
  const wire::SamplingParams& params = got.request.sampling;
  EXPECT_EQ(params.temperature, 0.7f);
  EXPECT_EQ(params.top_k, 5);
  EXPECT_EQ(params.top_p, 0.9f);
  EXPECT_EQ(params.min_p, 0.05f);
  EXPECT_EQ(params.repetition_penalty, 1.2f);
  EXPECT_EQ(params.presence_penalty, -1);
  EXPECT_EQ(params.frequency_penalty, 0.5f);
  EXPECT_EQ(params.logit_bias, sent.request.sampling.logit_bias);
  EXPECT_EQ(params.seed, ~uint64_t{0});
  EXPECT_EQ(params.num_logprobs, 0);
  EXPECT_TRUE(params.prompt_logprobs);
  delivery::StartAttempt plain = sent;
  plain.request.sampling = {};
  EXPECT_EQ(RoundTrip(plain).request.sampling.num_logprobs, std::nullopt);

  EXPECT_EQ(RoundTrip(delivery::ReleaseAttempt{SequenceId(1), 2}),
            (delivery::ReleaseAttempt{SequenceId(1), 2}));
  const auto refused = RoundTrip(delivery::AttemptRefused{SequenceId(1), 2, "full"});
  EXPECT_EQ(refused.attempt, 2u);
  EXPECT_EQ(refused.reason, "full");
}

TEST(Codec, KeepsWhatTheOutputMustBe) {
  delivery::StartAttempt start = SomeStart();
  for (const size_t size : {size_t{0}, wire::kMaxOutputFormatBytes}) {
    for (const auto kind :
         {wire::OutputFormat::Kind::kRegex, wire::OutputFormat::Kind::kToolCalls}) {
      start.request.format = {kind, std::string(size, 'x')};
      EXPECT_EQ(RoundTrip(start).request.format, start.request.format);
    }
  }
  start.request.format.reasoning = {.begin = "",
                                    .end = std::string(wire::kMaxReasoningMarkerBytes, 'x'),
                                    .answer = "<|channel|>final<|message|>"};
  EXPECT_EQ(RoundTrip(start).request.format, start.request.format);
  start.request.format = {};
  EXPECT_TRUE(RoundTrip(start).request.format.is_text());
}

TEST(Codec, KeepsTokens) {
  wire::TokenEvent failed;
  failed.sequence = SequenceId(78);
  failed.finish = wire::FinishReason::kError;
  failed.error = InvalidArgument("too long");
  wire::TokenEvent plain;
  plain.sequence = SequenceId(79);
  plain.token = 5;
  const std::vector<wire::TokenEvent> got =
      RoundTrip(TokenEvents{{SomeEvent(), failed, plain}}).events;
  ASSERT_EQ(got.size(), 3u);
  const wire::TokenEvent sent = SomeEvent();
  EXPECT_EQ(got[0].sequence, sent.sequence);
  EXPECT_EQ(got[0].prediction_use, sent.prediction_use);
  EXPECT_EQ(got[0].attempt, sent.attempt);
  EXPECT_EQ(got[0].index, sent.index);
  EXPECT_EQ(got[0].token, 0);
  EXPECT_EQ(got[0].logprobs->logprob, -0.5f);
  EXPECT_EQ(got[0].logprobs->rank, 2);
  EXPECT_EQ(got[0].logprobs->top[1].token, 0);
  EXPECT_EQ(got[0].logprobs->top[1].logprob, -0.5f);
  ASSERT_EQ(got[0].prompt_logprobs.size(), 2u);
  EXPECT_EQ(got[0].prompt_logprobs[1].logprob, -INFINITY);
  EXPECT_EQ(got[0].finish, wire::FinishReason::kStop);
  EXPECT_EQ(got[0].stop_token, 0);
  EXPECT_EQ(got[0].num_cached, 16);
  EXPECT_EQ(got[0].pooled, sent.pooled);
  EXPECT_EQ(got[0].label, sent.label);
  EXPECT_TRUE(got[0].error.ok());
  EXPECT_EQ(got[1].token, std::nullopt);
  EXPECT_EQ(got[1].error, failed.error);
  EXPECT_EQ(got[2].finish, std::nullopt);
  EXPECT_EQ(got[2].stop_token, std::nullopt);
  EXPECT_EQ(got[2].logprobs, std::nullopt);
}

TEST(Deployment, SaysWhereTwoDiffer) {
  const Deployment ours = {"base", {{"french", "d1"}, {"poet", "d2"}}};
  EXPECT_THAT(DescribeDifference(ours, ours), IsEmpty());
  Deployment theirs = ours;
  theirs.adapters[1].digest = "d3";
  EXPECT_EQ(DescribeDifference(ours, theirs),
            "adapter 1 is poet (generation d2) here and poet (generation d3) there");
  theirs.adapters.pop_back();
  EXPECT_EQ(DescribeDifference(ours, theirs), "there are 2 adapters here and 1 there");
  theirs.base_digest = "other";
  EXPECT_EQ(DescribeDifference(ours, theirs), "the base model is base here and other there");
}

}  // namespace
}  // namespace aril::cluster
