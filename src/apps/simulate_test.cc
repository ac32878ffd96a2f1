// The scenarios of `aril simulate`, small.

#include <sstream>

#include "apps/simulate_chaos.h"
#include "apps/simulate_fig13.h"
#include "apps/simulate_scale.h"
#include "apps/simulate_slora.h"
#include "apps/simulate_trace.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strings.h"
#include "base/test_dir.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

Json ReadJson(const std::string& path) {
  const auto text = ReadFile(path, 64 << 20);
  EXPECT_TRUE(text.ok());
  auto json = Json::Parse(*text);
  EXPECT_TRUE(json.ok());
  return *json;
}

double Number(const Json& json, const std::string& key) {
  double value = -1;
  const Json* const found = json.Find(key);
  EXPECT_TRUE(found != nullptr && found->AsNumber(&value)) << key;
  return value;
}

TEST(SimulateChaosTest, SurvivesAndSaysWhat) {
  const TestDir dir;
  SimulateChaosOptions options;
  options.num_seeds = 2;
  options.threads = 2;
  options.json_path = dir.path() + "/chaos.json";
  std::ostringstream out, progress;
  ASSERT_TRUE(SimulateChaos(options, out, progress, ManualClock()).ok()) << out.str();
  EXPECT_NE(out.str().find("etcd outage"), std::string::npos);
  const Json json = ReadJson(options.json_path);
  EXPECT_GE(Number(json, "requests"), 400);
  EXPECT_TRUE(json.Find("violations")->AsObject()->empty());
}

TEST(SimulateChaosTest, AViolationIsAnErrorThatSaysHowToReplayIt) {
  SimulateChaosOptions options;
  options.num_seeds = 1;
  options.first_seed = 3;
  options.planted_bug = "page-leak";
  std::ostringstream out, progress;
  const Status status = SimulateChaos(options, out, progress, ManualClock());
  EXPECT_NE(Message(status).find("--seeds 1 --first-seed 3 --planted-bug page-leak"),
            std::string::npos)
      << status;
  EXPECT_NE(out.str().find("pages are not conserved"), std::string::npos);
  options.planted_bug = "page-leek";
  EXPECT_EQ(SimulateChaos(options, out, progress, ManualClock()).code(),
            StatusCode::kInvalidArgument);
}

SimulateFig13Options SmallFig13() {
  SimulateFig13Options options;
  options.cluster.num_gpus = 4;
  options.duration = std::chrono::minutes(3);
  options.peak_rate = 6;
  options.max_tokens = 300;
  return options;
}

TEST(SimulateFig13Test, RequestsRiseAndFall) {
  const auto requests = Fig13Requests(SmallFig13());
  ASSERT_TRUE(requests.ok());
  int64_t thirds[3] = {};
  for (const simulate::TraceRequest& r : *requests) {
    ++thirds[std::min<int64_t>(2, r.arrival / std::chrono::minutes(1))];
    EXPECT_GE(r.adapter, 0);
    EXPECT_LT(r.prompt_tokens + r.output_tokens, 303);
  }
  EXPECT_GT(thirds[1], thirds[0] * 3 / 2);
  EXPECT_GT(thirds[1], thirds[2] * 3 / 2);
  EXPECT_EQ(Fig13Requests(SmallFig13())->size(), requests->size());
}

// By hand: a prompt of 100 tokens and 64 of output, 132 tokens long on average.
TEST(SimulateFig13Test, LowerBoundIsTheFormula) {
  simulate::StepModel steps;
  steps.base = 0.32;
  steps.sequence = 0.01;
  steps.context_token = 0.001;
  steps.prefill_token = 0.002;
  const double step = 0.32 + 32 * (0.01 + 0.132);
  EXPECT_NEAR(GpuHoursLowerBound({{.prompt_tokens = 100, .output_tokens = 64}}, steps, 32),
              (100 * 0.002 + 64 * step / 32) / 3600, 1e-12);
  // Two full steps have room for 8 rows each beside their decodes.
  steps.free_rows = 40;
  EXPECT_NEAR(GpuHoursLowerBound({{.prompt_tokens = 100, .output_tokens = 64}}, steps, 32),
              (84 * 0.002 + 64 * step / 32) / 3600, 1e-12);
}

TEST(SimulateFig13Test, ConsolidationSavesGpuHours) {
  const TestDir dir;
  SimulateFig13Options options = SmallFig13();
  options.cluster.json_path = dir.path() + "/fig13.json";
  options.cluster.svg_path = dir.path() + "/fig13.svg";
  options.save_trace_path = dir.path() + "/fig13.csv";
  std::ostringstream out;
  const Status status = SimulateFig13(options, out);
  ASSERT_TRUE(status.ok()) << status;
  const Json json = ReadJson(options.cluster.json_path);
  EXPECT_LT(Number(json, "gpu_hours_lower_bound"), Number(json, "gpu_hours"));
  const Json& variants = *json.Find("variants");
  EXPECT_LT(Number(json, "gpu_hours"), Number(*variants.Find("least loaded"), "gpu_hours") * 0.7);
  EXPECT_EQ(Number(*variants.Find("consolidating"), "failed"), 0);
  // What was written gives the same.
  SimulateTraceOptions again = {.cluster = options.cluster};
  again.path = options.save_trace_path;
  const auto read = ReadTraceRequests(again), drawn = Fig13Requests(options);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), drawn->size());
  EXPECT_EQ(read->back().prompt_tokens, drawn->back().prompt_tokens);
  const auto svg = ReadFile(options.cluster.svg_path, 16 << 20);
  ASSERT_TRUE(svg.ok());
  EXPECT_NE(svg->find("GPU 4"), std::string::npos);
}

TEST(SimulateFig13Test, AWrongStepModelIsAnErrorWithItsPath) {
  const TestDir dir;
  SimulateFig13Options options = SmallFig13();
  options.cluster.step_model_path = dir.path() + "/none.json";
  std::ostringstream out;
  EXPECT_NE(Message(SimulateFig13(options, out)).find("none.json"), std::string::npos);
}

class SimulateTraceTest : public ::testing::Test {
 protected:
  SimulateTraceTest() {
    dir_.Write("azure.csv",
               "TIMESTAMP,ContextTokens,GeneratedTokens\n"
               "2023-11-16 18:15:46.0000000,100,4\n"
               "2023-11-16 18:15:48.0000000,9000,8\n"
               "2023-11-16 18:15:50.0000000,50,20\n");
    dir_.Write("vidur.csv", "num_prefill_tokens,num_decode_tokens\n100,4\n");
    options_.path = dir_ / "azure.csv";
    options_.cluster.num_gpus = 2;
    options_.cluster.ranks = {8, 128};
    options_.cluster.json_path = dir_ / "trace.json";
  }

  std::string Complaint() {
    std::ostringstream out;
    return std::string(Message(SimulateTrace(options_, out)));
  }

  const TestDir dir_;
  SimulateTraceOptions options_;
};

TEST_F(SimulateTraceTest, RecordedRequestsRun) {
  options_.speed = 2;
  options_.max_tokens = 1000;
  const auto requests = ReadTraceRequests(options_);
  ASSERT_TRUE(requests.ok()) << requests.status();
  ASSERT_EQ(requests->size(), 2u);
  EXPECT_EQ((*requests)[1].arrival, std::chrono::seconds(2));
  EXPECT_EQ((*requests)[1].output_tokens, 20);
  EXPECT_GE((*requests)[1].adapter, 0) << "skewed where nothing is recorded";
  EXPECT_EQ(Complaint(), "");
  const Json json = ReadJson(options_.cluster.json_path);
  const Json& consolidating = *json.Find("variants")->Find("consolidating");
  EXPECT_EQ(Number(consolidating, "finished"), 2);
  EXPECT_EQ(Number(consolidating, "tokens"), 24);
  EXPECT_GT(Number(consolidating, "token_p50_s"), 0.011) << "a step's least";
  options_.duration = std::chrono::seconds(1);
  EXPECT_EQ(ReadTraceRequests(options_)->size(), 1u);
}

// Turns of six conversations, several at once: each begins with what all have, and then with the
// one before. The first conversation pauses.
TEST_F(SimulateTraceTest, PromptsThatBeginAlikeAreComputedOnce) {
  std::string lines;
  for (int turn = 1; turn <= 4; ++turn) {
    for (int conversation = turn == 2 ? 2 : 1; conversation <= 6; ++conversation) {
      std::string blocks = "0";
      for (int i = 1; i <= turn; ++i) blocks += StrCat(", ", conversation * 10 + i);
      const int time = (turn * 20 + conversation) * 100;
      lines += StrCat(R"({"timestamp": )", time, R"(, "input_length": )", 512 * (turn + 1),
                      R"(, "output_length": 100, "hash_ids": [)", blocks, "]}\n");
    }
  }
  dir_.Write("mooncake.jsonl", lines);
  options_.path = dir_ / "mooncake.jsonl";
  options_.cluster.num_gpus = 6;
  const auto requests = ReadTraceRequests(options_);
  ASSERT_TRUE(requests.ok()) << requests.status();
  for (size_t i = 11; i < requests->size(); ++i) {
    EXPECT_EQ((*requests)[i].adapter, (*requests)[(i - 11) % 6].adapter) << "a conversation's";
  }
  EXPECT_EQ(Complaint(), "");
  const Json json = ReadJson(options_.cluster.json_path);
  const auto cached = [&](const char* variant) {
    return Number(*json.Find("variants")->Find(variant), "prompt_tokens_cached");
  };
  // All blocks of the turn before, but for its last page.
  EXPECT_GE(cached("consolidation off"), (5 * (2 + 3 + 4) + 2 + 4) * (512 - 16));
  EXPECT_LT(cached("least loaded"), cached("consolidation off") * 0.7);
  EXPECT_LE(cached("consolidation off, no affinity"), cached("consolidation off"));
}

TEST_F(SimulateTraceTest, SaysWhatATraceLacks) {
  options_.path = dir_ / "vidur.csv";
  EXPECT_NE(Complaint().find("records no times"), std::string::npos);
  options_.path = "";
  EXPECT_NE(Complaint().find("--trace"), std::string::npos);
  options_.path = dir_ / "azure.csv";
  options_.adapters_path = dir_ / "vidur.csv";
  EXPECT_NE(Complaint().find("vidur.csv"), std::string::npos);
  options_.adapters_path = "";
  options_.max_tokens = 10;
  EXPECT_NE(Complaint(), "");
}

TEST(SimulateClusterTest, AnAdapterTakesItsBytes) {
  // Rank 16 of a 7B model has 40 million numbers of two bytes.
  EXPECT_EQ(SimulatedGpu().PagesOfAdapter(16), 10);
  EXPECT_EQ(SimulatedGpu().PagesOfAdapter(128), 77);
}

TEST(SimulateSloraTest, EarlyAbortSatisfiesMoreUsersUnderBursts) {
  const TestDir dir;
  SimulateSloraOptions options;
  options.cvs = {6};
  options.alphas = {1};
  options.clusters = {2};
  options.repeat = 2;
  options.json_path = dir.path() + "/slora.json";
  options.svg_path = dir.path() + "/slora.svg";
  std::ostringstream out;
  const Status status = SimulateSlora(options, out);
  ASSERT_TRUE(status.ok()) << status;
  const Json json = ReadJson(options.json_path);
  const Json::Array& orders = *json.Find("figure_10")->AsArray();
  ASSERT_EQ(orders.size(), 3u);
  const double fcfs = Number(orders[0], "satisfaction"), early = Number(orders[2], "satisfaction");
  EXPECT_GT(early, fcfs * 1.2) << "newest first while overloaded, and no work for who has given up";
  EXPECT_EQ(Number(orders[0], "failed"), 0);
  EXPECT_GT(Number(orders[2], "failed"), 0);
  EXPECT_EQ(json.Find("figure_11")->AsArray()->size(), 2u);
  EXPECT_EQ(json.Find("figure_12")->AsArray()->size(), 2u);
  EXPECT_TRUE(ReadFile(options.svg_path, 1 << 20).ok());
}

TEST(SimulateScaleTest, EveryNumberOfRunnersHasItsRow) {
  const TestDir dir;
  SimulateScaleOptions options;
  options.num_runners = {2, 5};
  options.num_adapters = 50;
  options.num_requests = 300;
  options.json_path = dir.path() + "/scale.json";
  std::ostringstream out;
  ASSERT_TRUE(SimulateScale(options, out, ManualClock()).ok());
  const Json json = ReadJson(options.json_path);
  const Json::Array& results = *json.Find("results")->AsArray();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(Number(results[1], "live"), 144);
  EXPECT_EQ(Number(results[1], "waited"), 0) << "nine tenths of the seats fit";
}

}  // namespace
}  // namespace aril
