// Embeddings: what a prompt's last hidden state is, and that nobody else changes it.

#include <optional>
#include <random>

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spec/base_checkpoint.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::FinishReason;

constexpr uint64_t kSeed = 20'261'129;

wire::SequenceRequest EmbeddingRequest(int64_t id, std::vector<int32_t> prompt,
                                       AdapterId adapter = kBaseModel) {
  auto request = GreedyRequest(id, std::move(prompt), 0, adapter);
  request.pooling = wire::Pooling::kEmbedding;
  return request;
}

TEST(EngineEmbedding, ComesWithTheEndAndNoToken) {
  TestEngine engine({});
  const Stream stream = RunAlone(engine, EmbeddingRequest(0, {1, 17, 42, 99, 5}));
  EXPECT_THAT(stream.tokens, IsEmpty());
  EXPECT_EQ(stream.finish, FinishReason::kLength);
  EXPECT_THAT(stream.pooled, SizeIs(engine.spec().hidden_size));
  ExpectAllPagesBack(engine);
  EXPECT_THAT(RunAlone(engine, GreedyRequest(1, {1, 17, 42}, 0)).pooled, IsEmpty())
      << "nobody asked for it";
}

// The logits of the prompt's last token are the product of lm_head and its embedding.
TEST(EngineEmbedding, IsWhatLmHeadReads) {
  TestEngine engine({});
  const std::vector<int32_t> prompt = {1, 17, 42, 99, 5};
  std::vector<float> logits;
  engine->executor().SetLogitsObserver([&](const Sequence&, std::span<const float> seen) {
    logits.assign(seen.begin(), seen.end());
  });
  RunAlone(engine, GreedyRequest(0, prompt, 1));
  const std::vector<float> embedding = RunAlone(engine, EmbeddingRequest(1, prompt)).pooled;
  const auto checkpoint = OpenBaseCheckpoint(kEngineTestModel, engine.spec());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const TensorView& lm_head = checkpoint->tensors().at("lm_head.weight");
  ASSERT_THAT(logits, SizeIs(lm_head.shape[0]));
  std::vector<float> row(embedding.size());
  for (size_t token = 0; token < logits.size(); ++token) {
    const auto size = static_cast<int64_t>(row.size());
    CopyAsFloat(lm_head, static_cast<int64_t>(token) * size, size, row.data());
    double sum = 0;
    double magnitude = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      sum += double{row[i]} * double{embedding[i]};
      magnitude += std::abs(double{row[i]} * double{embedding[i]});
    }
    // A sum of floats errs by a rounding of each of its terms at most.
    EXPECT_NEAR(logits[token], sum, static_cast<double>(size) * 0x1p-24 * magnitude) << token;
  }
}

TEST(EngineEmbedding, IsBitwiseTheSameInChunksInABatchAndBehindACachedPrefix) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  std::vector<wire::SequenceRequest> requests;
  for (int64_t id = 0; id < 9; ++id) {
    const AdapterId adapter = id % 3 == 2 ? kBaseModel : AdapterId(static_cast<int32_t>(id % 3));
    std::vector<int32_t> prompt = RandomPrompt(random, 1 + static_cast<int64_t>(random() % 90));
    requests.push_back(id % 4 == 3 ? GreedyRequest(id, std::move(prompt), 7, adapter)
                                   : EmbeddingRequest(id, std::move(prompt), adapter));
  }
  TestEngineOptions in_chunks;
  in_chunks.engine.max_num_seqs = 5;
  in_chunks.engine.max_num_batched_tokens = 11;
  TestEngine together(in_chunks);
  Streams streams = RunToEnd(*together, requests);
  EXPECT_THAT(streams.problems(), IsEmpty());
  TestEngine alone({});
  for (const auto& request : requests) {
    const Stream expected = RunAlone(alone, request);
    const Stream& found = streams[request.sequence.value()];
    EXPECT_EQ(found.pooled, expected.pooled) << request.sequence;
    EXPECT_EQ(found.tokens, expected.tokens) << request.sequence;
    auto again = request;
    again.sequence = SequenceId(100 + request.sequence.value());
    const Stream cached = RunAlone(alone, again);
    EXPECT_EQ(cached.pooled, expected.pooled) << request.sequence;
    const auto length = static_cast<int64_t>(request.prompt.size());
    if (length > alone.page_tokens()) {
      EXPECT_GT(cached.num_cached, 0) << request.sequence;
    }
  }
  ExpectAllPagesBack(together);
}

TEST(EngineEmbedding, AnAdapterChangesIt) {
  TestEngine engine({});
  const std::vector<int32_t> prompt = {1, 17, 42, 99, 5};
  const std::vector<float> base = RunAlone(engine, EmbeddingRequest(0, prompt)).pooled;
  EXPECT_NE(RunAlone(engine, EmbeddingRequest(1, prompt, AdapterId(0))).pooled, base);
}

TEST(EngineEmbedding, OfMoreSequencesThanRowsOfLogitsFitAtOnce) {
  TestEngineOptions options;
  options.engine.max_num_seqs = options.engine.max_num_batched_tokens = Model::kMaxLogitRows + 16;
  TestEngine engine(options);
  std::vector<wire::SequenceRequest> requests;
  for (int32_t id = 0; id < Model::kMaxLogitRows + 9; ++id) {
    requests.push_back(EmbeddingRequest(id, {1 + id}));
  }
  Streams streams = RunToEnd(*engine, requests);
  EXPECT_EQ(engine->Stats().step, 1);
  for (const auto& request : requests) {
    auto alone = request;
    alone.sequence = SequenceId(1000);
    EXPECT_EQ(streams[request.sequence.value()].pooled, RunAlone(engine, alone).pooled);
  }
}

// Those that decode need the pages that the newest one's prompt has been computed into.
TEST(EngineEmbedding, IsTheSameAfterAnEviction) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  constexpr int64_t kDecoding = 5;
  TestEngine roomy({});
  TestEngineOptions tight;
  tight.adapter_dirs.clear();
  tight.engine.max_num_seqs = tight.engine.max_num_batched_tokens = kDecoding + 3;
  tight.engine.num_pages = static_cast<int32_t>(260 / roomy.page_tokens());
  tight.engine.lists_sequences = true;
  TestEngine engine(tight);
  std::mt19937_64 random(kSeed);
  std::vector<wire::SequenceRequest> requests;
  for (int64_t id = 0; id < kDecoding; ++id) {
    requests.push_back(GreedyRequest(id, RandomPrompt(random, 8), 100));
  }
  requests.push_back(EmbeddingRequest(kDecoding, RandomPrompt(random, 100)));
  for (const auto& request : requests) Add(*engine, request);
  Streams streams;
  bool was_evicted = false;
  while (engine->HasWork()) {
    streams.Take(engine->Step());
    for (const wire::SequenceState& state : engine->Stats().sequences) {
      const bool waits_again = state.has_started && !state.is_running;
      was_evicted |= waits_again && state.sequence == SequenceId(kDecoding);
    }
  }
  EXPECT_TRUE(was_evicted);
  EXPECT_EQ(streams[kDecoding].pooled, RunAlone(roomy, requests.back()).pooled);
}

TEST(EngineEmbedding, IsOfAPromptAlone) {
  TestEngine engine({});
  auto request = EmbeddingRequest(0, {1, 17});
  request.max_tokens = 1;
  const auto accepted = engine->Accept(request);
  ASSERT_EQ(accepted.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(accepted.status())), HasSubstr("max_tokens must be 0"));
  request.max_tokens = 0;
  request.sampling.num_logprobs = 0;
  request.sampling.prompt_logprobs = true;
  EXPECT_EQ(engine->Accept(request).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace aril
