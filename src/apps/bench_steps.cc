#include "apps/bench_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace aril {
namespace {

// The histogram has a bucket for each count up to this, and wider ones above.
constexpr double kMaxExactCount = 32;

// How many adapters the first steps must hold, or nullopt if the workload leaves it open. All
// clients of a closed loop start at once, and with answers of one length none leaves much earlier
// than another, so that at some step every adapter of a block must have been there.
std::optional<int64_t> ExpectedAdapters(const WorkloadSpec& spec, const Workload& workload) {
  const bool is_known = !spec.is_open() && !spec.has_trace_adapters() &&
                        !spec.has_trace_lengths() && spec.lengths.is_fixed() &&
                        spec.popularity.kind != PopularityKind::kPower;
  if (!is_known) return std::nullopt;
  const auto num_requests = static_cast<int64_t>(workload.requests.size());
  const int64_t in_flight = std::min(workload.num_clients, num_requests);
  return static_cast<int64_t>(AdapterShares(spec.popularity, in_flight).size());
}

std::string JudgeExactly(const StepShape& steps, int64_t expected) {
  const auto count = static_cast<double>(expected);
  const bool is_in_wide_bucket = count > kMaxExactCount && steps.max_adapters > count;
  if (steps.max_adapters == count || is_in_wide_bucket) return "";
  return StrCat("at most ", steps.max_adapters, " adapters shared a step, and ", expected,
                " should have: is --max-num-seqs below --concurrency, are there too few output "
                "tokens, or is somebody else using the server?");
}

}  // namespace

std::optional<StepScrape> ScrapeSteps(const BenchTarget& target) {
  const auto text = target.Fetch("/metrics");
  if (!text.ok()) return std::nullopt;
  const std::vector<MetricSample> samples = ParseMetrics(*text);
  auto adapters = FindHistogram(samples, "aril_step_adapters");
  auto rows = FindHistogram(samples, "aril_step_rows");
  if (!adapters || !rows) return std::nullopt;
  // It comes with the first step.
  const double loads = FindValue(samples, "aril_adapter_loads_total").value_or(0);
  return StepScrape{*std::move(adapters), *std::move(rows), loads};
}

std::optional<StepShape> StepsBetween(const std::optional<StepScrape>& before,
                                      const std::optional<StepScrape>& after) {
  if (!before || !after) return std::nullopt;
  const HistogramChange adapters = Difference(before->adapters, after->adapters);
  // A cluster's gateway: its runners have steps, and not it.
  if (adapters.count == 0) return std::nullopt;
  return StepShape{.max_adapters = adapters.max,
                   .mean_adapters = adapters.mean,
                   .mean_rows = Difference(before->rows, after->rows).mean,
                   .adapter_loads = after->adapter_loads - before->adapter_loads};
}

std::string JudgeSteps(const StepShape& steps, const WorkloadSpec& spec, const Workload& workload) {
  if (const auto expected = ExpectedAdapters(spec, workload)) return JudgeExactly(steps, *expected);
  const int64_t asked_for = CountAdapters(workload);
  if (asked_for > 0 && steps.mean_adapters == 0) {
    return StrCat("no step held an adapter, and ", asked_for, " were asked for");
  }
  if (steps.mean_adapters <= static_cast<double>(asked_for)) return "";
  return StrCat("a step held ", steps.mean_adapters, " adapters on average, and only ", asked_for,
                " were asked for: is somebody else using the server?");
}

}  // namespace aril
