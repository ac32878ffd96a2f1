#include "apps/simulate_fig13.h"

#include <cmath>
#include <utility>

#include "apps/bench_lengths.h"
#include "apps/bench_numbers.h"
#include "apps/bench_random.h"
#include "apps/bench_trace.h"
#include "apps/output_file.h"
#include "base/json.h"

namespace aril {

StatusOr<std::vector<simulate::TraceRequest>> Fig13Requests(const SimulateFig13Options& options) {
  BenchRandom arrivals(options.cluster.seed, RandomStream::kArrivals);
  BenchRandom lengths(options.cluster.seed, RandomStream::kLengths);
  const double end = ToSeconds(options.duration);
  std::vector<simulate::TraceRequest> requests;
  // Thinning: of a process at the peak rate, what the present rate has of it.
  for (double t = arrivals.Exponential() / options.peak_rate; t < end;
       t += arrivals.Exponential() / options.peak_rate) {
    const double share = 1 - std::abs(2 * t / end - 1);
    if (arrivals.Uniform() >= share) continue;
    const RequestLengths drawn = DrawLengths({.punica_max_total = options.max_tokens}, lengths);
    requests.push_back({.arrival = ToDuration(t),
                        .prompt_tokens = drawn.prompt_tokens,
                        .output_tokens = drawn.output_tokens});
  }
  RETURN_IF_ERROR(GiveSkewedAdapters(options.cluster, &requests));
  return requests;
}

namespace {

std::vector<TraceRequest> Record(const std::vector<simulate::TraceRequest>& requests) {
  std::vector<TraceRequest> recorded;
  for (const simulate::TraceRequest& request : requests) {
    recorded.push_back({.arrival = request.arrival,
                        .adapter = request.adapter,
                        .prompt_tokens = request.prompt_tokens,
                        .output_tokens = request.output_tokens});
  }
  return recorded;
}

}  // namespace

Status SimulateFig13(const SimulateFig13Options& options, std::ostream& out) {
  ASSIGN_OR_RETURN(std::vector<simulate::TraceRequest> requests, Fig13Requests(options));
  if (!options.save_trace_path.empty()) {
    RETURN_IF_ERROR(
        WriteTextFile("--save-trace", options.save_trace_path, ToCsv(Record(requests))));
  }
  return CompareClusters(options.cluster, std::move(requests), options.duration,
                         {{"peak_rate", options.peak_rate}}, out);
}

}  // namespace aril
