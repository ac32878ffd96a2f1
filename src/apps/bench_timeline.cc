#include "apps/bench_timeline.h"

#include <algorithm>

#include "apps/bench_numbers.h"

namespace aril {
namespace {

constexpr size_t kNumBins = 60;

// Intervals of equal length over the time of a run.
class Bins {
 public:
  explicit Bins(Duration wall)
      : width_s_(std::max(ToSeconds(wall), 1e-9) / kNumBins), sums_(kNumBins), counts_(kNumBins) {}

  void Add(Duration time, double value) {
    const double bin = std::clamp(ToSeconds(time) / width_s_, 0.0, kNumBins - 1.0);
    sums_[static_cast<size_t>(bin)] += value;
    counts_[static_cast<size_t>(bin)] += 1;
  }

  std::vector<PlotPoint> PerSecond() const {
    std::vector<PlotPoint> points;
    for (size_t i = 0; i < kNumBins; ++i) points.push_back({Middle(i), sums_[i] / width_s_});
    return points;
  }

  // Of the bins that have a value.
  std::vector<PlotPoint> Means() const {
    std::vector<PlotPoint> points;
    for (size_t i = 0; i < kNumBins; ++i) {
      if (counts_[i] > 0) points.push_back({Middle(i), sums_[i] / counts_[i]});
    }
    return points;
  }

 private:
  double Middle(size_t bin) const { return (static_cast<double>(bin) + 0.5) * width_s_; }

  double width_s_;
  std::vector<double> sums_;
  std::vector<double> counts_;
};

}  // namespace

Timeline MakeTimeline(const LoadResult& load) {
  Bins tokens(load.wall);
  Bins first_token(load.wall);
  for (const RequestRecord& request : load.requests) {
    if (!request.is_good()) continue;
    first_token.Add(request.arrival, ToSeconds(request.first_token()));
    // A chunk may hold several tokens, and does not say how many.
    const double tokens_per_chunk =
        static_cast<double>(request.output_tokens) / static_cast<double>(request.chunks.size());
    for (const Duration time : request.chunks) tokens.Add(time, tokens_per_chunk);
  }
  return {.output_tokens_per_s = tokens.PerSecond(), .first_token_s = first_token.Means()};
}

std::vector<LinePlot> TimelinePlots(
    const std::vector<std::pair<std::string, Timeline>>& timelines) {
  LinePlot throughput = {
      .title = "Throughput", .x_label = "time (s)", .y_label = "output tokens/s", .lines = {}};
  LinePlot latency = {.title = "Time to first token, by arrival",
                      .x_label = "time of arrival (s)",
                      .y_label = "mean (s)",
                      .lines = {}};
  for (const auto& [name, timeline] : timelines) {
    throughput.lines.push_back({name, timeline.output_tokens_per_s});
    latency.lines.push_back({name, timeline.first_token_s});
  }
  return {std::move(throughput), std::move(latency)};
}

}  // namespace aril
