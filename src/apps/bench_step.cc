#include "apps/bench_step.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/bench_popularity.h"
#include "apps/output_file.h"
#include "apps/step_timer.h"
#include "apps/text_table.h"
#include "base/strings.h"
#include "simulate/step_fit.h"

namespace aril {
namespace {

// One row of the table.
struct Case {
  std::string name;
  StepCase step;
  bool has_room = true;
  std::vector<StepTiming> timings = {};  // of the passes
};

class Bench {
 public:
  Bench(const BenchStepOptions& options, std::ostream& out, const Clock& clock)
      : options_(options), out_(out), clock_(clock) {}

  Status Run() {
    for (const std::string& name : options_.popularities) {
      ASSIGN_OR_RETURN(const Popularity popularity, ParsePopularity(name));
      popularities_.push_back(popularity);
    }
    if (!popularities_.empty() && !options_.step_model_path.empty()) {
      return InvalidArgument(
          "--step-model is fitted to steps of --adapters: leave --popularity out");
    }
    std::vector<Case> cases = Cases();
    // What cannot be fitted is said before anything is measured.
    if (!options_.step_model_path.empty()) RETURN_IF_ERROR(CheckFit(cases));
    RETURN_IF_ERROR(Load(cases));
    RETURN_IF_ERROR(Time(cases));
    const auto begin_of_left_out = std::stable_partition(
        cases.begin(), cases.end(), [](const Case& which) { return which.has_room; });
    const std::vector<Case> left_out(begin_of_left_out, cases.end());
    cases.erase(begin_of_left_out, cases.end());
    if (cases.empty()) return StepTimer::NoRoomFor(left_out.front().step);
    RETURN_IF_ERROR(Report(cases, left_out));
    if (options_.step_model_path.empty()) return OkStatus();
    return WriteStepModel(cases);
  }

 private:
  Status Load(const std::vector<Case>& cases) {
    int64_t max_tokens = 0;
    size_t num_adapters = 0;
    for (const Case& each : cases) {
      max_tokens = std::max(max_tokens, each.step.MaxTokens());
      for (const int32_t adapter : each.step.adapters) {
        num_adapters = std::max(num_adapters, static_cast<size_t>(adapter) + 1);
      }
    }
    StepTimerOptions options = {.shape = options_.shape,
                                .dtype = options_.dtype,
                                .quantization = options_.quantization,
                                .device = options_.device,
                                .isa = options_.isa,
                                .threads = options_.threads,
                                .adapter_ranks = std::vector<int64_t>(num_adapters, options_.rank),
                                .adapter_targets = options_.targets,
                                .max_sequences = std::max({int64_t{1}, options_.num_adapters,
                                                           std::ranges::max(options_.batches)}),
                                .max_tokens = max_tokens,
                                .max_prefill_tokens = std::ranges::max(options_.prefills),
                                .pool_bytes = options_.pool_bytes,
                                .probe_bytes = options_.probe_bytes};
    ASSIGN_OR_RETURN(timer_, StepTimer::Create(options, out_, clock_));
    return OkStatus();
  }

  // What has no room in one pass is left out of the others, too.
  Status Time(std::vector<Case>& cases) {
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      for (Case& which : cases) {
        if (!which.has_room) continue;
        ASSIGN_OR_RETURN(const std::optional<StepTiming> timing, timer_->Time(which.step));
        which.has_room = timing.has_value();
        if (timing) which.timings.push_back(*timing);
      }
    }
    return OkStatus();
  }

  std::vector<Case> Cases() const {
    std::vector<Case> cases;
    for (const int64_t context : options_.contexts) {
      const std::string name =
          options_.contexts.size() == 1 ? "decode" : StrCat("decode at ", context, " tokens");
      for (const int64_t batch : options_.batches) {
        StepCase step = {.sequences = batch, .context = context, .steps = options_.steps};
        cases.push_back({name, step});
        for (const Popularity& popularity : popularities_) {
          step.adapters = AdaptersOf(popularity, batch);
          cases.push_back({StrCat(name, ", ", Name(popularity)), step});
        }
      }
    }
    if (options_.num_adapters > 0 && popularities_.empty()) {
      StepCase step = {.sequences = options_.num_adapters,
                       .context = options_.contexts.front(),
                       .steps = options_.steps};
      for (int32_t i = 0; i < options_.num_adapters; ++i) step.adapters.push_back(i);
      cases.push_back({StrCat("decode, each its adapter of rank ", options_.rank), step});
    }
    for (const int64_t tokens : options_.prefills) {
      if (tokens == 0) continue;
      const std::string name = StrCat("prefill of ", tokens);
      cases.push_back({name, {.prefill_tokens = tokens}});
      if (popularities_.empty()) continue;
      cases.push_back(
          {StrCat(name, ", with an adapter"), {.adapters = {0}, .prefill_tokens = tokens}});
    }
    return cases;
  }

  // Of each of so many sequences; none: the base model.
  static std::vector<int32_t> AdaptersOf(const Popularity& popularity, int64_t sequences) {
    std::vector<int32_t> adapters;
    int32_t adapter = 0;
    for (const int64_t share : AdapterShares(popularity, sequences)) {
      adapters.insert(adapters.end(), static_cast<size_t>(share), adapter++);
    }
    return adapters;
  }

  // `context`: of each sequence. `adapter_bytes`: of one.
  static simulate::StepWork WorkOf(const StepCase& which, int64_t context, int64_t adapter_bytes) {
    if (which.prefill_tokens > 0) return {.prefill_tokens = which.prefill_tokens};
    return {.decodes = which.sequences,
            .context_tokens = which.sequences * context,
            .adapter_bytes = static_cast<int64_t>(which.adapters.size()) * adapter_bytes};
  }

  // Whether steps of these kinds tell the coefficients, whatever they will take.
  Status CheckFit(const std::vector<Case>& cases) const {
    if (options_.passes < 2) {
      return InvalidArgument(
          "--step-model needs --passes 2 or more: what loads take is what the first takes longer");
    }
    std::vector<simulate::MeasuredStep> steps;
    for (const Case& which : cases) {
      // By what was asked for: the lead of the first sequences alone tells too little.
      const simulate::StepWork work = WorkOf(which.step, which.step.context, int64_t{1} << 20);
      steps.push_back({work, ToSeconds(simulate::StepModel().Step(work))});
    }
    return Annotate(simulate::FitStepModel(steps).status(), "--step-model");
  }

  Status WriteStepModel(const std::vector<Case>& cases) {
    // As the simulator counts: whole pages.
    const Engine& engine = timer_->runner().engine();
    const int64_t adapter_bytes = engine.PagesFor(AdapterId(0)) * engine.layout().page_bytes();
    std::vector<simulate::MeasuredStep> steps;
    double load_seconds = 0;  // of all adapters
    for (const Case& which : cases) {
      std::vector<double> seconds, begins;
      for (const StepTiming& timing : which.timings) {
        seconds.push_back(timing.seconds);
        begins.push_back(timing.begin);
      }
      const StepCase& step = which.step;
      steps.push_back({WorkOf(step, step.TimedContext(), adapter_bytes), Median(seconds)});
      if (step.adapters.empty() || begins.size() < 2) continue;
      // They are loaded in the first pass, within its first steps, and stay.
      const double first = begins.front();
      begins.erase(begins.begin());
      load_seconds = std::max(0.0, first - Median(begins));
    }
    auto fit = simulate::FitStepModel(steps);
    if (!fit.ok()) return Annotate(fit.status(), "--step-model");
    fit->model.load_latency = 0;
    fit->model.load_byte =
        load_seconds / static_cast<double>(options_.num_adapters * adapter_bytes);
    out_ << "step model: within " << Decimal(fit->worst_error * 100, 1)
         << " % of each of these steps" << std::endl;
    return WriteTextFile("--step-model", options_.step_model_path,
                         fit->model.ToJson().Dump() + "\n");
  }

  Status Report(const std::vector<Case>& cases, const std::vector<Case>& left_out) {
    std::vector<std::vector<std::string>> lines = {
        {"step", "sequences", "ms", "tok/s", "roofline ms", "of roofline", "worst", "best"}};
    Json::Array results;
    for (const Case& which : cases) {
      std::vector<double> seconds, rooflines, ratios;
      for (const StepTiming& timing : which.timings) {
        seconds.push_back(timing.seconds);
        rooflines.push_back(timing.roofline);
        ratios.push_back(timing.roofline / timing.seconds);
      }
      const auto [worst, best] = std::minmax_element(ratios.begin(), ratios.end());
      const double median = Median(seconds);
      const StepLoad load = timer_->LoadOf(which.step);
      const auto tokens = static_cast<double>(load.num_rows());
      lines.push_back({which.name, std::to_string(which.step.sequences), Decimal(median * 1e3, 2),
                       Decimal(tokens / median, 1), Decimal(Median(rooflines) * 1e3, 2),
                       Decimal(Median(ratios), 2), Decimal(*worst, 2), Decimal(*best, 2)});
      results.push_back(Json::Object{{"step", which.name},
                                     {"sequences", which.step.sequences},
                                     {"context", which.step.context},
                                     {"bytes", timer_->BytesOf(load)},
                                     {"seconds", median},
                                     {"roofline_seconds", Median(rooflines)},
                                     {"of_roofline", Median(ratios)}});
    }
    const MachineLimits& limits = timer_->limits();
    out_ << "read " << Decimal(limits.read_bytes_per_s / 1e9, 1) << " GB/s, fp32 "
         << Decimal(limits.f32_per_s / 1e9, 0) << " GFLOP/s, bf16 "
         << Decimal(limits.bf16_per_s / 1e9, 0) << " GFLOP/s at the start\n"
         << AlignColumns(lines, 1);
    Json::Array without_room;
    for (const Case& which : left_out) {
      out_ << "left out, as the pool has no room for it: " << which.name << ", "
           << which.step.sequences << " sequences\n";
      without_room.push_back(Json::Object{{"step", which.name},
                                          {"sequences", which.step.sequences},
                                          {"context", which.step.context}});
    }
    out_ << std::flush;
    if (options_.json_path.empty()) return OkStatus();
    const Json json = Json::Object{{"shape", options_.shape},
                                   {"quantization", options_.quantization},
                                   {"limits", limits.ToJson()},
                                   {"passes", options_.passes},
                                   {"results", Json(std::move(results))},
                                   {"left_out", Json(std::move(without_room))}};
    return WriteTextFile("--json", options_.json_path, json.Dump() + "\n");
  }

  const BenchStepOptions& options_;
  std::ostream& out_;
  const Clock& clock_;
  std::vector<Popularity> popularities_;
  std::unique_ptr<StepTimer> timer_;
};

}  // namespace

Status BenchStep(const BenchStepOptions& options, std::ostream& out, const Clock& clock) {
  return Bench(options, out, clock).Run();
}

}  // namespace aril
