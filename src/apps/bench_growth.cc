#include "apps/bench_growth.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/output_file.h"
#include "apps/step_timer.h"
#include "apps/svg_plot.h"
#include "apps/text_table.h"
#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

// What grows, and in which row of the table and at which place of the picture a case is.
struct Case {
  const char* grows;
  int64_t value;
  StepCase step;
};

constexpr char kBatch[] = "sequences";
constexpr char kAdapters[] = "adapters";
constexpr char kRank[] = "rank";
constexpr char kContext[] = "context";

class Bench {
 public:
  Bench(const BenchGrowthOptions& options, std::ostream& out, const Clock& clock)
      : options_(options), out_(out), clock_(clock) {}

  Status Run() {
    AddCases();
    int64_t max_tokens = 0;
    for (const Case& each : cases_) max_tokens = std::max(max_tokens, each.step.MaxTokens());
    const StepTimerOptions timer_options = {
        .shape = options_.shape,
        .dtype = options_.dtype,
        .quantization = options_.quantization,
        .isa = options_.isa,
        .threads = options_.threads,
        .adapter_ranks = ranks_,
        .max_sequences = std::max(std::ranges::max(options_.batches), options_.sequences),
        .max_tokens = max_tokens,
        .probe_bytes = options_.probe_bytes};
    ASSIGN_OR_RETURN(const auto timer, StepTimer::Create(timer_options, out_, clock_));
    std::vector<std::vector<StepTiming>> timings(cases_.size());
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      for (size_t i = 0; i < cases_.size(); ++i) {
        ASSIGN_OR_RETURN(const std::optional<StepTiming> timing, timer->Time(cases_[i].step));
        if (!timing) return StepTimer::NoRoomFor(cases_[i].step);
        timings[i].push_back(*timing);
      }
    }
    return Report(timings, timer->limits());
  }

 private:
  void AddCases() {
    const int64_t context = options_.contexts.front();
    const int64_t most = std::ranges::max(options_.batches);
    Adapters(0, std::max(most, options_.sequences), options_.rank);
    const auto add = [&](const char* grows, int64_t value, int64_t sequences, int64_t tokens,
                         std::vector<int32_t> adapters) {
      cases_.push_back({grows,
                        value,
                        {.sequences = sequences,
                         .context = tokens,
                         .adapters = std::move(adapters),
                         .steps = options_.steps}});
    };
    for (const int64_t batch : options_.batches) {
      add(kBatch, batch, batch, context, {});
      add(kBatch, batch, batch, context, Adapters(0, batch, options_.rank));
    }
    for (const int64_t adapters : options_.adapters) {
      add(kAdapters, adapters, most, context, Adapters(0, std::min(adapters, most), options_.rank));
    }
    for (const int64_t rank : options_.ranks) {
      // After those that are there already.
      const int64_t first = rank == options_.rank ? 0 : static_cast<int64_t>(ranks_.size());
      add(kRank, rank, options_.sequences, context, Adapters(first, options_.sequences, rank));
    }
    for (const int64_t tokens : options_.contexts) {
      add(kContext, tokens, options_.sequences, tokens, {});
    }
  }

  // The adapters `first` …, of that rank.
  std::vector<int32_t> Adapters(int64_t first, int64_t count, int64_t rank) {
    std::vector<int32_t> adapters;
    for (int64_t i = first; i < first + count; ++i) {
      adapters.push_back(static_cast<int32_t>(i));
      if (i == static_cast<int64_t>(ranks_.size())) ranks_.push_back(rank);
    }
    return adapters;
  }

  Status Report(const std::vector<std::vector<StepTiming>>& timings, const MachineLimits& limits) {
    std::vector<std::vector<std::string>> lines = {
        {"grows", "to", "sequences", "adapters", "ms", "roofline ms", "of roofline"}};
    Json::Array results;
    std::vector<LinePlot> plots;
    for (const char* grows : {kBatch, kAdapters, kRank, kContext}) {
      plots.push_back({.title = grows,
                       .x_label = grows,
                       .y_label = "ms of a step",
                       .lines = {{"base, measured", {}},
                                 {"base, at best", {}},
                                 {"adapters, measured", {}},
                                 {"adapters, at best", {}}}});
    }
    for (size_t i = 0; i < cases_.size(); ++i) {
      const Case& which = cases_[i];
      std::vector<double> seconds, rooflines, ratios;
      for (const StepTiming& timing : timings[i]) {
        seconds.push_back(timing.seconds);
        rooflines.push_back(timing.roofline);
        ratios.push_back(timing.roofline / timing.seconds);
      }
      const double median = Median(seconds), roofline = Median(rooflines);
      lines.push_back({which.grows, std::to_string(which.value),
                       std::to_string(which.step.sequences),
                       std::to_string(which.step.adapters.size()), Decimal(median * 1e3, 2),
                       Decimal(roofline * 1e3, 2), Decimal(Median(ratios), 2)});
      results.push_back(Json::Object{{"grows", which.grows},
                                     {"to", which.value},
                                     {"sequences", which.step.sequences},
                                     {"adapters", static_cast<int64_t>(which.step.adapters.size())},
                                     {"context", which.step.context},
                                     {"seconds", median},
                                     {"roofline_seconds", roofline},
                                     {"of_roofline", Median(ratios)}});
      const auto plot = std::ranges::find(plots, which.grows, &LinePlot::title);
      const size_t line = which.step.adapters.empty() ? 0 : 2;
      const auto x = static_cast<double>(which.value);
      plot->lines[line].points.push_back({x, median * 1e3});
      plot->lines[line + 1].points.push_back({x, roofline * 1e3});
    }
    out_ << AlignColumns(lines, 1) << std::flush;
    if (!options_.svg_path.empty()) {
      RETURN_IF_ERROR(WriteTextFile("--svg", options_.svg_path, RenderSvg(plots)));
    }
    if (options_.json_path.empty()) return OkStatus();
    const Json json = Json::Object{{"shape", options_.shape},
                                   {"quantization", options_.quantization},
                                   {"limits", limits.ToJson()},
                                   {"passes", options_.passes},
                                   {"results", Json(std::move(results))}};
    return WriteTextFile("--json", options_.json_path, json.Dump() + "\n");
  }

  const BenchGrowthOptions& options_;
  std::ostream& out_;
  const Clock& clock_;
  std::vector<int64_t> ranks_;  // of the adapters
  std::vector<Case> cases_;
};

}  // namespace

Status BenchGrowth(const BenchGrowthOptions& options, std::ostream& out, const Clock& clock) {
  return Bench(options, out, clock).Run();
}

}  // namespace aril
