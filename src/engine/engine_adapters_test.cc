// What adapters that share steps are to one another, and a sequence to its own.

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5, 63, 28};

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

}  // namespace
}  // namespace aril
