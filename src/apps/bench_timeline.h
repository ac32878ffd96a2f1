// A run over time, as the picture of `--svg` shows it.

#ifndef ARIL_APPS_BENCH_TIMELINE_H_
#define ARIL_APPS_BENCH_TIMELINE_H_

#include <string>
#include <utility>
#include <vector>

#include "apps/bench_load.h"
#include "apps/svg_plot.h"

namespace aril {

// Points of (seconds since the start, value), one for each of some sixty intervals of equal length
// in which there is something to say.
struct Timeline {
  std::vector<PlotPoint> output_tokens_per_s;
  std::vector<PlotPoint> first_token_s;  // mean of the good requests that arrived then
};

Timeline MakeTimeline(const LoadResult& load);

// Two plots, throughput and latency, with a line for each named timeline.
std::vector<LinePlot> TimelinePlots(const std::vector<std::pair<std::string, Timeline>>& timelines);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_TIMELINE_H_
