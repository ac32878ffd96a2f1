// Classes of texts: what an adapter's head makes of a prompt, and that nobody else changes it. That
// the numbers are those of transformers is tests/fidelity.

#include <fstream>
#include <random>

#include "base/test_dir.h"
#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::FinishReason;
using wire::Pooling;

constexpr uint64_t kSeed = 20'261'130;
constexpr AdapterId kThreeLabels(0), kReward(1), kPlain(2), kOther(3);
const std::string kClassifiers = SourcePath("tests/goldens-classifiers/llama-f32-sharded");

TestEngineOptions WithClassifiers() {
  TestEngineOptions options;
  options.adapter_dirs = {kClassifiers + "/three-labels-r4", kClassifiers + "/reward-r2-f16",
                          kEngineTestModel + "/adapters/all-r4",
                          kEngineTestModel + "/adapters/qv-r64-bf16"};
  return options;
}

wire::SequenceRequest Request(int64_t id, std::vector<int32_t> prompt, AdapterMix adapters,
                              Pooling pooling = Pooling::kClassLogits) {
  auto request = GreedyRequest(id, std::move(prompt), pooling == Pooling::kNone ? 5 : 0);
  request.adapters = std::move(adapters);
  request.pooling = pooling;
  return request;
}

class EngineClassify : public ::testing::Test {
 protected:
  std::string Refusal(AdapterMix adapters, Pooling pooling = Pooling::kClassLogits) {
    const auto accepted = engine_->Accept(Request(99, {1, 17}, std::move(adapters), pooling));
    EXPECT_EQ(accepted.status().code(), StatusCode::kInvalidArgument);
    return std::string(Message(accepted.status()));
  }

  TestEngine engine_{WithClassifiers()};
};

// Of the embedding that the same adapter gives.
TEST_F(EngineClassify, IsWhatTheHeadMakesOfTheEmbedding) {
  const std::vector<int32_t> prompt = {1, 17, 42, 99, 5};
  for (const auto& [adapter, num_labels] : {std::pair(kThreeLabels, 3), std::pair(kReward, 1)}) {
    const Stream classified = RunAlone(engine_, Request(0, prompt, MixOf(adapter)));
    EXPECT_THAT(classified.tokens, IsEmpty());
    EXPECT_EQ(classified.finish, FinishReason::kLength);
    EXPECT_THAT(classified.pooled, SizeIs(num_labels));
    const Stream embedded =
        RunAlone(engine_, Request(1, prompt, MixOf(adapter), Pooling::kEmbedding));
    const auto found = engine_.adapters().Find(adapter);
    ASSERT_TRUE(found.ok()) << found.status();
    const ClassHead& head = *found->adapter->class_head();
    EXPECT_EQ(classified.pooled, head.Logits(embedded.pooled));
    const Stream probable =
        RunAlone(engine_, Request(2, prompt, MixOf(adapter), Pooling::kClassProbabilities));
    EXPECT_EQ(probable.pooled, head.Probabilities(classified.pooled));
    for (const Stream* stream : {&classified, &probable}) {
      EXPECT_EQ(stream->label, head.LabelOf(classified.pooled));
    }
    EXPECT_EQ(embedded.label, "");
  }
  ExpectAllPagesBack(engine_);
}

TEST_F(EngineClassify, IsBitwiseTheSameInChunksInABatchAndBehindACachedPrefix) {
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  const AdapterMix mixes[] = {{{kThreeLabels, 1}}, {{kReward, 1}}, {{kReward, 1}, {kPlain, 0.5f}}};
  std::vector<wire::SequenceRequest> requests;
  for (int64_t id = 0; id < 12; ++id) {
    std::vector<int32_t> prompt = RandomPrompt(random, 1 + static_cast<int64_t>(random() % 90));
    requests.push_back(id % 4 == 3
                           ? Request(id, std::move(prompt), MixOf(kPlain), Pooling::kNone)
                           : Request(id, std::move(prompt), mixes[static_cast<size_t>(id % 4)]));
  }
  TestEngineOptions in_chunks = WithClassifiers();
  in_chunks.engine.max_num_seqs = 5;
  in_chunks.engine.max_num_batched_tokens = 11;
  TestEngine together(in_chunks);
  Streams streams = RunToEnd(*together, requests);
  EXPECT_THAT(streams.problems(), IsEmpty());
  for (const auto& request : requests) {
    const Stream& found = streams[request.sequence.value()];
    for (const int64_t id : {100, 200}) {  // the second one finds the first one's prompt
      auto again = request;
      again.sequence = SequenceId(id + request.sequence.value());
      const Stream alone = RunAlone(engine_, again);
      EXPECT_EQ(found.pooled, alone.pooled) << request.sequence;
      EXPECT_EQ(found.tokens, alone.tokens) << request.sequence;
    }
  }
  ExpectAllPagesBack(together);
}

// As transformers reads it: up to the last token that is not padding.
TEST_F(EngineClassify, IsOfTheTextBeforeItsPadding) {
  const TestDir dir(kClassifiers + "/three-labels-r4");
  std::ofstream(dir / "config.json")
      << R"({"pad_token_id":2,"id2label":{"0":"a","1":"b","2":"c"}})";
  TestEngineOptions options;
  options.adapter_dirs = {dir.path()};
  TestEngine engine(options);
  const Stream padded = RunAlone(engine, Request(0, {1, 17, 2, 42, 2, 2}, MixOf(AdapterId(0))));
  const Stream text = RunAlone(engine_, Request(0, {1, 17, 2, 42}, MixOf(kThreeLabels)));
  EXPECT_EQ(padded.pooled, text.pooled);
  EXPECT_THAT(padded.label, testing::AnyOf("a", "b", "c"));
  const auto embedding = [&](std::vector<int32_t> prompt) {
    return RunAlone(engine, Request(1, std::move(prompt), MixOf(AdapterId(0)), Pooling::kEmbedding))
        .pooled;
  };
  EXPECT_NE(embedding({1, 17, 2}), embedding({1, 17})) << "an embedding is of the last token";
}

TEST_F(EngineClassify, TakesOneClassifierAndNoneThatIsNoSuch) {
  EXPECT_THAT(Refusal({}), HasSubstr("is no classifier"));
  EXPECT_THAT(Refusal({}, Pooling::kClassProbabilities), HasSubstr("is no classifier"));
  EXPECT_THAT(Refusal({{kPlain, 1}, {kOther, 1}}), HasSubstr("is no classifier"));
  EXPECT_THAT(Refusal({{kThreeLabels, 1}, {kReward, 1}}), HasSubstr("two adapters"));
  EXPECT_THAT(Refusal({{kThreeLabels, 0.5f}}), HasSubstr("weight 1"));
  EXPECT_TRUE(engine_->Accept(Request(0, {1}, {{kPlain, 0.5f}, {kReward, 1}})).ok());
}

TEST_F(EngineClassify, AClassifierGeneratesNoText) {
  EXPECT_THAT(Refusal({{kReward, 1}}, Pooling::kNone), HasSubstr("to classify texts"));
  EXPECT_THAT(Refusal({{kPlain, 1}, {kReward, 1}}, Pooling::kNone), HasSubstr("/v1/classify"));
}

TEST_F(EngineClassify, IsOfAPromptAlone) {
  auto request = Request(0, {1, 17}, MixOf(kReward));
  request.max_tokens = 1;
  const auto accepted = engine_->Accept(request);
  ASSERT_EQ(accepted.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(accepted.status())), HasSubstr("max_tokens must be 0"));
}

}  // namespace
}  // namespace aril
