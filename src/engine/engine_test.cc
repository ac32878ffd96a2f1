// What one request gets: where it ends, and what is reported about it.

#include "engine/engine.h"

#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::FinishReason;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5, 63, 28};

// The stream of one request alone.
Stream RunAlone(TestEngine& engine, const wire::SequenceRequest& request) {
  Streams streams = RunToEnd(*engine, {request});
  EXPECT_THAT(streams.problems(), IsEmpty());
  return streams[request.sequence.value()];
}

void ExpectAllPagesBack(TestEngine& engine) {
  const wire::StepStats stats = engine->Stats();
  EXPECT_EQ(stats.pages_kv, 0);
  EXPECT_EQ(stats.pages_free + stats.pages_adapter + stats.pages_prefix, stats.pages_total);
  EXPECT_THAT(stats.adapters, IsEmpty());
  EXPECT_FALSE(engine->HasWork());
}

TEST(Engine, StopsAtMaxTokens) {
  TestEngine engine({});
  const Stream stream = RunAlone(engine, GreedyRequest(0, kPrompt, 12));
  EXPECT_THAT(stream.tokens, SizeIs(12));
  EXPECT_EQ(stream.finish, FinishReason::kLength);
  EXPECT_EQ(stream.stop_token, std::nullopt);
  ExpectAllPagesBack(engine);
}

TEST(Engine, StopsAtTheFirstStopToken) {
  TestEngine engine({});
  const std::vector<int32_t> tokens = RunAlone(engine, GreedyRequest(0, kPrompt, 12)).tokens;
  auto request = GreedyRequest(1, kPrompt, 12);
  request.stop_token_ids = {1'000'000, -1, tokens[4]};  // some are no tokens at all
  const Stream stream = RunAlone(engine, request);
  const auto end = std::find(tokens.begin(), tokens.end(), tokens[4]) + 1;
  EXPECT_EQ(stream.tokens, std::vector(tokens.begin(), end)) << "the stop token is reported, too";
  EXPECT_EQ(stream.finish, FinishReason::kStop);
  EXPECT_EQ(stream.stop_token, tokens[4]);
}

TEST(Engine, AStopTokenAtTheVeryEndIsAStop) {
  TestEngine engine({});
  const std::vector<int32_t> tokens = RunAlone(engine, GreedyRequest(0, kPrompt, 1)).tokens;
  auto request = GreedyRequest(1, kPrompt, 1);
  request.stop_token_ids = tokens;
  EXPECT_EQ(RunAlone(engine, request).finish, FinishReason::kStop);
}

// What a cluster promises when a runner dies: the next attempt, with the tokens so far, goes on as
// if nothing had been, whatever depends on positions and on what has been said.
TEST(Engine, GoesOnBehindTheOutputOfAnEarlierAttempt) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 12, AdapterId(0));
  request.sampling = {.temperature = 0.9f,
                      .repetition_penalty = 1.1f,
                      .presence_penalty = 0.3f,
                      .frequency_penalty = 0.2f,
                      .seed = 7,
                      .num_logprobs = 2,
                      .prompt_logprobs = true};
  request.min_tokens = 9;
  request.stop_token_ids = {3};
  const Stream whole = RunAlone(engine, request);
  ASSERT_GE(whole.tokens.size(), 9u);
  const auto num_tokens = static_cast<int64_t>(whole.tokens.size());
  for (int64_t cut = 1; cut < num_tokens; ++cut) {
    auto resumed = request;
    resumed.sequence = SequenceId(cut);
    resumed.output.assign(whole.tokens.begin(), whole.tokens.begin() + cut);
    engine->Add(*engine->Accept(resumed));
    std::vector<int32_t> tokens;
    std::optional<FinishReason> finish;
    while (engine->HasWork()) {
      for (const wire::TokenEvent& event : engine->Step()) {
        EXPECT_EQ(event.index, cut + static_cast<int64_t>(tokens.size()));
        EXPECT_THAT(event.prompt_logprobs, IsEmpty()) << "they went with the first token";
        EXPECT_LE(event.num_cached, static_cast<int32_t>(kPrompt.size()));
        tokens.push_back(*event.token);
        finish = event.finish;
      }
    }
    EXPECT_EQ(tokens, std::vector(whole.tokens.begin() + cut, whole.tokens.end())) << cut;
    EXPECT_EQ(finish, whole.finish);
  }
  ExpectAllPagesBack(engine);
}

TEST(Engine, RefusesAnOutputThatLeavesNothingToDo) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 3);
  request.output = {1, 2, 3};
  EXPECT_THAT(Message(engine->Accept(request).status()),
              HasSubstr("has 3 tokens of output already, and max_tokens is 3"));
  request.output = {1, 1'000'000};
  EXPECT_THAT(Message(engine->Accept(request).status()), HasSubstr("outside the vocabulary"));
}

TEST(Engine, ListsItsSequencesForAScheduler) {
  TestEngineOptions options;
  options.engine.lists_sequences = true;
  options.engine.max_num_seqs = 1;
  TestEngine engine(options);
  EXPECT_EQ(engine->Stats().pages_available, engine->Stats().pages_total);
  engine->Add(*engine->Accept(GreedyRequest(4, kPrompt, 3)));
  engine->Add(*engine->Accept(GreedyRequest(2, kPrompt, 3)));
  engine->Step();
  const auto num_prompt = static_cast<int32_t>(kPrompt.size());
  const wire::StepStats stats = engine->Stats();
  EXPECT_THAT(stats.sequences,
              ElementsAre(wire::SequenceState{SequenceId(4), true, true, num_prompt + 1},
                          wire::SequenceState{SequenceId(2), false, false, num_prompt}));
  EXPECT_LT(stats.pages_available, stats.pages_total);
  engine->Cancel(SequenceId(4));
  engine->Cancel(SequenceId(2));
  engine->Step();
  EXPECT_THAT(engine->Stats().sequences, IsEmpty());
  EXPECT_EQ(engine->Stats().pages_available, engine->Stats().pages_total);
}

TEST(Engine, DoesNotStopBeforeMinTokens) {
  TestEngine engine({});
  const std::vector<int32_t> tokens = RunAlone(engine, GreedyRequest(0, kPrompt, 12)).tokens;
  auto request = GreedyRequest(1, kPrompt, 12);
  request.stop_token_ids = {tokens[0]};
  request.min_tokens = 5;
  const Stream stream = RunAlone(engine, request);
  ASSERT_GE(stream.tokens.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_NE(stream.tokens[i], tokens[0]) << "it is not even chosen";

  // From min_tokens on it may: here the second token is the first that may stop.
  ASSERT_NE(tokens[0], tokens[1]);
  request = GreedyRequest(2, kPrompt, 12);
  request.stop_token_ids = {tokens[1]};
  request.min_tokens = 1;
  EXPECT_THAT(RunAlone(engine, request).tokens, ElementsAre(tokens[0], tokens[1]));
}

TEST(Engine, MinTokensBeyondMaxTokensEndsByLength) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 3);
  request.min_tokens = 100;
  request.stop_token_ids = {2};
  const Stream stream = RunAlone(engine, request);
  EXPECT_THAT(stream.tokens, SizeIs(3));
  EXPECT_EQ(stream.finish, FinishReason::kLength);
}

TEST(Engine, MaxTokensZeroOnlyReadsThePrompt) {
  TestEngineOptions options;
  options.engine.max_num_seqs = options.engine.max_num_batched_tokens = 4;  // two chunks
  TestEngine engine(options);
  const Stream stream = RunAlone(engine, GreedyRequest(0, kPrompt, 0, AdapterId(0)));
  EXPECT_THAT(stream.tokens, IsEmpty());
  EXPECT_THAT(stream.prompt_logprobs, IsEmpty());
  EXPECT_EQ(stream.finish, FinishReason::kLength);
  EXPECT_EQ(engine->Stats().step, 2);
  ExpectAllPagesBack(engine);
}

TEST(Engine, ReportsLogprobsWithEveryToken) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 6, AdapterId(1));
  request.sampling.num_logprobs = 3;
  const Stream stream = RunAlone(engine, request);
  ASSERT_THAT(stream.logprobs, SizeIs(6));
  for (size_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(stream.logprobs[i].has_value());
    EXPECT_EQ(stream.logprobs[i]->rank, 1) << "greedy";
    ASSERT_THAT(stream.logprobs[i]->top, SizeIs(3));
    EXPECT_EQ(stream.logprobs[i]->top[0].token, stream.tokens[i]);
    EXPECT_EQ(stream.logprobs[i]->top[0].logprob, stream.logprobs[i]->logprob);
  }
  EXPECT_FALSE(RunAlone(engine, GreedyRequest(1, kPrompt, 1)).logprobs.at(0).has_value());
}

TEST(Engine, AnOddNumberOfAlternativesDoesNoHarm) {
  TestEngine engine({});
  for (const int32_t count : {-1, 0, 1'000'000}) {
    auto request = GreedyRequest(0, kPrompt, 1);
    request.sampling.num_logprobs = count;
    const Stream stream = RunAlone(engine, request);
    const int64_t expected = std::clamp<int64_t>(count, 0, engine.spec().vocab_size);
    EXPECT_EQ(static_cast<int64_t>(stream.logprobs[0]->top.size()), expected);
  }
}

TEST(Engine, CancelsWhatRunsAndWhatWaits) {
  TestEngineOptions options;
  options.engine.max_num_seqs = 1;
  TestEngine engine(options);
  Streams streams;
  for (const int64_t id : {0, 1, 2}) {
    Add(*engine, GreedyRequest(id, kPrompt, 50, AdapterId(static_cast<int32_t>(id))));
  }
  streams.Take(engine->Step());
  EXPECT_EQ(engine->Stats().num_running, 1);
  EXPECT_EQ(engine->Stats().num_waiting, 2);
  engine->Cancel(SequenceId(0));
  engine->Cancel(SequenceId(2));
  engine->Cancel(SequenceId(2));
  engine->Cancel(SequenceId(77));
  streams.Take(engine->Step());
  EXPECT_EQ(streams[0].finish, FinishReason::kCancelled);
  EXPECT_THAT(streams[0].tokens, SizeIs(1)) << "no token any more in the step that cancels";
  EXPECT_EQ(streams[2].finish, FinishReason::kCancelled);
  EXPECT_THAT(streams[2].tokens, IsEmpty());
  EXPECT_THAT(streams[1].tokens, SizeIs(1)) << "took the place in the same step";
  engine->Cancel(SequenceId(1));
  streams.Take(engine->Step());
  EXPECT_EQ(streams[1].finish, FinishReason::kCancelled);
  EXPECT_THAT(streams.problems(), IsEmpty());
  ExpectAllPagesBack(engine);
}

TEST(Engine, CancelsBeforeTheFirstStepAndInTheMiddleOfAPrompt) {
  TestEngineOptions options;
  options.engine.max_num_seqs = options.engine.max_num_batched_tokens = 2;
  TestEngine engine(options);
  Streams streams;
  Add(*engine, GreedyRequest(0, kPrompt, 5));
  engine->Cancel(SequenceId(0));
  streams.Take(engine->Step());
  EXPECT_EQ(streams[0].finish, FinishReason::kCancelled);
  Add(*engine, GreedyRequest(1, kPrompt, 5));
  streams.Take(engine->Step());
  EXPECT_GT(engine->Stats().pages_kv, 0);
  engine->Cancel(SequenceId(1));
  streams.Take(engine->Step());
  EXPECT_EQ(streams[1].finish, FinishReason::kCancelled);
  EXPECT_THAT(streams.problems(), IsEmpty());
  ExpectAllPagesBack(engine);
}

TEST(Engine, CancellingWhatHasJustFinishedDoesNothing) {
  TestEngine engine({});
  Streams streams = RunToEnd(*engine, {GreedyRequest(0, kPrompt, 1)});
  engine->Cancel(SequenceId(0));
  EXPECT_THAT(engine->Step(), IsEmpty());
  // Nor does it touch a later sequence of the same id.
  Add(*engine, GreedyRequest(0, kPrompt, 1));
  const std::vector<wire::TokenEvent> events = engine->Step();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].finish, FinishReason::kLength);
  EXPECT_EQ(events[0].token, streams[0].tokens[0]);
}

TEST(Engine, EventsCarryTheAttempt) {
  TestEngine engine({});
  auto request = GreedyRequest(0, kPrompt, 1);
  request.attempt = 7;
  Add(*engine, request);
  EXPECT_EQ(engine->Step().at(0).attempt, 7u);
}

TEST(Engine, StatsSayWhatRanAndWhatWaits) {
  TestEngineOptions options;
  options.engine.max_num_seqs = 2;
  TestEngine engine(options);
  Add(*engine, GreedyRequest(0, kPrompt, 5, AdapterId(0)));
  Add(*engine, GreedyRequest(1, kPrompt, 5));
  Add(*engine, GreedyRequest(2, kPrompt, 5, AdapterId(2)));
  engine->Step();
  const wire::StepStats stats = engine->Stats();
  EXPECT_EQ(stats.step, 1);
  EXPECT_EQ(stats.num_rows, 14);
  EXPECT_EQ(stats.num_prefill_rows, 14);
  EXPECT_EQ(stats.num_generated, 2);
  EXPECT_EQ(stats.num_segments, 1);
  EXPECT_EQ(stats.num_adapters, 1);
  EXPECT_EQ(stats.adapter_loads, 2) << "the one that runs, and the next one";
  EXPECT_EQ(stats.pages_kv, 4) << "two pages of four tokens each";
  EXPECT_THAT(stats.adapters, ElementsAre(wire::AdapterLoad{kBaseModel, 1, 0},
                                          wire::AdapterLoad{AdapterId(0), 1, 0},
                                          wire::AdapterLoad{AdapterId(2), 0, 1}));
}

TEST(Engine, CountsTheQueueTimeOfEachSequenceOnceAndTheLoadsOfItsAdapter) {
  TestEngineOptions options;
  options.engine.max_num_seqs = 1;
  TestEngine engine(options);
  for (int64_t id = 0; id < 2; ++id) {
    auto request = GreedyRequest(id, kPrompt, 2, AdapterId(0));
    request.arrival = engine.clock().Now();
    Add(*engine, std::move(request));
  }
  std::vector<Duration> queue_times;
  size_t loads = 0;
  while (engine->HasWork()) {
    engine.clock().Advance(std::chrono::seconds(1));
    engine->Step();
    const wire::StepStats stats = engine->Stats();
    queue_times.insert(queue_times.end(), stats.queue_times.begin(), stats.queue_times.end());
    loads += stats.adapter_load_times.size();
  }
  EXPECT_THAT(queue_times, ElementsAre(std::chrono::seconds(1), std::chrono::seconds(3)));
  EXPECT_EQ(loads, 1u);
}

TEST(Engine, AnAdapterThatIsTakenAwayIsUsedToTheEndByWhoHasIt) {
  const AdapterId id(1);
  TestEngine undisturbed({});
  const Stream expected = RunAlone(undisturbed, GreedyRequest(0, kPrompt, 9, id));

  TestEngineOptions options;
  options.engine.max_num_seqs = 1;
  TestEngine engine(options);
  Add(*engine, GreedyRequest(0, kPrompt, 9, id));
  Add(*engine, GreedyRequest(1, kPrompt, 9, id));
  Streams streams;
  streams.Take(engine->Step());
  engine.adapters().Remove(id);  // the first is running, the second waits
  EXPECT_FALSE(engine->Accept(GreedyRequest(2, kPrompt, 9, id)).ok());
  while (engine->HasWork()) streams.Take(engine->Step());
  EXPECT_EQ(streams[0].tokens, expected.tokens);
  EXPECT_EQ(streams[1].tokens, expected.tokens);
  ExpectAllPagesBack(engine);
}

// Whatever else is in the batch, and in whatever order: rows of [0], of [0, 1] and of [1, 0] stand
// beside each other, with segments of the same adapter in all three.
TEST(Engine, SeveralAdaptersOnASequenceAreItsOwnBusiness) {
  const AdapterMix mixes[] = {{{AdapterId(0)}},
                              {{AdapterId(0)}, {AdapterId(1), -2}},
                              {{AdapterId(1), -2}, {AdapterId(0)}},
                              {{AdapterId(0), 0.25f}},
                              {}};
  TestEngine mixed({});
  std::vector<Stream> alone;
  for (size_t i = 0; i < std::size(mixes); ++i) {
    auto request = GreedyRequest(static_cast<int64_t>(i), kPrompt, 9);
    request.adapters = mixes[i];
    request.sampling.num_logprobs = 3;
    TestEngine engine({});
    alone.push_back(RunAlone(engine, request));
    Add(*mixed, std::move(request));
  }
  Streams streams;
  streams.Take(mixed->Step());
  EXPECT_EQ(mixed->Stats().num_adapters, 2);
  EXPECT_EQ(mixed->Stats().num_segments, 6);
  EXPECT_THAT(mixed->Stats().adapters, ElementsAre(wire::AdapterLoad{kBaseModel, 1, 0},
                                                   wire::AdapterLoad{AdapterId(0), 4, 0},
                                                   wire::AdapterLoad{AdapterId(1), 2, 0}));
  while (mixed->HasWork()) streams.Take(mixed->Step());
  for (size_t i = 0; i < std::size(mixes); ++i) {
    const Stream& stream = streams[static_cast<int64_t>(i)];
    EXPECT_EQ(stream.tokens, alone[i].tokens) << i;
    for (size_t t = 0; t < stream.logprobs.size(); ++t) {
      EXPECT_TRUE(Same(*stream.logprobs[t], *alone[i].logprobs[t])) << i << ", token " << t;
    }
  }
  EXPECT_NE(alone[0].logprobs[0]->logprob, alone[1].logprobs[0]->logprob);
  EXPECT_NE(alone[0].logprobs[0]->logprob, alone[3].logprobs[0]->logprob);
  ExpectAllPagesBack(mixed);
}

// A matrix of an adapter's own stands in place of the base's, and all others add to it.
TEST(Engine, AnEmbeddingOfAnAdaptersOwnTakesNothingFromTheOthers) {
  TestEngineOptions options;
  options.adapter_dirs = {kEngineTestModel + "/adapters/saved-r2",
                          kEngineTestModel + "/adapters/head-embedding-r6"};
  const auto first_logprobs = [&](AdapterMix mix) {
    TestEngine engine(options);
    auto request = GreedyRequest(0, kPrompt, 1);
    request.adapters = std::move(mix);
    request.sampling.num_logprobs = 171;
    const wire::Logprobs first = *RunAlone(engine, request).logprobs[0];
    std::map<int32_t, float> by_token;
    for (const auto& [token, logprob] : first.top) by_token[token] = logprob;
    return by_token;
  };
  const auto largest_difference = [](const auto& a, const auto& b) {
    float largest = 0;
    for (const auto& [token, logprob] : a) {
      largest = std::max(largest, std::abs(logprob - b.at(token)));
    }
    return largest;
  };
  const AdapterUse own{AdapterId(0)}, adds{AdapterId(1)};
  const auto before = first_logprobs({own, adds});
  const auto after = first_logprobs({adds, own});
  ASSERT_EQ(before.size(), 171u);
  // Sums of a few values of about 1 in another order, through two layers: 2⁻²⁴ of each, and what
  // the layers make of that. Without what is added, whole tenths are missing.
  EXPECT_LT(largest_difference(before, after), 1e-4f);
  EXPECT_GT(largest_difference(after, first_logprobs({own})), 1e-2f);
}

TEST(Engine, AnEmptyStepIsHarmless) {
  TestEngine engine({});
  EXPECT_THAT(engine->Step(), IsEmpty());
  EXPECT_EQ(engine->Stats().num_rows, 0);
}

TEST(EngineAccept, RefusesMixesThatAreNone) {
  TestEngine engine({});
  const AdapterId known(0);
  for (const AdapterMix& mix : {AdapterMix{{kBaseModel}}, AdapterMix{{known}, {known, 2}},
                                AdapterMix{{known, NAN}}, AdapterMix{{known}, {AdapterId(99)}}}) {
    auto request = GreedyRequest(0, kPrompt, 9);
    request.adapters = mix;
    EXPECT_FALSE(engine->Accept(request).ok());
  }
}

TEST(EngineAccept, RefusesWeightsThatMeanNothing) {
  TestEngineOptions options;
  options.adapter_dirs = {kEngineTestModel + "/adapters/saved-r2",
                          kEngineTestModel + "/adapters/saved-r2",
                          kEngineTestModel + "/adapters/all-r4"};
  TestEngine engine(options);
  const auto error = [&](AdapterMix mix) {
    auto request = GreedyRequest(0, kPrompt, 9);
    request.adapters = std::move(mix);
    return Message(engine->Accept(request).status());
  };
  EXPECT_EQ(error({{AdapterId(0)}, {AdapterId(2), 0.5f}}), "");
  EXPECT_THAT(error({{AdapterId(0), 0.5f}}), HasSubstr("modules_to_save) applies with weight 1"));
  EXPECT_THAT(error({{AdapterId(0)}, {AdapterId(1)}}), HasSubstr("for the same module"));
}

// Of 64 rows in a step. Twenty wait before the quiet one, more than are looked at for what may
// start.
TEST(Engine, TenantsShareTheRowsOfAStep) {
  const auto first_step = [](bool shares_rows) {
    TestEngineOptions options;
    options.engine.shares_rows = shares_rows;
    options.engine.max_num_seqs = 40;
    options.engine.enable_prefix_caching = false;
    TestEngine engine(options);
    for (int64_t id = 0; id < 20; ++id) {
      Add(*engine, GreedyRequest(id, std::vector<int32_t>(60, 7), 1));
    }
    auto quiet = GreedyRequest(20, kPrompt, 1);
    quiet.tenant = "quiet";
    Add(*engine, quiet);
    Streams streams;
    streams.Take(engine->Step());
    EXPECT_EQ(engine->Stats().num_rows, 64);
    std::vector<int64_t> answered;
    for (const auto& [id, stream] : streams.all()) answered.push_back(id.value());
    while (engine->HasWork()) streams.Take(engine->Step());
    EXPECT_THAT(streams.all(), SizeIs(21));
    EXPECT_THAT(streams.problems(), IsEmpty());
    ExpectAllPagesBack(engine);
    return answered;
  };
  EXPECT_THAT(first_step(false), ElementsAre(0));
  EXPECT_THAT(first_step(true), ElementsAre(20)) << "the others have 57 rows of the first one's 60";
}

// Its pages would be there for nobody else, and it lacks rows as well.
TEST(Engine, WhoWaitsForItsTenantsRowsHoldsUpNoOtherTenant) {
  TestEngineOptions options;
  options.engine.shares_rows = true;
  options.engine.max_num_batched_tokens = 40;
  options.engine.num_pages = 38;
  TestEngine engine(options);
  ASSERT_EQ(engine.page_tokens(), 4);
  Add(*engine, GreedyRequest(0, std::vector<int32_t>(120, 7), 1));
  Streams streams;
  streams.Take(engine->Step());
  Add(*engine, GreedyRequest(1, std::vector<int32_t>(119, 8), 1));
  auto quiet = GreedyRequest(2, kPrompt, 1);
  quiet.tenant = "quiet";
  Add(*engine, quiet);
  streams.Take(engine->Step());
  EXPECT_THAT(streams[2].tokens, SizeIs(1));
  while (engine->HasWork()) streams.Take(engine->Step());
  EXPECT_THAT(streams[1].tokens, SizeIs(1));
  EXPECT_THAT(streams.problems(), IsEmpty());
  ExpectAllPagesBack(engine);
}

TEST(EngineAccept, SaysWhatCanNeverRun) {
  TestEngineOptions options;
  options.engine.num_pages = 20;
  TestEngine engine(options);
  const auto message = [&](const wire::SequenceRequest& request) {
    const Status status = engine->Accept(request).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return Message(status);
  };
  EXPECT_TRUE(engine->Accept(GreedyRequest(0, kPrompt, 5)).ok());
  EXPECT_EQ(message(GreedyRequest(0, {}, 5)), "the prompt has no tokens");
  EXPECT_EQ(message(GreedyRequest(0, {1, 171}, 5)),
            "token id 171 is outside the vocabulary of 171 tokens");
  EXPECT_EQ(message(GreedyRequest(0, {-1}, 5)),
            "token id -1 is outside the vocabulary of 171 tokens");
  EXPECT_EQ(message(GreedyRequest(0, {1}, -1)), "max_tokens is negative");
  for (const int32_t id : {3, -2}) {
    EXPECT_EQ(engine->Accept(GreedyRequest(0, {1}, 1, AdapterId(id))).status(),
              NotFound("there is no adapter " + std::to_string(id)));
  }
  EXPECT_THAT(message(GreedyRequest(0, kPrompt, 122)),
              HasSubstr("maximum context length is 128 tokens. However, you requested 129 tokens "
                        "(7 in the prompt, 122 in the completion)"));
  EXPECT_THAT(message(GreedyRequest(0, kPrompt, std::numeric_limits<int32_t>::max())),
              HasSubstr("you requested 2147483654 tokens"));
  EXPECT_THAT(message(GreedyRequest(0, kPrompt, 100)),
              HasSubstr("need 27 pages, but the whole pool has 20"));
  const int64_t adapter = engine->PagesFor(AdapterId(1));
  ASSERT_GT(adapter, 0);
  const auto fits = static_cast<int32_t>((20 - adapter) * engine.page_tokens() - 7);
  EXPECT_TRUE(engine->Accept(GreedyRequest(0, kPrompt, fits, AdapterId(1))).ok());
  EXPECT_THAT(message(GreedyRequest(0, kPrompt, fits + 1, AdapterId(1))),
              HasSubstr("the sequence and its adapters need 21 pages"));
}

}  // namespace
}  // namespace aril
