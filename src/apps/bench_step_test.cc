#include "apps/bench_step.h"

#include <sstream>

#include "apps/bench_growth.h"
#include "apps/bench_machine.h"
#include "apps/step_model_file.h"
#include "base/file.h"
#include "base/json.h"
#include "base/test_dir.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kProbeBytes = size_t{64} << 20;

Json ReadJson(const std::string& path) {
  const auto text = ReadFile(path, 1 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  auto json = Json::Parse(text.value_or(""));
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *std::move(json) : Json();
}

double Number(const Json& json, const char* key) {
  double value = -1;
  const Json* found = json.Find(key);
  EXPECT_TRUE(found != nullptr && found->AsNumber(&value)) << key;
  return value;
}

TEST(BenchMachine, PrintsLimitsForEachNumberOfThreads) {
  const TestDir dir;
  std::ostringstream out;
  const BenchMachineOptions options = {.threads = 2,
                                       .duration = std::chrono::milliseconds(1),
                                       .probe_bytes = kProbeBytes,
                                       .json_path = dir / "limits.json"};
  const Status status = BenchMachine(options, out, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out.str(), AllOf(HasSubstr("read GB/s"), HasSubstr("bf16 GFLOP/s")));
  const Json json = ReadJson(options.json_path);
  const Json::Array& limits = *json.Find("limits")->AsArray();
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(Number(limits[1], "threads"), 2);
  EXPECT_GT(Number(limits[1], "read_bytes_per_s"), 0);
  EXPECT_GT(Number(limits[1], "f32_per_s"), 0);
}

TEST(BenchMachine, RefusesAnInstructionSetThatIsNotThere) {
  std::ostringstream out;
  EXPECT_THAT(Message(BenchMachine({.isa = "z80"}, out, RealClock())), HasSubstr("--isa z80"));
}

TEST(BenchStep, ComparesEachStepWithItsRoofline) {
  const TestDir dir;
  std::ostringstream out;
  const BenchStepOptions options = {.shape = "tiny",
                                    .threads = 2,
                                    .batches = {1, 3},
                                    .contexts = {9, 40},
                                    .num_adapters = 2,
                                    .rank = 4,
                                    .prefills = {8, 20},
                                    .steps = 3,
                                    .passes = 2,
                                    .probe_bytes = kProbeBytes,
                                    .json_path = dir / "steps.json",
                                    .step_model_path = dir / "model.json"};
  const Status status = BenchStep(options, out, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("of roofline"), HasSubstr("each its adapter of rank 4"),
                    HasSubstr("prefill of 8 "), HasSubstr("prefill of 20"),
                    HasSubstr("decode at 40 tokens"), HasSubstr("% of each of these steps")));
  const Json json = ReadJson(options.json_path);
  const Json::Array& results = *json.Find("results")->AsArray();
  ASSERT_EQ(results.size(), 7u);
  for (const Json& result : results) {
    EXPECT_GT(Number(result, "seconds"), 0);
    EXPECT_GT(Number(result, "roofline_seconds"), 0);
  }
  const auto model = ReadStepModelFile(options.step_model_path, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GE(model->base, 0);
}

TEST(BenchStep, HasAdaptersAsPopularAsAskedFor) {
  const TestDir dir;
  std::ostringstream out;
  const BenchStepOptions options = {.shape = "tiny",
                                    .threads = 2,
                                    .batches = {1, 5},
                                    .contexts = {9},
                                    .popularities = {"distinct", "skewed"},
                                    .rank = 4,
                                    .prefills = {8},
                                    .steps = 3,
                                    .passes = 1,
                                    .probe_bytes = kProbeBytes,
                                    .json_path = dir / "steps.json"};
  const Status status = BenchStep(options, out, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(out.str(), AllOf(HasSubstr("decode, distinct"), HasSubstr("decode, skewed"),
                               HasSubstr("prefill of 8, with an adapter")));
  const Json json = ReadJson(options.json_path);
  const Json::Array& results = *json.Find("results")->AsArray();
  ASSERT_EQ(results.size(), 2u * 3 + 2);
  // Of five sequences: none, five adapters, fewer.
  const double base = Number(results[3], "bytes"), distinct = Number(results[4], "bytes"),
               skewed = Number(results[5], "bytes");
  EXPECT_LT(base, distinct);
  EXPECT_LT(base, skewed);
  EXPECT_LT(skewed, distinct);
  EXPECT_THAT(Message(BenchStep({.shape = "tiny", .popularities = {"odd"}}, out, RealClock())),
              HasSubstr("distinct"));
  EXPECT_THAT(Message(BenchStep(
                  {.shape = "tiny", .popularities = {"uniform"}, .step_model_path = "model.json"},
                  out, RealClock())),
              AllOf(HasSubstr("--step-model"), HasSubstr("--popularity")));
}

// The first sequence has its prompt computed steps before the last, and goes on meanwhile.
TEST(BenchStep, TimesStepsOfAllSequencesHoweverLongTheirPrompts) {
  std::ostringstream out;
  const Status status = BenchStep({.shape = "tiny",
                                   .threads = 2,
                                   .batches = {2},
                                   .contexts = {700},
                                   .num_adapters = 0,
                                   .prefills = {0},
                                   .steps = 1,
                                   .passes = 1,
                                   .probe_bytes = kProbeBytes},
                                  out, RealClock());
  EXPECT_TRUE(status.ok()) << status;
}

// The tiny shape's KV cache has 2 KiB of each token.
TEST(BenchStep, LeavesOutWhatHasNoRoomInThePool) {
  const TestDir dir;
  BenchStepOptions options = {.shape = "tiny",
                              .threads = 2,
                              .batches = {4, 2},
                              .contexts = {9, 204},
                              .num_adapters = 0,
                              .prefills = {8},
                              .steps = 3,
                              .passes = 2,
                              .probe_bytes = kProbeBytes,
                              .json_path = dir / "steps.json"};
  const auto left_out = [&](int64_t pool_tokens) {
    options.pool_bytes = pool_tokens * 2048;
    std::ostringstream out;
    const Status status = BenchStep(options, out, RealClock());
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_THAT(out.str(), HasSubstr("left out, as the pool has no room for it: decode at 204 "
                                     "tokens, 4 sequences\n"));
    const Json json = ReadJson(options.json_path);
    std::vector<double> sequences;
    for (const Json& which : *json.Find("left_out")->AsArray()) {
      EXPECT_EQ(Number(which, "context"), 204);
      sequences.push_back(Number(which, "sequences"));
    }
    EXPECT_EQ(json.Find("results")->AsArray()->size(), 5 - sequences.size());
    return sequences;
  };
  EXPECT_THAT(left_out(512), ElementsAre(4));
  // Two have room for their 207 tokens, but none to grow beyond that: the second may not join.
  EXPECT_THAT(left_out(2 * 208), ElementsAre(4, 2));

  options.batches = {4};
  options.contexts = {204};
  options.prefills = {0};
  std::ostringstream out;
  EXPECT_THAT(Message(BenchStep(options, out, RealClock())),
              HasSubstr("no room for the KV cache of 4 sequences of"));
}

TEST(BenchStep, SaysAtOnceWhatAStepModelNeeds) {
  std::ostringstream out;
  const Status one_context =
      BenchStep({.shape = "tiny", .step_model_path = "model.json"}, out, RealClock());
  EXPECT_THAT(Message(one_context), AllOf(HasSubstr("--step-model"), HasSubstr("too little")));
  const Status no_prefill = BenchStep(
      {.shape = "tiny", .contexts = {9, 40}, .prefills = {0}, .step_model_path = "model.json"}, out,
      RealClock());
  EXPECT_THAT(Message(no_prefill), HasSubstr("with prefill tokens"));
  EXPECT_EQ(out.str(), "") << "before anything is made";
}

TEST(BenchGrowth, DrawsWhatGrowsBesideItsRoofline) {
  const TestDir dir;
  std::ostringstream out;
  const BenchGrowthOptions options = {.shape = "tiny",
                                      .threads = 2,
                                      .batches = {1, 3},
                                      .adapters = {1, 2, 5},
                                      .ranks = {2, 4},
                                      .contexts = {9, 40},
                                      .sequences = 2,
                                      .rank = 4,
                                      .steps = 3,
                                      .passes = 1,
                                      .probe_bytes = kProbeBytes,
                                      .json_path = dir / "growth.json",
                                      .svg_path = dir / "growth.svg"};
  const Status status = BenchGrowth(options, out, RealClock());
  ASSERT_TRUE(status.ok()) << status;
  const Json json = ReadJson(options.json_path);
  const Json::Array& results = *json.Find("results")->AsArray();
  ASSERT_EQ(results.size(), 2u * 2 + 3 + 2 + 2);
  for (const Json& result : results) {
    EXPECT_GT(Number(result, "seconds"), 0);
    EXPECT_GT(Number(result, "roofline_seconds"), 0);
  }
  EXPECT_EQ(Number(results[3], "adapters"), 3);
  EXPECT_EQ(Number(results[6], "adapters"), 3) << "no more than there are sequences";
  EXPECT_EQ(Number(results[8], "adapters"), 2);
  EXPECT_EQ(Number(results[10], "context"), 40);
  const auto svg = ReadFile(options.svg_path, 1 << 20);
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_THAT(*svg, AllOf(HasSubstr(">rank<"), HasSubstr(">context<")));
}

TEST(BenchStep, SaysWhichShapesThereAre) {
  std::ostringstream out;
  EXPECT_THAT(Message(BenchStep({.shape = "giant"}, out, RealClock())),
              HasSubstr("tinyllama-1.1b"));
}

}  // namespace
}  // namespace aril
