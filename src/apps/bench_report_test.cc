#include "apps/bench_report.h"

#include <map>
#include <set>

#include "apps/bench_popularity.h"
#include "apps/bench_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

TEST(BenchPopularity, HasThePapersShares) {
  EXPECT_THAT(AdapterShares({.kind = PopularityKind::kBase}, 16), IsEmpty());
  EXPECT_THAT(AdapterShares({.kind = PopularityKind::kIdentical}, 16), ElementsAre(16));
  EXPECT_THAT(AdapterShares({.kind = PopularityKind::kUniform}, 16), ElementsAre(4, 4, 4, 4));
  EXPECT_THAT(AdapterShares({.kind = PopularityKind::kUniform}, 10), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(AdapterShares({.kind = PopularityKind::kSkewed}, 12), ElementsAre(5, 3, 2, 1, 1));
  EXPECT_THAT(AdapterShares({.kind = PopularityKind::kSkewed}, 16), ElementsAre(5, 4, 3, 2, 1, 1));
  EXPECT_THAT(AdapterShares({.kind = PopularityKind::kDistinct}, 3), ElementsAre(1, 1, 1));
  for (int64_t n = 1; n < 200; ++n) {
    for (const auto kind : {PopularityKind::kIdentical, PopularityKind::kUniform,
                            PopularityKind::kSkewed, PopularityKind::kDistinct}) {
      int64_t total = 0;
      for (const int64_t share : AdapterShares({.kind = kind}, n)) {
        EXPECT_GT(share, 0);
        total += share;
      }
      EXPECT_EQ(total, n);
    }
  }
}

TEST(BenchPopularity, FillsEveryBlockWithItsShares) {
  const auto adapters = AssignAdapters({.kind = PopularityKind::kSkewed}, 48, 16, 100, 1);
  ASSERT_TRUE(adapters.ok());
  for (size_t block = 0; block < 48; block += 16) {
    std::map<int64_t, int64_t> counts;
    for (size_t i = 0; i < 16; ++i) ++counts[(*adapters)[block + i]];
    EXPECT_THAT(counts, ElementsAre(std::pair(0, 5), std::pair(1, 4), std::pair(2, 3),
                                    std::pair(3, 2), std::pair(4, 1), std::pair(5, 1)));
  }
  EXPECT_EQ(*adapters, *AssignAdapters({.kind = PopularityKind::kSkewed}, 48, 16, 100, 1));
  EXPECT_NE(*adapters, *AssignAdapters({.kind = PopularityKind::kSkewed}, 48, 16, 100, 2));
  EXPECT_THAT(*AssignAdapters({.kind = PopularityKind::kBase}, 4, 2, 0, 1), Each(-1));
}

TEST(BenchPopularity, DistinctNeverRepeatsWithinAWindow) {
  const auto adapters = AssignAdapters({.kind = PopularityKind::kDistinct}, 40, 8, 10, 1);
  ASSERT_TRUE(adapters.ok());
  for (size_t i = 0; i + 8 <= adapters->size(); ++i) {
    const auto begin = adapters->begin() + static_cast<std::ptrdiff_t>(i);
    EXPECT_EQ(std::set<int64_t>(begin, begin + 8).size(), 8u);
  }
  const auto too_few = AssignAdapters({.kind = PopularityKind::kDistinct}, 40, 8, 7, 1);
  EXPECT_THAT(Message(too_few.status()), HasSubstr("needs 8 adapters, and the server has 7"));
}

TEST(BenchReport, SummarizesTimes) {
  std::vector<Duration> times;
  for (int i = 100; i >= 1; --i) times.push_back(std::chrono::milliseconds(i));
  const Latency latency = Summarize(times);
  EXPECT_EQ(latency.mean_ms, 50.5);
  EXPECT_EQ(latency.p50_ms, 50);
  EXPECT_EQ(latency.p99_ms, 99);
  EXPECT_EQ(Summarize(std::vector<Duration>{}).p99_ms, 0);
}

// Waits of 1 s before the first token, of 10 s, a failure and a refusal; 2 s in all.
LoadResult FourRequests() {
  const auto seconds = [](int n) { return Duration(std::chrono::seconds(n)); };
  RequestRecord prompt = {.arrival = seconds(0),
                          .sent = std::chrono::milliseconds(20),
                          .end = seconds(2),
                          .chunks = {seconds(1), seconds(2)},
                          .prompt_tokens = 6,
                          .output_tokens = 2,
                          .error = ""};
  RequestRecord slow = prompt;
  slow.arrival = -seconds(9);
  RequestRecord failed = prompt;
  failed.error = "no";
  RequestRecord refused = failed;
  refused.was_refused = true;
  refused.end = std::chrono::milliseconds(25);
  return {.wall = seconds(2), .requests = {prompt, slow, failed, refused}};
}

TEST(BenchReport, SummarizesRequests) {
  const BenchRun run = Summarize(FourRequests(), std::chrono::seconds(6));
  EXPECT_EQ(run.num_requests, 4);
  EXPECT_EQ(run.num_errors, 1);
  EXPECT_EQ(run.num_refused, 1);
  EXPECT_DOUBLE_EQ(run.refusal.max_ms, 5);
  EXPECT_DOUBLE_EQ(run.goodput_per_s, 0.5) << "the slow one came too late";
  EXPECT_DOUBLE_EQ(run.requests_per_s, 1);
  EXPECT_DOUBLE_EQ(run.output_tokens_per_s, 2);
  EXPECT_DOUBLE_EQ(run.total_tokens_per_s, 8);
  EXPECT_DOUBLE_EQ(run.request.mean_ms, 6500);
  EXPECT_DOUBLE_EQ(run.first_token.mean_ms, 5500);
  EXPECT_DOUBLE_EQ(run.between_tokens.mean_ms, 1000);
  EXPECT_DOUBLE_EQ(run.slo_attainment, 1.0 / 4);
  EXPECT_DOUBLE_EQ(run.satisfaction, (1 - 1.0 / 36) / 4);
}

TEST(BenchReport, SatisfactionIsSLoras) {
  const Duration slo = std::chrono::seconds(6);
  EXPECT_EQ(Satisfaction(Duration(0), slo), 1);
  EXPECT_EQ(Satisfaction(std::chrono::seconds(3), slo), 0.75);
  EXPECT_EQ(Satisfaction(slo, slo), 0);
  EXPECT_EQ(Satisfaction(std::chrono::seconds(60), slo), 0);
}

TEST(BenchReport, TimelineHasAllTokens) {
  const Timeline timeline = MakeTimeline(FourRequests());
  double num_tokens = 0;
  for (const PlotPoint& point : timeline.output_tokens_per_s) num_tokens += point.y * 2 / 60;
  EXPECT_NEAR(num_tokens, 4, 1e-9) << "of the good requests";
  ASSERT_EQ(timeline.first_token_s.size(), 1u);
  EXPECT_DOUBLE_EQ(timeline.first_token_s[0].y, 5.5);
}

BenchResult ResultOf(PopularityKind kind, const std::vector<double>& output_tokens_per_s) {
  BenchResult result = {.spec = {.popularity = {.kind = kind}}, .sweep_value = "", .runs = {}};
  for (const double rate : output_tokens_per_s) {
    result.runs.push_back(
        {.output_tokens_per_s = rate,
         .steps = StepShape{.max_adapters = 4, .mean_adapters = 3, .mean_rows = 8},
         .adapters_asked_for = 4});
    if (kind != PopularityKind::kBase) result.runs.back().found_in_pool = 0.25;
  }
  return result;
}

TEST(BenchReport, ShowsMediansRelativeToBase) {
  const std::vector<BenchResult> results = {ResultOf(PopularityKind::kBase, {10, 1, 30}),
                                            ResultOf(PopularityKind::kDistinct, {8, 7})};
  const std::string table = FormatTable("", results);
  EXPECT_THAT(table, MatchesRegex("(.|\n)*\nbase  *0.00  *10.0  *0.0  *1.00 (.|\n)*"));
  EXPECT_THAT(table, MatchesRegex("(.|\n)*\ndistinct  *0.00  *7.5  *0.0  *0.75 (.|\n)*"));
  EXPECT_THAT(table, HasSubstr("4       0        -        0     0.0       0\n"))
      << "the base model is no adapter";
  EXPECT_THAT(table, HasSubstr("4       0    0.250        0     0.0       0\n"));
  const Json json = ToJson(results);
  EXPECT_EQ(json.AsArray()->size(), 2u);
  EXPECT_EQ(json.AsArray()->front().Find("runs")->AsArray()->size(), 3u);
}

TEST(BenchReport, SweepIsAColumn) {
  std::vector<BenchResult> results(2, ResultOf(PopularityKind::kDistinct, {8}));
  results[0].sweep_value = "1";
  results[1].sweep_value = "2.5";
  const std::string table = FormatTable("rate", results);
  EXPECT_THAT(table, HasSubstr("rate  popularity  req/s"));
  EXPECT_THAT(table, HasSubstr("\n2.5   distinct     0.00"));
}

WorkloadSpec ClosedSpec(PopularityKind kind) {
  return {.arrivals = {.concurrency = 2}, .popularity = {.kind = kind}, .num_requests = 4};
}

TEST(BenchSteps, NoneAreNoProof) {
  const StepScrape before = {.adapters = {.sum = 2, .count = 2}, .rows = {.sum = 4, .count = 2}};
  StepScrape after = before;
  EXPECT_FALSE(StepsBetween(before, after)) << "as of a cluster's gateway";
  after.adapters = {.sum = 8, .count = 4};
  after.rows = {.sum = 10, .count = 4};
  ASSERT_TRUE(StepsBetween(before, after));
  EXPECT_EQ(StepsBetween(before, after)->mean_adapters, 3);
}

TEST(BenchSteps, MustHoldTheAdaptersOfAClosedLoop) {
  const WorkloadSpec spec = ClosedSpec(PopularityKind::kDistinct);
  const auto workload = MakeWorkload(spec, 2);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(JudgeSteps({.max_adapters = 2, .mean_adapters = 1.5}, spec, *workload), "");
  EXPECT_THAT(JudgeSteps({.max_adapters = 1, .mean_adapters = 1}, spec, *workload),
              HasSubstr("at most 1 adapters shared a step, and 2 should have"));
}

TEST(BenchSteps, MustHoldNoOthersThanAnOpenLoops) {
  WorkloadSpec spec = ClosedSpec(PopularityKind::kDistinct);
  spec.arrivals.kind = ArrivalKind::kPoisson;
  const auto workload = MakeWorkload(spec, 2);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(JudgeSteps({.max_adapters = 1, .mean_adapters = 0.4}, spec, *workload), "");
  EXPECT_THAT(JudgeSteps({}, spec, *workload), HasSubstr("no step held an adapter"));
  EXPECT_THAT(JudgeSteps({.max_adapters = 4, .mean_adapters = 3}, spec, *workload),
              HasSubstr("only 2 were asked for"));
}

}  // namespace
}  // namespace aril
