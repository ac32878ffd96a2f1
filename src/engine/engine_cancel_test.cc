// Sequences that end because nobody wants them any more.

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::FinishReason;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5, 63, 28};

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

}  // namespace
}  // namespace aril
