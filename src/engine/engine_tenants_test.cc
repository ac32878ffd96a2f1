// Tenants that share the rows of a step.

#include "engine/engine.h"
#include "engine/test_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::vector<int32_t> kPrompt = {1, 17, 42, 99, 5, 63, 28};

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

// One seat: they end in the order in which they begin.
TEST(Engine, PrioritiesOrderWhatATenantHasWaiting) {
  TestEngineOptions options;
  options.engine.max_num_seqs = 1;
  TestEngine engine(options);
  const auto add = [&](int64_t id, const std::string& tenant, int32_t priority) {
    auto request = GreedyRequest(id, kPrompt, 2);
    request.tenant = tenant;
    request.priority = priority;
    Add(*engine, request);
  };
  std::vector<int64_t> ended;
  const auto step = [&] {
    for (const wire::TokenEvent& event : engine->Step()) {
      if (event.finish) ended.push_back(event.sequence.value());
    }
  };
  add(0, "a", 0);
  step();
  add(1, "a", 0);
  add(2, "b", 0);
  add(3, "a", -1);
  add(4, "a", 5);   // takes the place of 1, and that the one of 3
  add(5, "b", 9);   // that of 2
  add(6, "a", 5);   // behind 4, before 1
  add(7, "a", -1);  // behind 3
  engine->Cancel(SequenceId(6));
  add(8, "a", 7);
  while (engine->HasWork()) step();
  // The places of a are those of 1, 3, 4 (which 6 has when it goes), 6, 7 and 8.
  EXPECT_THAT(ended, ElementsAre(6, 0, 8, 5, 4, 2, 1, 3, 7));
  ExpectAllPagesBack(engine);
}

// Whoever gives way is the newest by the places that they have got.
TEST(Engine, WhoHasStartedKeepsItsPlaceWhateverItsPriority) {
  TestEngineOptions options;
  options.engine.max_num_seqs = 2;
  options.engine.num_pages = 20;
  options.engine.enable_prefix_caching = false;
  options.engine.lists_sequences = true;
  TestEngine engine(options);
  ASSERT_EQ(engine.page_tokens(), 4);
  Streams streams;
  Add(*engine, GreedyRequest(0, kPrompt, 60));
  Add(*engine, GreedyRequest(1, kPrompt, 60));
  streams.Take(engine->Step());
  auto urgent = GreedyRequest(2, kPrompt, 1);
  urgent.priority = 1;
  Add(*engine, urgent);
  bool was_evicted = false;
  while (engine->HasWork()) {
    streams.Take(engine->Step());
    for (const wire::SequenceState& state : engine->Stats().sequences) {
      EXPECT_TRUE(state.is_running || state.sequence != SequenceId(0));
      was_evicted |= state.sequence == SequenceId(1) && !state.is_running && state.has_started;
    }
  }
  EXPECT_TRUE(was_evicted);
  EXPECT_THAT(streams[2].tokens, SizeIs(1));
  EXPECT_THAT(streams[1].tokens, SizeIs(60));
  EXPECT_THAT(streams.problems(), IsEmpty());
  ExpectAllPagesBack(engine);
}

}  // namespace
}  // namespace aril
