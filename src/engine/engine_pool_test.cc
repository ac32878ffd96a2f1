// Sequences that share a pool too small for them: eviction, recomputation and the return of every
// page. That logits do not change by it is tests/noninterference.

#include <random>

#include "adapters/test_support.h"
#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::FinishReason;

TEST(EnginePool, OneSequenceMayTakeAllOfIt) {
  // 40 tokens fit the pool exactly.
  TestEngineOptions options;
  options.engine.num_pages = 10;
  TestEngine engine(options);
  std::mt19937_64 random(1);
  const auto a = GreedyRequest(0, RandomPrompt(random, 20), 20);
  const auto b = GreedyRequest(1, RandomPrompt(random, 33), 7);
  Streams streams = RunToEnd(*engine, {a, b});
  EXPECT_THAT(streams.problems(), IsEmpty());
  EXPECT_THAT(streams[0].tokens, SizeIs(20));
  EXPECT_THAT(streams[1].tokens, SizeIs(7));
  EXPECT_EQ(engine->Stats().pages_free + engine->Stats().pages_prefix, 10);
}

TEST(EnginePool, SaysWhatThePagesOfRunningSequencesDoNotHold) {
  TestEngine engine({});
  const int64_t page_tokens = engine.page_tokens();
  engine->Add(*engine->Accept(
      GreedyRequest(0, std::vector<int32_t>(static_cast<size_t>(page_tokens + 1), 5), 3)));
  engine->Step();
  const wire::StepStats stats = engine->Stats();
  EXPECT_EQ(stats.pages_kv, 2);
  EXPECT_EQ(stats.unused_kv_bytes, (page_tokens - 1) * stats.page_bytes / page_tokens);
  engine->Cancel(SequenceId(0));
  engine->Step();
  EXPECT_EQ(engine->Stats().unused_kv_bytes, 0);
}

TEST(EnginePool, TheNewestIsEvictedAndGoesOnWhereItWas) {
  TestEngineOptions options;
  options.engine.num_pages = 12;
  TestEngine engine(options);
  std::mt19937_64 random(2);
  const std::vector<wire::SequenceRequest> requests = {
      GreedyRequest(0, RandomPrompt(random, 12), 30),
      GreedyRequest(1, RandomPrompt(random, 12), 30)};
  Streams streams = RunToEnd(*engine, requests);
  EXPECT_GT(engine->Stats().evictions, 0);
  EXPECT_THAT(streams.problems(), IsEmpty()) << "no token twice, none left out";
  for (const wire::SequenceRequest& request : requests) {
    const int64_t id = request.sequence.value();
    EXPECT_EQ(streams[id].tokens, RunToEnd(*engine, {request})[id].tokens) << "sequence " << id;
  }
}

// The logprobs of a prompt are those that generating it reported.
TEST(EnginePool, PromptLogprobsAreThoseOfGeneration) {
  TestEngine engine({});
  std::mt19937_64 random(3);
  auto request = GreedyRequest(0, RandomPrompt(random, 9), 40, AdapterId(0));
  request.sampling.num_logprobs = 2;
  const Stream generated = RunToEnd(*engine, {request})[0];
  request.prompt.insert(request.prompt.end(), generated.tokens.begin(), generated.tokens.end());
  request.max_tokens = 0;
  request.sampling.prompt_logprobs = true;
  const Stream echoed = RunToEnd(*engine, {request})[0];
  ASSERT_THAT(echoed.prompt_logprobs, SizeIs(49));
  EXPECT_THAT(echoed.prompt_logprobs[0].top, IsEmpty());
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_TRUE(Same(echoed.prompt_logprobs[9 + i], *generated.logprobs[i])) << "token " << i;
  }
}

TEST(EnginePool, PromptLogprobsOfOneTokenAreOneEmptyEntry) {
  TestEngine engine({});
  auto request = GreedyRequest(0, {5}, 1);
  request.sampling.num_logprobs = 1;
  request.sampling.prompt_logprobs = true;
  EXPECT_THAT(RunToEnd(*engine, {request})[0].prompt_logprobs, SizeIs(1));
}

TEST(EnginePool, PromptLogprobsDoNotDependOnChunksAndEvictions) {
  const AdapterId kAdapter(1);
  TestEngine alone({});
  int64_t evictions = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    TestEngineOptions options;
    options.engine.max_num_seqs = 2 + static_cast<int64_t>(random() % 5);
    options.engine.max_num_batched_tokens =
        options.engine.max_num_seqs + static_cast<int64_t>(random() % 12);
    options.engine.num_pages =
        25 + static_cast<int32_t>(alone->PagesFor(kAdapter)) + static_cast<int32_t>(random() % 4);
    TestEngine crowded(options);
    std::vector<wire::SequenceRequest> requests;
    for (int64_t id = 0; id < 8; ++id) {
      requests.push_back(GreedyRequest(
          id, RandomPrompt(random, 1 + static_cast<int64_t>(random() % 70)),
          static_cast<int32_t>(random() % 30), random() % 2 == 0 ? kAdapter : kBaseModel));
      requests.back().sampling.num_logprobs = 2;
      requests.back().sampling.prompt_logprobs = random() % 4 != 0;
    }
    crowded->executor().SetLogitsObserver([](const Sequence& sequence, std::span<const float>) {
      EXPECT_TRUE(sequence.output.empty() || sequence.prompt_logprobs.empty())
          << "computed again, although they were reported with the first token";
    });
    Streams streams = RunToEnd(*crowded, requests);
    EXPECT_THAT(streams.problems(), IsEmpty());
    for (const wire::SequenceRequest& request : requests) {
      const int64_t id = request.sequence.value();
      const Stream expected = RunToEnd(*alone, {request})[id];
      ASSERT_EQ(streams[id].tokens, expected.tokens) << "sequence " << id;
      ASSERT_EQ(expected.prompt_logprobs.size(),
                request.sampling.prompt_logprobs ? request.prompt.size() : 0);
      ASSERT_TRUE(Same(streams[id].prompt_logprobs, expected.prompt_logprobs)) << "sequence " << id;
    }
    evictions += crowded->Stats().evictions;
  }
  EXPECT_GT(evictions, 5);
}

// An adapter whose finite values overflow: its request fails, the others in the batch and the later
// users of its pages see nothing of it.
TEST(EnginePool, InfinitiesHarmTheirOwnSequenceOnly) {
  const TestDir huge(kEngineTestModel + "/adapters/all-r4");
  EditTensors(huge / "adapter_model.safetensors", [](auto& tensors) {
    for (auto& [name, tensor] : tensors)
      tensor = EditableTensors::Tensor::Filled(tensor.shape, 1e30f);
  });
  TestEngineOptions options;
  options.adapter_dirs.push_back(huge.path());
  const AdapterId kHuge(3);
  options.engine.num_pages = 100;  // few, so that pages are used again
  std::mt19937_64 random(4);
  std::vector<wire::SequenceRequest> good;
  for (int64_t id = 0; id < 6; ++id) {
    good.push_back(GreedyRequest(id, RandomPrompt(random, 11), 25,
                                 AdapterId(static_cast<int32_t>(id % 4) - 1)));
  }
  std::map<std::pair<int64_t, int64_t>, std::vector<float>> seen;
  const auto observe = [&](const Sequence& sequence, std::span<const float> logits) {
    seen[{sequence.id().value(), sequence.num_tokens()}].assign(logits.begin(), logits.end());
  };
  TestEngine clean(options);
  clean->executor().SetLogitsObserver(observe);
  RunToEnd(*clean, good);
  const auto expected = std::exchange(seen, {});

  TestEngine mixed(options);
  mixed->executor().SetLogitsObserver(observe);
  std::vector<wire::SequenceRequest> all;
  for (const wire::SequenceRequest& request : good) {
    for (int64_t i = 0; i < 3; ++i) {
      all.push_back(GreedyRequest(100 + request.sequence.value() * 3 + i, RandomPrompt(random, 13),
                                  9, kHuge));
    }
    all.push_back(request);
  }
  Streams streams = RunToEnd(*mixed, all);
  EXPECT_THAT(streams.problems(), IsEmpty());
  for (const auto& [id, stream] : streams.all()) {
    if (id.value() < 100) continue;
    EXPECT_EQ(stream.finish, FinishReason::kError);
    EXPECT_EQ(stream.error.code(), StatusCode::kInternal) << stream.error;
  }
  for (const auto& [key, logits] : expected) {
    ASSERT_EQ(std::memcmp(seen.at(key).data(), logits.data(), logits.size() * sizeof(float)), 0)
        << "sequence " << key.first << " at " << key.second;
  }
  EXPECT_EQ(mixed->Stats().pages_kv, 0);
}

// Random requests that come and are cancelled at any time, in pools of any size.
TEST(EnginePool, EveryPageComesBackFromRandomWork) {
  TestEngine roomy({});
  const auto largest_adapter = static_cast<int32_t>(roomy->PagesFor(AdapterId(2)));
  int64_t evictions = 0;
  int64_t steps = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    TestEngineOptions options;
    options.engine.max_num_seqs = 1 + static_cast<int64_t>(random() % 10);
    options.engine.max_num_batched_tokens =
        options.engine.max_num_seqs + static_cast<int64_t>(random() % 30);
    options.engine.num_pages = largest_adapter + 25 + static_cast<int32_t>(random() % 30);
    TestEngine engine(options);
    Streams streams;
    int64_t num_added = 0;
    while (num_added < 120 || engine->HasWork()) {
      while (num_added < 120 && random() % 3 == 0) {
        auto request = GreedyRequest(
            num_added, RandomPrompt(random, 1 + static_cast<int64_t>(random() % 60)),
            static_cast<int32_t>(random() % 40), AdapterId(static_cast<int32_t>(random() % 4) - 1));
        // The adapters but the largest also together.
        if (random() % 4 == 0) request.adapters = {{AdapterId(1)}, {AdapterId(0), 0.5f}};
        request.stop_token_ids = {static_cast<int32_t>(random() % 171)};
        Add(*engine, std::move(request));
        ++num_added;
      }
      if (num_added > 0 && random() % 8 == 0)
        engine->Cancel(
            SequenceId(static_cast<int64_t>(random() % static_cast<uint64_t>(num_added))));
      streams.Take(engine->Step());
      const wire::StepStats stats = engine->Stats();
      ASSERT_EQ(stats.pages_free + stats.pages_kv + stats.pages_adapter + stats.pages_prefix,
                stats.pages_total);
      ASSERT_LE(stats.num_rows, options.engine.max_num_batched_tokens);
      ASSERT_LE(stats.num_running, options.engine.max_num_seqs);
    }
    EXPECT_THAT(streams.problems(), IsEmpty());
    EXPECT_THAT(streams.all(), SizeIs(120));
    for (const auto& [id, stream] : streams.all()) {
      EXPECT_TRUE(stream.finish.has_value()) << "sequence " << id;
      EXPECT_NE(stream.finish, FinishReason::kError) << stream.error;
    }
    EXPECT_EQ(engine->Stats().pages_kv, 0);
    EXPECT_THAT(engine->Stats().adapters, IsEmpty());
    evictions += engine->Stats().evictions;
    steps += engine->Stats().step;
  }
  EXPECT_GT(evictions, 10);
  EXPECT_GT(steps, 2000);
}

}  // namespace
}  // namespace aril
