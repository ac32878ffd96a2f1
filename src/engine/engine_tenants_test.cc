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

}  // namespace
}  // namespace aril
