#include "apps/bench_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "apps/bench_numbers.h"
#include "base/check.h"

namespace aril {
namespace {

double Milliseconds(Duration time) { return ToSeconds(time) * 1000; }

double MedianOf(std::vector<double> values) {
  CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

template <typename Get>
double MedianOf(const std::vector<BenchRun>& runs, const Get& get) {
  std::vector<double> values;
  for (const BenchRun& run : runs) values.push_back(get(run));
  return MedianOf(std::move(values));
}

Latency MedianLatency(const std::vector<BenchRun>& runs, Latency BenchRun::*latency) {
  const auto median = [&](double Latency::*number) {
    return MedianOf(runs, [&](const BenchRun& run) { return run.*latency.*number; });
  };
  return {.mean_ms = median(&Latency::mean_ms),
          .p50_ms = median(&Latency::p50_ms),
          .p99_ms = median(&Latency::p99_ms),
          .max_ms = median(&Latency::max_ms)};
}

StepShape MedianSteps(const std::vector<BenchRun>& runs) {
  const auto median = [&](double StepShape::*number) {
    return MedianOf(runs, [&](const BenchRun& run) { return (*run.steps).*number; });
  };
  return {.max_adapters = median(&StepShape::max_adapters),
          .mean_adapters = median(&StepShape::mean_adapters),
          .mean_rows = median(&StepShape::mean_rows),
          .adapter_loads = median(&StepShape::adapter_loads)};
}

Json ToJson(const Latency& latency) {
  return Json::Object{{"mean_ms", latency.mean_ms},
                      {"p50_ms", latency.p50_ms},
                      {"p99_ms", latency.p99_ms},
                      {"max_ms", latency.max_ms}};
}

Json ToJson(const BenchRun& run) {
  Json::Object object = {{"requests_per_s", run.requests_per_s},
                         {"goodput_per_s", run.goodput_per_s},
                         {"output_tokens_per_s", run.output_tokens_per_s},
                         {"total_tokens_per_s", run.total_tokens_per_s},
                         {"request", ToJson(run.request)},
                         {"first_token", ToJson(run.first_token)},
                         {"between_tokens", ToJson(run.between_tokens)},
                         {"lateness", ToJson(run.lateness)},
                         {"refusal", ToJson(run.refusal)},
                         {"slo_attainment", run.slo_attainment},
                         {"satisfaction", run.satisfaction},
                         {"adapters_asked_for", run.adapters_asked_for},
                         {"requests", run.num_requests},
                         {"refused", run.num_refused},
                         {"errors", run.num_errors}};
  if (run.steps) {
    object.emplace_back("steps", Json::Object{{"max_adapters", run.steps->max_adapters},
                                              {"mean_adapters", run.steps->mean_adapters},
                                              {"mean_rows", run.steps->mean_rows},
                                              {"adapter_loads", run.steps->adapter_loads}});
  }
  if (run.found_in_pool) object.emplace_back("found_in_pool", *run.found_in_pool);
  return object;
}

// The times of all good requests, and of those that were refused.
struct Times {
  std::vector<Duration> refusal;
  std::vector<Duration> request;
  std::vector<Duration> first_token;
  std::vector<Duration> between_tokens;
  std::vector<Duration> lateness;

  void Add(const RequestRecord& record) {
    request.push_back(record.latency());
    first_token.push_back(record.first_token());
    lateness.push_back(record.sent - record.arrival);
    for (size_t i = 1; i < record.chunks.size(); ++i) {
      between_tokens.push_back(record.chunks[i] - record.chunks[i - 1]);
    }
  }
};

}  // namespace

double Satisfaction(Duration first_token, Duration slo) {
  if (first_token >= slo) return 0;
  const double part = ToSeconds(first_token) / ToSeconds(slo);
  return 1 - part * part;
}

Latency Summarize(std::vector<Duration> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const auto percentile = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(times.size())));
    return Milliseconds(times[std::max<size_t>(rank, 1) - 1]);
  };
  const Duration sum = std::accumulate(times.begin(), times.end(), Duration(0));
  return {.mean_ms = Milliseconds(sum) / static_cast<double>(times.size()),
          .p50_ms = percentile(0.5),
          .p99_ms = percentile(0.99),
          .max_ms = Milliseconds(times.back())};
}

BenchRun Summarize(const LoadResult& load, Duration slo) {
  BenchRun run = {.num_requests = static_cast<int64_t>(load.requests.size()),
                  .timeline = MakeTimeline(load)};
  Times times;
  double num_prompt_tokens = 0;
  double num_output_tokens = 0;
  for (const RequestRecord& record : load.requests) {
    if (record.was_refused) {
      ++run.num_refused;
      times.refusal.push_back(record.end - record.sent);
      continue;
    }
    if (!record.is_good()) {
      ++run.num_errors;
      continue;
    }
    times.Add(record);
    num_prompt_tokens += static_cast<double>(record.prompt_tokens);
    num_output_tokens += static_cast<double>(record.output_tokens);
    run.slo_attainment += record.first_token() <= slo ? 1 : 0;
    run.satisfaction += Satisfaction(record.first_token(), slo);
  }
  const double seconds = std::max(ToSeconds(load.wall), 1e-9);
  const auto num_requests = static_cast<double>(std::max<int64_t>(run.num_requests, 1));
  const int64_t num_good = run.num_requests - run.num_errors - run.num_refused;
  run.requests_per_s = static_cast<double>(num_good) / seconds;
  run.goodput_per_s = run.slo_attainment / seconds;
  run.output_tokens_per_s = num_output_tokens / seconds;
  run.total_tokens_per_s = (num_prompt_tokens + num_output_tokens) / seconds;
  run.slo_attainment /= num_requests;
  run.satisfaction /= num_requests;
  run.request = Summarize(std::move(times.request));
  run.first_token = Summarize(std::move(times.first_token));
  run.between_tokens = Summarize(std::move(times.between_tokens));
  run.lateness = Summarize(std::move(times.lateness));
  run.refusal = Summarize(std::move(times.refusal));
  return run;
}

BenchRun Median(const std::vector<BenchRun>& runs) {
  const auto median = [&](double BenchRun::*number) {
    return MedianOf(runs, [&](const BenchRun& run) { return run.*number; });
  };
  BenchRun result = {.requests_per_s = median(&BenchRun::requests_per_s),
                     .goodput_per_s = median(&BenchRun::goodput_per_s),
                     .output_tokens_per_s = median(&BenchRun::output_tokens_per_s),
                     .total_tokens_per_s = median(&BenchRun::total_tokens_per_s),
                     .request = MedianLatency(runs, &BenchRun::request),
                     .first_token = MedianLatency(runs, &BenchRun::first_token),
                     .between_tokens = MedianLatency(runs, &BenchRun::between_tokens),
                     .lateness = MedianLatency(runs, &BenchRun::lateness),
                     .refusal = MedianLatency(runs, &BenchRun::refusal),
                     .slo_attainment = median(&BenchRun::slo_attainment),
                     .satisfaction = median(&BenchRun::satisfaction),
                     .adapters_asked_for = median(&BenchRun::adapters_asked_for),
                     .num_requests = runs.front().num_requests,
                     .timeline = runs.front().timeline};
  for (const BenchRun& run : runs) {
    result.num_errors += run.num_errors;
    result.num_refused += run.num_refused;
  }
  const bool all_tell =
      std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run.steps; });
  if (all_tell) result.steps = MedianSteps(runs);
  const bool all_found =
      std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run.found_in_pool; });
  if (all_found) {
    result.found_in_pool = MedianOf(runs, [](const BenchRun& run) { return *run.found_in_pool; });
  }
  return result;
}

Json ToJson(const std::vector<BenchResult>& results) {
  Json::Array array;
  for (const BenchResult& result : results) {
    Json::Array runs;
    for (const BenchRun& run : result.runs) runs.push_back(ToJson(run));
    array.push_back(Json::Object{{"popularity", result.popularity()},
                                 {"workload", ToJson(result.spec)},
                                 {"median", ToJson(Median(result.runs))},
                                 {"runs", std::move(runs)}});
  }
  return array;
}

}  // namespace aril
