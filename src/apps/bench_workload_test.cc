#include "apps/bench_workload.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/bench_presets.h"
#include "apps/bench_random.h"
#include "base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The bounds below are five standard errors of what is estimated: a seed in two million fails.
constexpr int64_t kMany = 100'000;
constexpr double kErrors = 5;
constexpr uint64_t kSeeds[] = {1, 2, 0xffffffffffffffff};

struct Moments {
  double mean = 0;
  double cv = 0;
};

template <typename Draw>
Moments MomentsOf(const Draw& draw) {
  double sum = 0;
  double squares = 0;
  for (int64_t i = 0; i < kMany; ++i) {
    const double value = draw();
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kMany;
  return {.mean = mean, .cv = std::sqrt(squares / kMany - mean * mean) / mean};
}

double StandardError(double cv) { return cv / std::sqrt(static_cast<double>(kMany)); }

TEST(BenchRandom, GammaHasItsMeanAndVariation) {
  for (const uint64_t seed : kSeeds) {
    for (const double shape : {0.05, 0.5, 1.0, 3.0, 100.0}) {
      SCOPED_TRACE(StrCat("seed ", seed, ", shape ", shape));
      BenchRandom random(seed, RandomStream::kArrivals);
      const Moments moments = MomentsOf([&] { return random.Gamma(shape); });
      const double cv = 1 / std::sqrt(shape);
      EXPECT_NEAR(moments.mean / shape, 1, kErrors * StandardError(cv));
      // The variance of a sample variance is σ⁴(κ - 1)/n, with a kurtosis κ of 3 + 6/shape.
      EXPECT_NEAR(moments.cv / cv, 1, kErrors * StandardError(std::sqrt(2 + 6 / shape)));
    }
  }
}

TEST(BenchRandom, WeibullHasItsMean) {
  for (const double shape : {0.5, 1.0, 2.0}) {
    BenchRandom random(7, RandomStream::kTrace);
    const Moments moments = MomentsOf([&] { return random.Weibull(shape); });
    const double mean = std::tgamma(1 + 1 / shape);
    const double cv = std::sqrt(std::tgamma(1 + 2 / shape) / (mean * mean) - 1);
    EXPECT_NEAR(moments.mean / mean, 1, kErrors * StandardError(cv)) << shape;
  }
}

TEST(BenchRandom, StreamsOfOneSeedDiffer) {
  BenchRandom arrivals(1, RandomStream::kArrivals);
  BenchRandom lengths(1, RandomStream::kLengths);
  EXPECT_NE(arrivals.Uniform(), lengths.Uniform());
}

TEST(BenchArrivals, ParsesWhatItPrints) {
  for (const char* text : {"closed:16", "poisson:2.5", "gamma:2:8"}) {
    const auto spec = ParseArrivals(text);
    ASSERT_TRUE(spec.ok()) << text;
    EXPECT_EQ(Name(*spec), text);
  }
  for (const char* text : {"", "open", "closed", "closed:0", "closed:5000", "poisson:0",
                           "poisson:nan", "poisson:1:2", "gamma:1", "gamma:1:0", "closed:1x"}) {
    EXPECT_THAT(Message(ParseArrivals(text).status()), HasSubstr("e.g. closed:16, poisson:2.5"))
        << text;
  }
}

TEST(BenchArrivals, HaveTheRateAndTheVariation) {
  for (const uint64_t seed : kSeeds) {
    for (const double cv : {1.0, 0.5, 4.0}) {
      SCOPED_TRACE(StrCat("seed ", seed, ", cv ", cv));
      const ArrivalSpec spec = {
          .kind = cv == 1 ? ArrivalKind::kPoisson : ArrivalKind::kGamma, .rate = 20, .cv = cv};
      const auto arrivals = MakeArrivals(spec, kMany, seed);
      EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
      size_t next = 0;
      double last = 0;
      const Moments intervals = MomentsOf([&] {
        const double now = ToSeconds(arrivals[next++]);
        return now - std::exchange(last, now);
      });
      EXPECT_NEAR(intervals.mean * spec.rate, 1, kErrors * StandardError(cv));
      EXPECT_NEAR(intervals.cv / cv, 1, kErrors * StandardError(std::sqrt(2 + 6 * cv * cv)));
    }
  }
}

TEST(BenchLengths, ParsesWhatItPrints) {
  for (const char* text : {"128", "uniform:8:512"}) {
    const auto range = ParseTokenRange(text);
    ASSERT_TRUE(range.ok()) << text;
    EXPECT_EQ(Name(*range), text);
  }
  for (const char* text : {"", "0", "-1", "8:512", "uniform:9:8", "uniform:0:8", "2000000"}) {
    EXPECT_THAT(Message(ParseTokenRange(text).status()), HasSubstr("uniform:MIN:MAX")) << text;
  }
  EXPECT_EQ(*ParsePunicaLengths("punica:2048"), 2048);
  for (const char* text : {"punica", "punica:2", "punica:x", "vicuna:9"}) {
    EXPECT_THAT(Message(ParsePunicaLengths(text).status()), HasSubstr("punica:MAX")) << text;
  }
}

TEST(BenchLengths, UniformReachesBothEnds) {
  BenchRandom random(1, RandomStream::kLengths);
  std::map<int64_t, int64_t> counts;
  for (int i = 0; i < 6000; ++i) {
    ++counts[DrawLengths({.prompt = {3, 5}, .output = {7, 7}}, random).prompt_tokens];
  }
  ASSERT_EQ(counts.size(), 3u);
  for (const auto& [tokens, count] : counts)
    EXPECT_NEAR(count, 2000, 5 * std::sqrt(6000 * 2.0 / 9));
  EXPECT_EQ(counts.begin()->first, 3);
}

TEST(BenchLengths, PunicasPromptsAreLogNormal) {
  for (const uint64_t seed : kSeeds) {
    BenchRandom random(seed, RandomStream::kLengths);
    int64_t num_below_median = 0;
    for (int64_t i = 0; i < kMany; ++i) {
      const RequestLengths lengths = DrawLengths({.punica_max_total = 2048}, random);
      ASSERT_GE(lengths.prompt_tokens, 1);
      ASSERT_GE(lengths.output_tokens, 2);
      ASSERT_LE(lengths.prompt_tokens + lengths.output_tokens, 2048);
      if (lengths.prompt_tokens < 17) ++num_below_median;
    }
    // 18·e^(0.8 z) - 1 < 17 where z < 0.
    EXPECT_NEAR(num_below_median, kMany / 2.0, kErrors * std::sqrt(kMany) / 2) << "seed " << seed;
  }
}

TEST(BenchPopularity, PowerIsThatOfSLora) {
  // P(index < k) = P(x < k/n) = (k/n)^α.
  for (const double alpha : {0.1, 0.3, 1.0, 3.0}) {
    const auto adapters =
        AssignAdapters({.kind = PopularityKind::kPower, .alpha = alpha}, kMany, 16, 200, 1);
    ASSERT_TRUE(adapters.ok());
    for (const int64_t k : {1, 10, 100}) {
      const double expected = std::pow(static_cast<double>(k) / 200, alpha);
      const auto below = std::count_if(adapters->begin(), adapters->end(),
                                       [&](int64_t adapter) { return adapter < k; });
      EXPECT_NEAR(static_cast<double>(below) / kMany, expected,
                  kErrors * std::sqrt(expected * (1 - expected) / kMany))
          << "alpha " << alpha << ", first " << k;
    }
    EXPECT_LT(*std::max_element(adapters->begin(), adapters->end()), 200);
  }
  EXPECT_EQ(Name(*ParsePopularity("power:0.3")), "power:0.3");
  EXPECT_THAT(Message(ParsePopularity("power:0").status()), HasSubstr("power:ALPHA"));
}

WorkloadSpec Preset() { return *FindPreset("s-lora-7b-a10g"); }

TEST(BenchWorkload, SameSeedSameRequests) {
  WorkloadSpec spec = Preset();
  const auto workload = MakeWorkload(spec, 200);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload->requests, MakeWorkload(spec, 200)->requests);
  // Exactly these, so that a change of the generator does not go unnoticed.
  EXPECT_EQ(workload->requests.front(), (WorkloadRequest{Duration(211'519), 125, 195, 421}));
  EXPECT_EQ(workload->requests.back(), (WorkloadRequest{Duration(299'455'068'989), 74, 111, 290}));
  spec.seed = 2;
  EXPECT_NE(workload->requests, MakeWorkload(spec, 200)->requests);
}

TEST(BenchWorkload, LengthsLeaveArrivalsAlone) {
  WorkloadSpec spec = Preset();
  const auto before = MakeWorkload(spec, 200);
  spec.lengths.prompt = {5, 5};
  const auto after = MakeWorkload(spec, 200);
  for (size_t i = 0; i < before->requests.size(); ++i) {
    EXPECT_EQ(before->requests[i].arrival, after->requests[i].arrival);
    EXPECT_EQ(before->requests[i].adapter, after->requests[i].adapter);
  }
}

TEST(BenchWorkload, PresetsHaveTheirNumbers) {
  for (const std::string& name : PresetNames()) {
    const WorkloadSpec spec = *FindPreset(name);
    const auto workload = MakeWorkload(spec, 400);
    ASSERT_TRUE(workload.ok());
    EXPECT_EQ(workload->num_clients, 0) << name;
    EXPECT_EQ(workload->requests.size(), static_cast<size_t>(spec.arrivals.rate * 300)) << name;
    for (const WorkloadRequest& request : workload->requests) {
      EXPECT_GE(std::min(request.prompt_tokens, request.output_tokens), 8);
      EXPECT_LE(std::max(request.prompt_tokens, request.output_tokens), 512);
      EXPECT_LT(request.adapter, spec.num_adapters);
    }
  }
  EXPECT_THAT(Message(FindPreset("s-lora").status()), HasSubstr("expected s-lora-7b-a10g, "));
  EXPECT_THAT(Message(MakeWorkload(Preset(), 16).status()),
              HasSubstr("the workload has 200 adapters and the server 16"));
}

TEST(BenchWorkload, ClosedLoopHasClientsInsteadOfTimes) {
  const auto workload = MakeWorkload({.arrivals = {.concurrency = 3}, .num_requests = 5}, 0);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload->num_clients, 3);
  EXPECT_EQ(workload->requests.size(), 5u);
  EXPECT_EQ(workload->requests.back(),
            (WorkloadRequest{.prompt_tokens = 128, .output_tokens = 64}));
  EXPECT_EQ(CountAdapters(*workload), 0);
}

TEST(BenchWorkload, IsBounded) {
  WorkloadSpec spec = Preset();
  spec.arrivals.rate = 1e6;
  EXPECT_THAT(Message(MakeWorkload(spec, 200).status()), HasSubstr("lower the rate"));
}

TEST(BenchWorkload, TakesFromATraceWhatItRecords) {
  auto trace = std::make_shared<Trace>();
  trace->has_arrivals = trace->has_adapters = true;
  trace->requests = {{.arrival = Duration(0), .adapter = 5},
                     {.arrival = std::chrono::seconds(10), .adapter = -1},
                     {.arrival = std::chrono::seconds(20), .adapter = 1}};
  WorkloadSpec spec = {.lengths = {.prompt = {9, 9}, .output = {8, 8}},
                       .num_requests = 0,
                       .trace = trace,
                       .trace_speed = 10};
  const auto workload = MakeWorkload(spec, 4);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload->num_clients, 0);
  EXPECT_THAT(workload->requests, ElementsAre(WorkloadRequest{Duration(0), 1, 9, 8},
                                              WorkloadRequest{std::chrono::seconds(1), -1, 9, 8},
                                              WorkloadRequest{std::chrono::seconds(2), 1, 9, 8}));
  spec.duration = std::chrono::seconds(2);
  EXPECT_EQ(MakeWorkload(spec, 4)->requests.size(), 2u) << "arrivals before the duration is over";
  EXPECT_THAT(Message(MakeWorkload(spec, 0).status()), HasSubstr("the server has none"));
}

TEST(BenchWorkload, HasRequestsBesideItThatDoNotCount) {
  WorkloadSpec spec = Preset();
  const auto alone = MakeWorkload(spec, 300);
  ASSERT_TRUE(alone.ok());
  spec.beside_rate = 3;
  for (const double cold : {0.0, 0.25, 1.0}) {
    spec.beside_cold = cold;
    const auto workload = MakeWorkload(spec, 300);
    ASSERT_TRUE(workload.ok());
    std::vector<WorkloadRequest> counting;
    int64_t num_beside = 0;
    int64_t num_cold = 0;
    Duration last{};
    for (const WorkloadRequest& request : workload->requests) {
      EXPECT_GE(request.arrival, std::exchange(last, request.arrival));
      if (request.counts) {
        counting.push_back(request);
        continue;
      }
      ++num_beside;
      num_cold += request.adapter >= spec.num_adapters ? 1 : 0;
      EXPECT_LT(request.adapter, 300);
      EXPECT_EQ(request.output_tokens, 1);
    }
    EXPECT_EQ(counting, alone->requests) << "the load itself stays as it is";
    EXPECT_EQ(num_beside, 898) << "3/s until the last arrival, at 299.5 s";
    EXPECT_EQ(num_cold, static_cast<int64_t>(std::ceil(cold * 898)));
  }
  EXPECT_THAT(Message(MakeWorkload(spec, 200).status()), HasSubstr("uses all 200 adapters"));
  EXPECT_THAT(Message(MakeWorkload({.beside_rate = 1}, 2).status()), HasSubstr("an open one"));
}

TEST(BenchSweep, SetsOneParameter) {
  const auto sweep = ParseSweep("rate=1,2.5");
  ASSERT_TRUE(sweep.ok());
  EXPECT_EQ(sweep->parameter, "rate");
  EXPECT_THAT(sweep->values, ElementsAre(1, 2.5));
  WorkloadSpec spec = Preset();
  ASSERT_TRUE(ApplySweep("rate", 4, &spec).ok());
  ASSERT_TRUE(ApplySweep("alpha", 0.3, &spec).ok());
  ASSERT_TRUE(ApplySweep("adapters", 20, &spec).ok());
  ASSERT_TRUE(ApplySweep("prompt-tokens", 7, &spec).ok());
  ASSERT_TRUE(ApplySweep("prefix-tokens", 3, &spec).ok());
  const auto workload = MakeWorkload(spec, 20);
  ASSERT_TRUE(workload.ok());
  EXPECT_EQ(workload->requests.size(), 1200u);
  EXPECT_EQ(Name(spec.popularity), "power:0.3");
  EXPECT_EQ(spec.prefix_tokens, 3);
  for (const WorkloadRequest& request : workload->requests) EXPECT_EQ(request.prompt_tokens, 7);
}

TEST(BenchSweep, RefusesWhatTheWorkloadLacks) {
  WorkloadSpec open = Preset();
  WorkloadSpec closed;
  EXPECT_THAT(Message(ApplySweep("rate", 1, &closed)), HasSubstr("needs --arrivals poisson:RATE"));
  EXPECT_THAT(Message(ApplySweep("alpha", 1, &closed)), HasSubstr("power:ALPHA"));
  EXPECT_THAT(Message(ApplySweep("concurrency", 1, &open)), HasSubstr("closed:CLIENTS"));
  EXPECT_THAT(Message(ApplySweep("trace-speed", 1, &open)), HasSubstr("--trace"));
  EXPECT_THAT(Message(ApplySweep("beside-cold", 1, &open)), HasSubstr("--beside RATE"));
  open.beside_rate = 1;
  EXPECT_THAT(Message(ApplySweep("beside-cold", 2, &open)), HasSubstr("from 0 to 1"));
  EXPECT_THAT(Message(ApplySweep("adapters", 1.5, &open)), HasSubstr("not an integer"));
  EXPECT_THAT(Message(ApplySweep("cv", -1, &open)), HasSubstr("cv=-1: the coefficient"));
  for (const char* text : {"", "rate", "rate=", "rate=1,,2", "speed=1"}) {
    EXPECT_FALSE(ParseSweep(text).ok()) << text;
  }
}

}  // namespace
}  // namespace aril
