#include "apps/bench_ablation.h"

#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

BenchAblationOptions Small() {
  return {.shape = "tiny",
          .threads = 2,
          .passes = 1,
          .max_num_seqs = 4,
          .splits = {0.5},
          .num_adapters = 6,
          .ranks = {2, 4},
          .phases = 2,
          .phase_requests = 5,
          .short_prompt = 3,
          .short_output = 2,
          .long_prompt = 60,
          .long_output = 4,
          .merged_adapters = {1, 3},
          .merged_requests = 6,
          .merged_prompt = 4,
          .merged_output = 2,
          .merged_rank = 2,
          .alternatives = {1, 2},
          .draft_batches = {1, 3},
          .draft_prompt = 4,
          .draft_output = 20,
          .probe_bytes = size_t{64} << 20};
}

TEST(BenchAblation, ComparesPoolsAndMerging) {
  const TestDir dir;
  std::ostringstream out;
  std::ostringstream progress;
  BenchAblationOptions options = Small();
  options.json_path = dir / "ablation.json";
  const Status status = BenchAblation(options, out, progress, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("one pool for all"), HasSubstr("0.50"), HasSubstr("mixed/merged")));
  const auto text = ReadFile(options.json_path, 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = Json::Parse(*text);
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->Find("pool")->AsArray()->size(), 2u);
  EXPECT_EQ(json->Find("merging")->AsArray()->size(), 2u);
  const Json::Array& drafts = *json->Find("drafts")->AsArray();
  ASSERT_EQ(drafts.size(), 4u);
  EXPECT_EQ(*drafts[0].Find("right")->AsInt(), *drafts[0].Find("drafted")->AsInt())
      << "there is one token only";
  EXPECT_GT(*drafts[0].Find("drafted")->AsInt(), 0);
}

TEST(BenchAblation, LeavesOutWhatIsNotAskedFor) {
  std::ostringstream out;
  std::ostringstream progress;
  BenchAblationOptions options = Small();
  options.parts = {"merging"};
  ASSERT_TRUE(BenchAblation(options, out, progress, RealClock()).ok());
  EXPECT_THAT(out.str(),
              AllOf(Not(HasSubstr("one pool")), HasSubstr("merged"), Not(HasSubstr("Drafts"))));
}

TEST(BenchAblation, RefusesDraftsOfModelsWithAState) {
  std::ostringstream out;
  std::ostringstream progress;
  BenchAblationOptions options = Small();
  options.shape = "qwen3.5-0.8b";
  EXPECT_THAT(Message(BenchAblation(options, out, progress, RealClock())),
              HasSubstr("ask for --parts pool,merging"));
}

TEST(BenchAblation, RefusesASplitThatLeavesOneSideNothing) {
  std::ostringstream out;
  std::ostringstream progress;
  BenchAblationOptions options = Small();
  options.splits = {1};
  EXPECT_THAT(Message(BenchAblation(options, out, progress, RealClock())),
              HasSubstr("--splits has 1"));
}

}  // namespace
}  // namespace aril
