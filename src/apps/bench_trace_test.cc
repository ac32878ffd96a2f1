#include "apps/bench_trace.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/strings.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

const std::string kSamples = SourcePath("src/apps/testdata/traces/");
const std::string kTraces = SharedPath("data/traces/");

Trace Sample(const std::string& name) {
  const auto trace = ReadTrace(kSamples + name, {});
  EXPECT_TRUE(trace.ok()) << Message(trace.status());
  return trace.ok() ? *trace : Trace{.format = "", .requests = std::vector<TraceRequest>(9)};
}

std::string ErrorOf(const std::string& text, const std::string& lengths = "") {
  return Message(ParseTrace(text, lengths, {}).status());
}

TEST(BenchTrace, ReadsWhatItWrites) {
  const std::vector<TraceRequest> requests = {
      {.arrival = Duration(0), .adapter = 0, .prompt_tokens = 7, .output_tokens = 3},
      {.arrival = std::chrono::microseconds(1'250'001), .prompt_tokens = 1, .output_tokens = 9},
      {.arrival = std::chrono::hours(2), .adapter = 1}};
  const auto trace = ParseTrace(ToCsv(requests), "", {});
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->format, "aril");
  EXPECT_TRUE(trace->has_arrivals && trace->has_lengths && trace->has_adapters);
  ASSERT_EQ(trace->requests.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(trace->requests[i].arrival, requests[i].arrival);
    EXPECT_EQ(trace->requests[i].adapter, requests[i].adapter);
    EXPECT_EQ(trace->requests[i].prompt_tokens, requests[i].prompt_tokens);
    EXPECT_EQ(trace->requests[i].output_tokens, requests[i].output_tokens);
  }
  const std::string header = "arrival_s,adapter,prompt_tokens,output_tokens\n";
  EXPECT_THAT(ErrorOf(header + "-1,,1,1\n"), HasSubstr("line 2: arrival_s is `-1`"));
  EXPECT_THAT(ErrorOf(header + "nan,,1,1\n"), HasSubstr("seconds from 0"));
}

TEST(BenchTrace, ReadsAzure) {
  const Trace trace = Sample("azure.csv");
  EXPECT_EQ(trace.format, "azure");
  EXPECT_TRUE(trace.has_arrivals && trace.has_lengths && !trace.has_adapters);
  ASSERT_EQ(trace.requests.size(), 3u);
  EXPECT_EQ(trace.requests[0].arrival, Duration(0));
  EXPECT_EQ(trace.requests[0].prompt_tokens, 4808);
  EXPECT_EQ(trace.requests[1].arrival, std::chrono::milliseconds(750)) << "across midnight";
  EXPECT_EQ(trace.requests[2].output_tokens, 1) << "recorded 0";
}

TEST(BenchTrace, ReadsVidur) {
  const Trace trace = Sample("vidur.csv");
  EXPECT_EQ(trace.format, "vidur");
  EXPECT_TRUE(!trace.has_arrivals && trace.has_lengths && !trace.has_adapters);
  EXPECT_EQ(trace.requests[1].prompt_tokens, 2015);
  EXPECT_EQ(trace.requests[1].output_tokens, 156);
}

TEST(BenchTrace, ReadsAlibabasTenants) {
  const Trace trace = Sample("alibaba.csv");
  EXPECT_EQ(trace.format, "alibaba");
  EXPECT_TRUE(trace.has_arrivals && !trace.has_lengths && trace.has_adapters);
  ASSERT_EQ(trace.requests.size(), 4u);
  EXPECT_EQ(trace.requests[0].adapter, -1) << "the earliest, though not the first line";
  EXPECT_EQ(trace.requests[1].adapter, 0);
  EXPECT_EQ(trace.requests[1].arrival, std::chrono::seconds(3));
  EXPECT_EQ(trace.requests[2].adapter, 1);
  EXPECT_EQ(trace.requests[3].adapter, 0);
}

TEST(BenchTrace, ReadsAlibabasLoras) {
  const Trace trace = Sample("alibaba_lora.csv");
  EXPECT_EQ(trace.format, "alibaba-lora");
  EXPECT_TRUE(!trace.has_arrivals && !trace.has_lengths && trace.has_adapters);
  ASSERT_EQ(trace.requests.size(), 4u);
  EXPECT_EQ(trace.requests[0].adapter, -1);
  EXPECT_EQ(trace.requests[1].adapter, 0);
  EXPECT_EQ(trace.requests[2].adapter, 1);
  EXPECT_EQ(trace.requests[3].adapter, 0);
}

TEST(BenchTrace, ReadsMooncake) {
  const Trace trace = Sample("mooncake.jsonl");
  EXPECT_EQ(trace.format, "mooncake");
  EXPECT_TRUE(trace.has_arrivals && trace.has_lengths && !trace.has_adapters);
  EXPECT_EQ(trace.requests[1].arrival, std::chrono::seconds(3));
  EXPECT_EQ(trace.requests[0].prompt_tokens, 6758);
  EXPECT_EQ(trace.requests[0].output_tokens, 500);
  ASSERT_EQ(trace.requests[0].blocks.size(), 14u);
  EXPECT_EQ(trace.requests[0].blocks[13], 13);
  EXPECT_TRUE(trace.requests[1].blocks.empty());
}

TEST(BenchTrace, ReadsShareGpt) {
  const Trace trace = Sample("sharegpt.jsonl");
  EXPECT_EQ(trace.format, "sharegpt");
  EXPECT_EQ(trace.requests[1].arrival, std::chrono::milliseconds(100));
  EXPECT_EQ(trace.requests[0].prompt_tokens, 3);
}

// 600 s of 2 requests/s whose intervals vary by √5 (Weibull of shape ½), and 600 s of 1 by ½.
TEST(BenchTrace, DrawsFromServegen) {
  for (const uint64_t seed : {1, 2, 3}) {
    const auto trace = ReadTrace(std::string(kSamples) + "chunk-0-trace.csv", {.seed = seed});
    ASSERT_TRUE(trace.ok()) << Message(trace.status());
    EXPECT_EQ(trace->format, "servegen");
    EXPECT_TRUE(trace->has_arrivals && trace->has_lengths && !trace->has_adapters);
    // The number of renewals has the standard deviation cv·√n: √6000 and √150.
    EXPECT_NEAR(static_cast<double>(trace->requests.size()), 1800, 5 * std::sqrt(6150))
        << "seed " << seed;
    std::map<int64_t, int64_t> prompts;
    for (const TraceRequest& request : trace->requests) {
      EXPECT_EQ(request.output_tokens, 7);
      ++prompts[request.prompt_tokens];
    }
    ASSERT_EQ(prompts.size(), 2u);
    const auto total = static_cast<double>(trace->requests.size());
    EXPECT_NEAR(static_cast<double>(prompts[347]), 0.75 * total, 5 * std::sqrt(total * 3 / 16));
    EXPECT_LT(trace->requests.back().arrival, std::chrono::seconds(1200));
  }
}

TEST(BenchTrace, ServegenNeedsNoLengths) {
  const auto trace = ParseTrace("0,1,1,,0,0\n", "", {.max_requests = 5});
  ASSERT_TRUE(trace.ok());
  EXPECT_FALSE(trace->has_lengths);
  EXPECT_EQ(trace->requests.size(), 5u);
}

TEST(BenchTrace, DropsLongRequests) {
  Trace trace = Sample("azure.csv");
  EXPECT_EQ(*DropLongRequests(200, &trace), 1);
  EXPECT_EQ(trace.requests.front().arrival, Duration(0)) << "counted from the first that is left";
  EXPECT_THAT(Message(DropLongRequests(5, &trace).status()),
              HasSubstr("all 2 requests of the trace have more than 5 tokens"));
}

TEST(BenchTrace, SaysWhatIsWrongAndWhere) {
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string mooncake =
      R"({"timestamp": 1, "input_length": 513, "output_length": 2, "hash_ids": )";
  const std::pair<std::string, const char*> kCases[] = {
      {"", "line 0: this is none of the known traces"},
      {"timestamp_anon,value\n1,2\n", "line 1: this is none of the known traces"},
      {azure, "there is no request in it"},
      {azure + "2023-11-16 18:17:03,1", "line 2: it has 2 columns, too few for GeneratedTokens"},
      {azure + "2023-11-31 18:17:03,1,2", "line 2: TIMESTAMP is `2023-11-31 18:17:03`"},
      {azure + "2023-11-16T18:17:03,1,2", "expected a time like 2023-11-16 18:17:03.97"},
      {azure + "2023-11-16 18:17:03,-1,2", "ContextTokens is `-1`, expected a number of tokens"},
      {azure + "2023-11-16 18:17:03,1,2000000", "GeneratedTokens is `2000000`"},
      {azure + "\"2023,1,2", "line 2: a quote is not closed"},
      {"lora_args\n[x]\n", "lora_args is `[x]`, expected a list with modelVersionId"},
      {"{\"timestamp\": 1", "line 1: "},
      {"{\"time\": 1}", "expected `timestamp` (mooncake) or `arrival_time_ns`"},
      {"{\"timestamp\": -1}", "`timestamp`: expected a time of at least 0"},
      {"{\"timestamp\": 1, \"input_length\": 1.5}", "`input_length`: expected a number of tokens"},
      {mooncake + "[1, 2, 3]}", "`hash_ids`: expected a list of 2 blocks of 512 tokens"},
      {mooncake + "7}", "`hash_ids`: expected a list of 2 blocks of 512 tokens"},
      {mooncake + "[1, -2]}", "`hash_ids`: expected integers from 0 to 2147483647"},
      {mooncake + "[1, \"2\"]}", "`hash_ids`: expected integers from 0 to 2147483647"},
      {"0,1,1,Pareto,1,1\n", "the pattern `Pareto` is not Gamma, Weibull or empty"},
      {"0,1,1,Gamma,0,1\n", "the shape can be 0.01 to 1e+06"},
      {"0,-1,1,,0,0\n", "the rate can be 0 to 1e+06"},
      {"600,1,1,,0,0\n0,1,1,,0,0\n", "line 2: the windows must be in the order"}};
  for (const auto& [text, error] : kCases) EXPECT_THAT(ErrorOf(text), HasSubstr(error)) << text;
  const std::string lengths = R"({"0":{"input_tokens":"{1: 2}","output_tokens":"{}"}})";
  EXPECT_THAT(ErrorOf("0,1,1,,0,0\n", lengths),
              HasSubstr("the lengths beside it: input_tokens: `1: 2`: expected TOKENS"));
}

// Whole files: their lines, and the times of their first and last.
TEST(BenchTrace, ReadsThePublishedFiles) {
  if (!FileExists(kTraces)) GTEST_SKIP() << kTraces << " is absent";
  struct Case {
    const char* path;
    size_t num_requests;
    double seconds;
  };
  const Case kCases[] = {
      {"azure2023/AzureLLMInferenceTrace_code.csv", 8819, 3435.9},
      {"mooncake_fast25/conversation_trace.jsonl", 12031, 3537.0},
      {"llmservingsim_sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl", 300, 29.1},
      {"vidur/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv", 28257, 0},
      {"alibaba_gentd26/lora_request_trace.first_half.csv", 13411, 1150845},
      {"alibaba_gentd26/data_trace_processed.first_half.csv", 34097, 0}};
  for (const Case& expected : kCases) {
    const auto trace = ReadTrace(std::string(kTraces) + expected.path, {});
    ASSERT_TRUE(trace.ok()) << Message(trace.status());
    EXPECT_EQ(trace->requests.size(), expected.num_requests) << expected.path;
    const double seconds = std::chrono::duration<double>(trace->requests.back().arrival).count();
    EXPECT_NEAR(seconds, expected.seconds, 0.1) << expected.path;
  }
}

TEST(BenchTrace, DrawsFromThePublishedServegenClients) {
  if (!FileExists(kTraces)) GTEST_SKIP() << kTraces << " is absent";
  for (const int chunk : {0, 8, 14, 22}) {
    const std::string path =
        StrCat(kTraces, "servegen/language/m-small/chunk-", chunk, "-trace.csv");
    const auto trace = ReadTrace(path, {.max_requests = 2000});
    ASSERT_TRUE(trace.ok()) << Message(trace.status());
    EXPECT_EQ(trace->requests.size(), 2000u);
    EXPECT_EQ(trace->has_lengths, chunk != 8) << "those of 8 were dropped for their size";
  }
}

}  // namespace
}  // namespace aril
