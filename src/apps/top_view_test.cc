#include "apps/top_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kBefore[] = R"(
aril_requests_total{outcome="success"} 10
vllm:generation_tokens_total 100
vllm:prompt_tokens_total 1000
aril_step_rows_bucket{le="+Inf"} 10
aril_step_rows_sum 50
aril_step_rows_count 10
)";
constexpr char kNow[] = R"(
aril_requests_total{outcome="error"} 99
aril_requests_total{outcome="success"} 13
vllm:generation_tokens_total 160
vllm:prompt_tokens_total 1000
vllm:num_requests_running 5
vllm:num_requests_waiting 2
aril_step_rows_bucket{le="+Inf"} 14
aril_step_rows_sum 70
aril_step_rows_count 14
aril_step_segments_bucket{le="+Inf"} 4
aril_step_segments_sum 12
aril_step_segments_count 4
aril_step_adapters_bucket{le="2"} 3
aril_step_adapters_bucket{le="3"} 4
aril_step_adapters_bucket{le="+Inf"} 4
aril_step_adapters_sum 9
aril_step_adapters_count 4
aril_step_seconds_bucket{le="+Inf"} 4
aril_step_seconds_sum 0.05
aril_step_seconds_count 4
aril_time_to_first_token_seconds_bucket{le="0.1"} 2
aril_time_to_first_token_seconds_bucket{le="+Inf"} 2
aril_time_to_first_token_seconds_sum 0.15
aril_time_to_first_token_seconds_count 2
aril_inter_token_latency_seconds_bucket{le="+Inf"} 4
aril_inter_token_latency_seconds_sum 0.05
aril_inter_token_latency_seconds_count 4
aril_model_sequences{model="base",state="running"} 1
aril_model_sequences{model="base",state="waiting"} 0
aril_model_sequences{model="sql",state="running"} 4
aril_model_sequences{model="sql",state="waiting"} 2
aril_pool_pages{use="kv"} 10
aril_pool_pages{use="adapter"} 1
aril_pool_pages{use="prefix"} 8
aril_pool_pages{use="free"} 21
aril_pool_page_bytes 100000
)";

MetricScrape At(int seconds, const char* text) {
  return {TimePoint(std::chrono::seconds(seconds)), ParseMetrics(text)};
}

TEST(TopView, ShowsLoadAndRates) {
  EXPECT_THAT(DrawTop(At(0, kBefore), At(2, kNow), {.columns = 200}),
              ElementsAre("sequences  5 running, 2 waiting; 1.50 requests/s",
                          "tokens/s   30 generated, 0 of prompts",
                          "a batch    5 rows, 3 segments, 2.25 adapters (at most 3), 12.5 ms",
                          "latency    first token 75 ms (at most 100 ms), next 12.5 ms",
                          "pool       [kkkkkkkkkkapppppppp.....................] 10 kv, 1 adapter, "
                          "8 prefix, 21 free of "
                          "40 pages (4.0 MB)",
                          "", "running  waiting  model", "4        2        sql",
                          "1        0        base"));
}

TEST(TopView, FitsItsSize) {
  const auto lines = DrawTop(At(0, kBefore), At(2, kNow), {.columns = 20, .rows = 8});
  EXPECT_THAT(lines, SizeIs(8));
  for (const std::string& line : lines) EXPECT_LE(line.size(), 20u) << line;
  EXPECT_EQ(lines.back(), "(and 2 more)");
  for (size_t rows = 1; rows < 12; ++rows) {
    EXPECT_LE(DrawTop(At(0, kBefore), At(2, kNow), {.columns = 3, .rows = rows}).size(), rows);
  }
}

TEST(TopView, SurvivesAServerThatStartedAnewOrHasDoneNothing) {
  const auto anew = DrawTop(At(0, kNow), At(2, kBefore), {});
  EXPECT_THAT(anew[0], StartsWith("sequences  0 running, 0 waiting; 0 requests/s"));
  EXPECT_THAT(anew[1], StartsWith("tokens/s   0 generated"));
  EXPECT_THAT(anew[2], StartsWith("a batch    5 rows"));
  const auto nothing = DrawTop(At(0, ""), At(0, ""), {});
  EXPECT_EQ(nothing[3], "latency    no first token meanwhile");
  EXPECT_EQ(nothing[4], "pool       not known before the first step");
  for (const std::string& line : nothing) EXPECT_THAT(line, Not(::testing::HasSubstr("nan")));
}

TEST(TopView, AHostileServerReachesNoTerminal) {
  const auto lines =
      DrawTop(At(0, ""),
              At(1,
                 "aril_model_sequences{model=\"\x1b[2J\\n\xC2\x9B\",state=\"running\"} nan\n"
                 "aril_pool_pages{use=\"kv\"} -1e300\naril_pool_pages{use=\"free\"} +Inf\n"
                 "aril_pool_pages{use=\"adapter\"} 5\naril_pool_page_bytes 1e15\n"
                 "aril_step_rows_bucket{le=\"nan\"} 1\naril_step_rows_bucket{le=\"1\"} nan\n"
                 "aril_step_rows_count nan\n"),
              {});
  EXPECT_EQ(lines.back(), "0        0        ?[2J???");
  for (const std::string& line : lines) {
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  }
}

}  // namespace
}  // namespace aril
