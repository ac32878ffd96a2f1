// What an engine says about itself.

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5, 63, 28};

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

}  // namespace
}  // namespace aril
