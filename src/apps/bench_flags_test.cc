#include "apps/bench_flags.h"

#include "apps/commands.h"
#include "base/test_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::HasSubstr;

StatusOr<BenchServeOptions> Resolve(const std::string& line) {
  CLI::App app;
  BenchFlags flags;
  AddBenchFlags(app, flags);
  app.parse(line);
  ASSIGN_OR_RETURN(BenchServeOptions options, ResolveBenchFlags(flags));
  RETURN_IF_ERROR(LoadBenchTrace(flags, &options));
  RETURN_IF_ERROR(CheckBenchSweep(options));
  return options;
}

TEST(BenchFlags, HaveDefaults) {
  const auto options = Resolve("");
  ASSERT_TRUE(options.ok()) << Message(options.status());
  EXPECT_EQ(Name(options->workload.arrivals), "closed:16");
  EXPECT_EQ(options->workload.num_requests, 32);
  EXPECT_TRUE(options->workload.lengths.is_fixed());
  ASSERT_EQ(options->popularities.size(), 2u);
  EXPECT_EQ(Name(options->popularities[1]), "distinct");
  EXPECT_EQ(options->target.url.port, 8000);
  EXPECT_EQ(options->target.field, AdapterField::kModel);
}

TEST(BenchFlags, ConcurrencyIsAClosedLoop) {
  const auto options = Resolve("--concurrency 3 --popularity power:0.3,base --field lora");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(Name(options->workload.arrivals), "closed:3");
  EXPECT_EQ(Name(options->popularities[0]), "power:0.3");
  EXPECT_EQ(options->target.field, AdapterField::kLora);
}

TEST(BenchFlags, OthersChangeAPreset) {
  const auto options = Resolve("--preset s-lora-7b-a10g --adapters 4 --duration 10s --seed 9");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(Name(options->workload.arrivals), "gamma:2:1");
  EXPECT_EQ(options->workload.num_adapters, 4);
  EXPECT_EQ(options->workload.duration, std::chrono::seconds(10));
  EXPECT_EQ(options->workload.seed, 9u);
  ASSERT_EQ(options->popularities.size(), 1u);
  EXPECT_EQ(Name(options->popularities[0]), "power:1");
}

TEST(BenchFlags, WhatIsSaidWinsOverATrace) {
  const std::string trace = "--trace " + SourcePath("src/apps/testdata/traces/alibaba.csv") + " ";
  const auto recorded = Resolve(trace);
  ASSERT_TRUE(recorded.ok()) << Message(recorded.status());
  EXPECT_TRUE(recorded->workload.has_trace_arrivals() && recorded->workload.has_trace_adapters());
  EXPECT_EQ(recorded->popularities.size(), 1u);
  EXPECT_EQ(recorded->workload.num_requests, 0);
  const auto said = Resolve(trace + "--popularity base,power:1 --arrivals poisson:2");
  ASSERT_TRUE(said.ok());
  EXPECT_FALSE(said->workload.has_trace_arrivals() || said->workload.has_trace_adapters());
  EXPECT_EQ(said->popularities.size(), 2u);
}

TEST(BenchFlags, TakeAdaptersFromAnotherTrace) {
  const std::string dir = SourcePath("src/apps/testdata/traces/");
  const auto both = Resolve("--trace " + dir + "azure.csv --trace-adapters " + dir + "alibaba.csv");
  ASSERT_TRUE(both.ok()) << Message(both.status());
  const auto azure = Resolve("--trace " + dir + "azure.csv");
  const auto alibaba = Resolve("--trace " + dir + "alibaba.csv");
  EXPECT_EQ(both->popularities.size(), 1u);
  const auto& requests = both->workload.trace->requests;
  ASSERT_EQ(requests.size(), azure->workload.trace->requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].prompt_tokens, azure->workload.trace->requests[i].prompt_tokens);
    const auto& recorded = alibaba->workload.trace->requests;
    EXPECT_EQ(requests[i].adapter, recorded[i % recorded.size()].adapter);
  }
  EXPECT_THAT(
      Message(
          Resolve("--trace " + dir + "azure.csv --trace-adapters " + dir + "azure.csv").status()),
      HasSubstr("azure.csv: a trace of the format azure records no adapters"));
  EXPECT_THAT(Message(Resolve("--trace-adapters " + dir + "alibaba.csv").status()),
              HasSubstr("needs a --trace"));
}

TEST(BenchFlags, SayWhatIsAllowed) {
  const std::pair<const char*, const char*> kCases[] = {
      {"--arrivals soon", "--arrivals: `soon`: unknown arrivals; expected closed:CLIENTS"},
      {"--arrivals poisson:2 --concurrency 2", "give only one"},
      {"--concurrency 0", "--concurrency: there can be 1 to 4096 clients"},
      {"--requests 3 --duration 3s", "give only one"},
      {"--duration 3s", "--duration is of an open loop"},
      {"--preset x", "--preset: `x`: expected s-lora-7b-a10g"},
      {"--preset s-lora-7b-a10g --concurrency 2", "give --requests for a closed one"},
      {"--popularity most", "--popularity: `most`: expected base, identical"},
      {"--prompt-tokens few", "--prompt-tokens: `few`: expected a number of tokens"},
      {"--lengths punica:64 --output-tokens 3", "give only the one"},
      {"--field adapter", "--field: `adapter`: expected model or lora"},
      {"--url ftp://x", "expected http[s]://HOST[:PORT]"},
      {"--sweep rate=1", "rate needs --arrivals poisson:RATE"},
      {"--sweep speed=1", "the parameters are rate, cv, "},
      {"--trace /nowhere", "/nowhere"}};
  for (const auto& [line, error] : kCases) {
    EXPECT_THAT(Message(Resolve(line).status()), HasSubstr(error)) << line;
  }
}

// Before any server is asked for anything.
TEST(BenchFlags, ContradictionsAreWrongUsage) {
  const auto run = [](const std::string& line) {
    CLI::App app;
    AddBenchCommand(app);
    app.parse("bench serve " + line);
  };
  EXPECT_THROW(run("--arrivals soon"), CLI::ValidationError);
  EXPECT_THROW(run("--sweep cv=2"), CLI::ValidationError);
  EXPECT_THROW(run("--trace /nowhere"), CLI::RuntimeError) << "exit code 1";
}

}  // namespace
}  // namespace aril
