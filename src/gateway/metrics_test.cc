// How many series a scrape has, and that they go.

#include "gateway/metrics.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::gateway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Adapters 0 … count - 1, of which each has one running and i % 7 waiting sequences.
wire::StepStats StatsOf(int32_t count) {
  wire::StepStats stats;
  for (int32_t i = 0; i < count; ++i) stats.adapters.push_back({AdapterId(i), 1, i % 7});
  return stats;
}

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    metrics_.SetAdapters([](AdapterId adapter) { return StrCat("a", adapter); },
                         [] { return int64_t{5000}; });
  }
  Metrics metrics_;
};

TEST_F(MetricsTest, OnlyModelsInWorkHaveSeries) {
  metrics_.OnStep(StatsOf(2));
  EXPECT_THAT(metrics_.Scrape(1),
              HasSubstr(R"(aril_model_sequences{model="a1",state="waiting"} 1)"));
  EXPECT_THAT(metrics_.Scrape(1), HasSubstr(R"(running_lora_adapters="a0,a1")"));
  metrics_.OnStep(StatsOf(1));
  EXPECT_THAT(metrics_.Scrape(2), Not(HasSubstr("a1")));
  metrics_.OnStep(StatsOf(0));
  const std::string idle = metrics_.Scrape(3);
  EXPECT_EQ(Count(idle, "aril_model_sequences{"), 0);
  EXPECT_EQ(Count(idle, "vllm:lora_requests_info{"), 1) << "one series, whatever it lists";
  EXPECT_THAT(idle, HasSubstr(R"(running_lora_adapters="",waiting_lora_adapters="")"));
}

TEST_F(MetricsTest, TheSeriesOfAScrapeAreBounded) {
  constexpr int32_t kAdapters = 2000;
  const wire::StepStats stats = StatsOf(kAdapters);
  metrics_.OnStep(stats);
  const std::string scrape = metrics_.Scrape(1);
  EXPECT_EQ(Count(scrape, R"(state="running"})"), 257);
  EXPECT_EQ(Count(scrape, R"(state="waiting"})"), 257);
  EXPECT_THAT(scrape,
              HasSubstr(R"-(aril_model_sequences{model="(others)",state="running"} 1744)-"));
  // Those with most sequences have their own: of 2000, 285 have one running and six waiting.
  EXPECT_THAT(scrape, HasSubstr(R"({model="a6",state="waiting"} 6)"));
  EXPECT_THAT(scrape, Not(HasSubstr(R"({model="a5",)")));
  const size_t list = scrape.find("running_lora_adapters=");
  const size_t end = scrape.find('"', scrape.find('"', list) + 1);
  EXPECT_EQ(std::count(scrape.begin() + static_cast<std::ptrdiff_t>(list),
                       scrape.begin() + static_cast<std::ptrdiff_t>(end), ','),
            255);
}

// In a cluster a zero would be added to what others know.
TEST(Metrics, AProcessShowsWhatItKnows) {
  const auto scrape = [](Metrics::Process process) {
    Metrics metrics(process);
    metrics.OnStep({.num_running = 3});
    metrics.OnResponse("/health", 200);
    return metrics.Scrape(1);
  };
  const std::string server = scrape(Metrics::Process::kServer);
  const std::string gateway = scrape(Metrics::Process::kGateway);
  const std::string runner = scrape(Metrics::Process::kRunner);
  for (const std::string& text : {server, gateway, runner}) {
    EXPECT_THAT(text, HasSubstr("vllm:num_requests_running 3\n"));
  }
  for (const char* of_steps :
       {"vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:kv_cache_usage_perc",
        "vllm:lora_requests_info", "vllm:cache_config_info", "aril_step_rows", "aril_pool_pages",
        "aril_queue_time_seconds", "aril_adapter_load_seconds", "aril_steps_total"}) {
    EXPECT_THAT(server, HasSubstr(of_steps));
    EXPECT_THAT(runner, HasSubstr(of_steps));
    EXPECT_THAT(gateway, Not(HasSubstr(of_steps)));
  }
  for (const char* of_requests : {"aril_http_responses_total", "aril_requests_in_flight",
                                  "aril_time_to_first_token_seconds"}) {
    EXPECT_THAT(server, HasSubstr(of_requests));
    EXPECT_THAT(gateway, HasSubstr(of_requests));
    EXPECT_THAT(runner, Not(HasSubstr(of_requests)));
  }
}

TEST_F(MetricsTest, LabelsAreNeverAClientsText) {
  metrics_.OnFetch("s3://bucket/a", OkStatus(), 10, std::chrono::seconds(1));
  metrics_.OnFetch("hf://org/name", NotFound("x"), 0, std::chrono::seconds(1));
  metrics_.OnFetch("https://a/b", MakeStatus(StatusCode::kCancelled, "x"), 0, {});
  metrics_.OnFetch("gopher\"://x", InvalidArgument("x"), 0, {});
  const std::string scrape = metrics_.Scrape(1);
  for (const char* line : {R"(aril_source_fetches_total{outcome="success",scheme="s3"} 1)",
                           R"(aril_source_fetches_total{outcome="not_found",scheme="hf"} 1)",
                           R"(aril_source_fetches_total{outcome="cancelled",scheme="https"} 1)",
                           R"(aril_source_fetches_total{outcome="refused",scheme="other"} 1)",
                           R"(aril_source_bytes_total{scheme="s3"} 10)",
                           R"(aril_source_fetch_seconds_bucket{scheme="s3",le="1"} 1)"}) {
    EXPECT_THAT(scrape, HasSubstr(line));
  }
  EXPECT_THAT(scrape, Not(HasSubstr("gopher")));
}

TEST_F(MetricsTest, PinnedBytesGoWithThePins) {
  std::map<std::string, int64_t> pinned = {{"acme", 4096}, {"zeta", 8192}};
  metrics_.SetAdapterCounts([&] { return AdapterCounts{.pinned_bytes = pinned}; });
  EXPECT_THAT(metrics_.Scrape(1), HasSubstr(R"(aril_adapter_pinned_bytes{tenant="zeta"} 8192)"));
  pinned.erase("zeta");
  EXPECT_THAT(metrics_.Scrape(1), HasSubstr(R"(aril_adapter_pinned_bytes{tenant="acme"} 4096)"));
  EXPECT_THAT(metrics_.Scrape(1), Not(HasSubstr("zeta")));
}

}  // namespace
}  // namespace aril::gateway
