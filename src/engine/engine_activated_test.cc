// Adapters that apply from their invocation in the prompt on: which rows they change, and which
// pages sequences share then. That the numbers are PEFT's is tests/fidelity.

#include <random>

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int32_t kInvocation = 150;
// Twice the same activated adapter, then one that applies to all tokens.
constexpr AdapterId kFirst(0), kSecond(1), kPlain(2);

TestEngineOptions WithActivated() {
  TestEngineOptions options;
  options.adapter_dirs = {kEngineTestModel + "/adapters/activated-head-r4",
                          kEngineTestModel + "/adapters/activated-head-r4",
                          kEngineTestModel + "/adapters/all-r4"};
  return options;
}

// Pages hold four tokens.
class EngineActivated : public ::testing::Test {
 protected:
  // Tokens of which none is the invocation.
  std::vector<int32_t> Tokens(int64_t length) {
    std::vector<int32_t> tokens = RandomPrompt(random_, length);
    std::ranges::replace(tokens, kInvocation, kInvocation + 1);
    return tokens;
  }
  std::vector<int32_t> InvokedAt(std::vector<int32_t> tokens, int64_t position) {
    tokens[static_cast<size_t>(position)] = kInvocation;
    return tokens;
  }
  wire::SequenceRequest Request(std::vector<int32_t> prompt, AdapterMix adapters,
                                int32_t max_tokens = 6) {
    wire::SequenceRequest request = GreedyRequest(next_id_++, std::move(prompt), max_tokens);
    request.adapters = std::move(adapters);
    request.sampling.num_logprobs = 3;
    return request;
  }
  // What an engine answers that never shares a page.
  static Stream Alone(wire::SequenceRequest request) {
    TestEngineOptions options = WithActivated();
    options.engine.enable_prefix_caching = false;
    TestEngine engine(options);
    return RunAlone(engine, request);
  }
  // What follows the tokens of an earlier attempt.
  static Stream GoOn(wire::SequenceRequest request, std::vector<int32_t> output) {
    request.output = std::move(output);
    TestEngine engine(WithActivated());
    return RunToEnd(*engine, {request})[request.sequence.value()];
  }
  std::mt19937_64 random_{17};
  int64_t next_id_ = 0;
  TestEngine engine_{WithActivated()};
};

TEST_F(EngineActivated, RowsBeforeTheInvocationAreTheBaseModels) {
  const std::vector<int32_t> prompt = InvokedAt(InvokedAt(Tokens(30), 9), 20);
  const auto run = [&](const AdapterMix& adapters) {
    auto request = Request(prompt, adapters);
    request.sampling.prompt_logprobs = true;
    return RunAlone(engine_, request);
  };
  const Stream base = run({});
  const Stream invoked = run({{kFirst}});
  // What is told about token i is of the row before it; the last invocation counts.
  for (size_t i = 0; i < prompt.size(); ++i) {
    EXPECT_EQ(Same(invoked.prompt_logprobs[i], base.prompt_logprobs[i]), i <= 20) << "token " << i;
  }
  // Likewise with another adapter beneath it.
  const Stream plain = run({{kPlain}});
  const Stream both = run({{kPlain}, {kFirst, -0.5f}});
  for (size_t i = 1; i < prompt.size(); ++i) {
    EXPECT_EQ(Same(both.prompt_logprobs[i], plain.prompt_logprobs[i]), i <= 20) << "token " << i;
    EXPECT_FALSE(Same(both.prompt_logprobs[i], base.prompt_logprobs[i])) << "token " << i;
  }
}

TEST_F(EngineActivated, RefusesAPromptThatDoesNotInvokeIt) {
  for (const AdapterMix& mix : {AdapterMix{{kFirst}}, {{kPlain}, {kFirst}}}) {
    auto request = Request(Tokens(21), mix);
    request.output = {3, kInvocation};
    const auto accepted = engine_->Accept(request);
    EXPECT_EQ(accepted.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(accepted.status()), HasSubstr("nowhere are the tokens [150]"));
  }
}

TEST_F(EngineActivated, WhatIsGeneratedInvokesNothing) {
  const auto request = Request(InvokedAt(Tokens(10), 6), {{kFirst}}, 9);
  const std::vector<int32_t> whole = Alone(request).tokens;
  EXPECT_EQ(GoOn(request, {whole.begin(), whole.begin() + 4}).tokens,
            std::vector(whole.begin() + 4, whole.end()));
  // Were it invoked by this, what is before would be the base model's.
  const std::vector<int32_t> answer = {3, kInvocation, 4};
  auto prompt = request.prompt;
  prompt.insert(prompt.end(), answer.begin(), answer.end());
  EXPECT_NE(GoOn(request, answer).logprobs[0]->logprob,
            Alone(Request(prompt, {{kFirst}})).logprobs[0]->logprob);
}

TEST_F(EngineActivated, ItsRowsMakeASegmentOfTheirOwn) {
  Add(*engine_, Request(InvokedAt(Tokens(12), 5), {{kFirst}}));
  Add(*engine_, Request(InvokedAt(Tokens(8), 0), {{kFirst}}));
  Add(*engine_, Request(InvokedAt(Tokens(9), 3), {{kPlain}, {kFirst}}));
  Streams streams;
  streams.Take(engine_->Step());
  EXPECT_EQ(engine_->Stats().num_rows, 12 + 8 + 9);
  EXPECT_EQ(engine_->Stats().num_segments, 1 + 2) << "the first two stand beside each other";
  while (engine_->HasWork()) streams.Take(engine_->Step());
  EXPECT_THAT(streams.problems(), IsEmpty());
  ExpectAllPagesBack(engine_);
}

TEST_F(EngineActivated, TakesThePagesOfTheBaseModelUpToItsInvocation) {
  const std::vector<int32_t> prompt = InvokedAt(Tokens(40), 30);
  EXPECT_EQ(RunAlone(engine_, Request(prompt, {})).num_cached, 0);
  for (const AdapterId id : {kFirst, kSecond}) {
    const auto request = Request(prompt, {{id}});
    const Stream stream = RunAlone(engine_, request);
    EXPECT_EQ(stream.num_cached, 28) << "the page of the invocation is nobody else's";
    ExpectSame(stream, Alone(request));
  }
  EXPECT_EQ(RunAlone(engine_, Request(prompt, {{kFirst}})).num_cached, 36) << "its own";
  EXPECT_EQ(RunAlone(engine_, Request(prompt, {{kPlain}})).num_cached, 0);
  EXPECT_EQ(RunAlone(engine_, Request(prompt, {{kPlain}, {kFirst}})).num_cached, 28)
      << "up to there the plain one's alone";
}

// A conversation with the base model, of which an adapter is asked; and it goes on.
TEST_F(EngineActivated, LeavesThePagesBeforeItToTheBaseModel) {
  std::vector<int32_t> text = Tokens(22);
  const auto request = Request(InvokedAt(text, 21), {{kFirst}});
  ExpectSame(RunAlone(engine_, request), Alone(request));
  const auto answer = RunAlone(engine_, Request(text, {}, 10));
  EXPECT_EQ(answer.num_cached, 20) << "which the adapter's sequence has computed";
  text.insert(text.end(), answer.tokens.begin(), answer.tokens.end());
  text.push_back(kInvocation);
  const auto judged = Request(text, {{kSecond}});
  const Stream stream = RunAlone(engine_, judged);
  EXPECT_EQ(stream.num_cached, 28) << "the question and the answer";
  ExpectSame(stream, Alone(judged));
}

// Of a text that takes several steps. Who joins the one in which it ends, finds what was computed
// before that one.
TEST_F(EngineActivated, ThoseThatAskAtOnceComputeATextOnce) {
  constexpr int64_t kRows = 16;
  TestEngineOptions options = WithActivated();
  options.engine.max_num_batched_tokens = kRows;
  TestEngine engine(options);
  const std::vector<int32_t> prompt = InvokedAt(Tokens(60), 50);
  std::vector<wire::SequenceRequest> requests;
  for (const AdapterId id : {kFirst, kSecond, kFirst, kSecond}) {
    requests.push_back(Request(prompt, {{id}}, 1));
    Add(*engine, requests.back());
  }
  Streams streams;
  int64_t num_rows = 0;
  while (engine->HasWork()) {
    streams.Take(engine->Step());
    num_rows += engine->Stats().num_rows;
  }
  EXPECT_LE(num_rows, 60 + 3 * kRows);
  for (const auto& request : requests) {
    ExpectSame(streams[request.sequence.value()], Alone(request));
  }
}

// Embeddings, too, of a text that invokes the adapter.
TEST_F(EngineActivated, EmbedsBehindItsInvocation) {
  const auto embedding = [&](const std::vector<int32_t>& text, const AdapterMix& adapters) {
    auto request = Request(text, adapters, 0);
    request.sampling.num_logprobs = std::nullopt;
    request.pooling = wire::Pooling::kEmbedding;
    return request;
  };
  const std::vector<int32_t> text = InvokedAt(InvokedAt(Tokens(23), 9), 21);
  const Stream base = RunAlone(engine_, embedding(text, {}));
  const Stream invoked = RunAlone(engine_, embedding(text, {{kFirst}}));
  EXPECT_EQ(invoked.num_cached, 20);
  EXPECT_EQ(invoked.pooled, Alone(embedding(text, {{kFirst}})).pooled);
  EXPECT_NE(invoked.pooled, base.pooled);
}

// Random requests that share openings, with and without invocations, that come and are cancelled at
// any time, in pools and batches of any size: each answers what it answers alone.
TEST_F(EngineActivated, RandomWorkAnswersAsAlone) {
  TestEngineOptions without_cache = WithActivated();
  without_cache.engine.enable_prefix_caching = false;
  TestEngine alone(without_cache);
  int64_t hits = 0;
  int64_t evictions = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    random_.seed(seed);
    const auto draw = [&](uint64_t count) { return static_cast<int64_t>(random_() % count); };
    TestEngineOptions options = WithActivated();
    options.engine.max_num_seqs = 2 + draw(8);
    options.engine.max_num_batched_tokens = options.engine.max_num_seqs + draw(30);
    options.engine.num_pages =
        static_cast<int32_t>(engine_->PagesFor(kPlain) + engine_->PagesFor(kFirst) + 22 + draw(8));
    options.engine.drafts.max_rows = seed % 2 == 0 ? 0 : 12;
    TestEngine engine(options);
    const std::vector<int32_t> openings[] = {InvokedAt(Tokens(33), 25), Tokens(20)};
    const AdapterMix mixes[] = {{},
                                {{kFirst}},
                                {{kSecond}},
                                {{kPlain}},
                                {{kFirst, 0.5f}},
                                {{kPlain}, {kFirst}},
                                {{kFirst}, {kPlain}}};
    const auto make = [&](int64_t id) {
      std::vector<int32_t> prompt = openings[draw(2)];
      const std::vector<int32_t> rest = Tokens(1 + draw(20));
      prompt.insert(prompt.end(), rest.begin(), rest.end());
      const AdapterMix& mix = mixes[draw(std::size(mixes))];
      const bool is_invoked = Uses(mix, kFirst) || Uses(mix, kSecond);
      if (is_invoked || draw(2) == 0) prompt = InvokedAt(prompt, draw(prompt.size()));
      next_id_ = id;
      auto request = Request(prompt, mix, static_cast<int32_t>(draw(30)));
      request.sampling.prompt_logprobs = draw(6) == 0;
      return request;
    };
    RandomWork work = RunAtRandom(engine, random_, 40, make, Streams::PerStep::kSeveral);
    for (const wire::SequenceRequest& request : work.requests) {
      SCOPED_TRACE(testing::Message() << "sequence " << request.sequence);
      ExpectSame(work.streams[request.sequence.value()], RunAlone(alone, request));
    }
    ExpectAllPagesBack(engine);
    hits += engine->Stats().prefix_hits;
    evictions += engine->Stats().evictions;
  }
  EXPECT_GT(hits, 1000);
  EXPECT_GT(evictions, 10);
}

}  // namespace
}  // namespace aril
