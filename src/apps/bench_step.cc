#include "apps/bench_step.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/bench_synthetic.h"
#include "apps/machine_limits.h"
#include "apps/output_file.h"
#include "apps/step_roofline.h"
#include "apps/text_table.h"
#include "base/strings.h"
#include "runner/local_runner.h"
#include "simulate/step_fit.h"

namespace aril {
namespace {

// Long enough to tell a slow phase of the host's memory from a fast one.
constexpr Duration kProbeDuration = std::chrono::milliseconds(200);

// One row of the table.
struct Case {
  std::string name;
  int64_t sequences = 1;
  int64_t context = 0;  // of each, before the first timed step
  bool adapters = false;
  bool prefill = false;
};

// What one pass found for a case.
struct Timing {
  double seconds = 0;   // of a step, the median of the pass
  double roofline = 0;  // with the bandwidth probed before and after
  double begin = 0;     // of the steps up to the first that only decodes
};

class Bench {
 public:
  Bench(const BenchStepOptions& options, std::ostream& out, const Clock& clock)
      : options_(options), out_(out), clock_(clock) {}

  Status Run() {
    const std::vector<Case> cases = Cases();
    // What cannot be fitted is said before anything is measured.
    if (!options_.step_model_path.empty()) RETURN_IF_ERROR(CheckFit(cases));
    RETURN_IF_ERROR(Load());
    std::vector<std::vector<Timing>> timings(cases.size());
    kernels::CpuContext context(*probe_threads_, isa_);
    MachineProbe probe(context, clock_, options_.probe_bytes);
    limits_ = probe.Measure(kProbeDuration);
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      for (size_t i = 0; i < cases.size(); ++i) {
        ASSIGN_OR_RETURN(const Timing timing, RunCase(cases[i], probe));
        timings[i].push_back(timing);
      }
    }
    RETURN_IF_ERROR(Report(cases, timings));
    if (options_.step_model_path.empty()) return OkStatus();
    return WriteStepModel(cases, timings);
  }

 private:
  Status Load() {
    out_ << "making " << options_.shape << " with random weights" << std::endl;
    ASSIGN_OR_RETURN(isa_, kernels::ChooseIsa(options_.isa));
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    probe_threads_ = std::make_unique<ThreadPool>(options_.threads > 0 ? options_.threads : cores);
    ASSIGN_OR_RETURN(files_, SyntheticFiles::Create({.shape = options_.shape,
                                                     .num_adapters = options_.num_adapters,
                                                     .ranks = {options_.rank}},
                                                    *probe_threads_));
    LocalRunnerOptions runner;
    runner.model_dir = files_->model_dir();
    runner.adapter_dirs = files_->adapter_dirs();
    runner.dtype = options_.dtype;
    runner.quantization = options_.quantization;
    runner.isa = options_.isa;
    runner.threads = probe_threads_->num_threads();
    runner.enable_prefix_caching = false;  // prompts repeat, and are to be computed
    runner.run_aside = Residency::AtOnce;  // no step is to be without rows
    runner.max_num_seqs = std::max<int64_t>(1, options_.num_adapters);
    for (const int64_t batch : options_.batches) {
      runner.max_num_seqs = std::max(runner.max_num_seqs, batch);
    }
    runner.max_num_batched_tokens =
        std::max({runner.max_num_seqs, options_.prefill_tokens, int64_t{512}});
    runner.max_model_len = std::max(std::ranges::max(options_.contexts) + options_.steps + 2,
                                    options_.prefill_tokens + 1);
    ASSIGN_OR_RETURN(runner_, LocalRunner::Create(runner, clock_));
    out_ << runner_->Description() << std::endl;
    return OkStatus();
  }

  std::vector<Case> Cases() const {
    std::vector<Case> cases;
    for (const int64_t context : options_.contexts) {
      for (const int64_t batch : options_.batches) {
        cases.push_back({.name = options_.contexts.size() == 1
                                     ? "decode"
                                     : StrCat("decode at ", context, " tokens"),
                         .sequences = batch,
                         .context = context});
      }
    }
    if (options_.num_adapters > 0) {
      cases.push_back({.name = StrCat("decode, each its adapter of rank ", options_.rank),
                       .sequences = options_.num_adapters,
                       .context = options_.contexts.front(),
                       .adapters = true});
    }
    if (options_.prefill_tokens > 0) {
      cases.push_back({.name = StrCat("prefill of ", options_.prefill_tokens), .prefill = true});
    }
    return cases;
  }

  // In the middle of the timed steps.
  int64_t TimedContext(const Case& which) const { return which.context + options_.steps / 2; }

  StepLoad LoadOf(const Case& which) const {
    StepLoad load;
    if (which.prefill) {
      load.sequences = {{.rows = options_.prefill_tokens, .context = options_.prefill_tokens}};
      return load;
    }
    load.sequences.assign(static_cast<size_t>(which.sequences),
                          {.rows = 1, .context = TimedContext(which)});
    if (which.adapters) {
      load.adapters.assign(static_cast<size_t>(which.sequences),
                           {.rank = options_.rank, .rows = 1});
    }
    return load;
  }

  StatusOr<Timing> RunCase(const Case& which, MachineProbe& probe) {
    const int64_t num_steps = which.prefill ? 1 : options_.steps;
    const int64_t prompt = which.prefill ? options_.prefill_tokens : which.context;
    Engine& engine = runner_->engine();
    const TimePoint begin = clock_.Now();
    for (int64_t i = 0; i < which.sequences; ++i) {
      wire::SequenceRequest request = SyntheticRequest(runner_->spec().vocab_size, i,
                                                       which.adapters ? AdapterId(i) : kBaseModel,
                                                       prompt, which.prefill ? 1 : num_steps + 1);
      request.sequence = SequenceId(next_id_++);
      ASSIGN_OR_RETURN(AcceptedSequence accepted, engine.Accept(std::move(request)));
      engine.Add(std::move(accepted));
    }
    // Up to the first step that only decodes.
    if (!which.prefill) {
      int64_t first_tokens = 0;
      while (first_tokens < which.sequences) {
        for (const wire::TokenEvent& event : engine.Step()) {
          if (event.index == 0) ++first_tokens;
        }
      }
    }
    const double begin_seconds = ToSeconds(clock_.Now() - begin);
    const double before = probe.ReadBytesPerSecond(kProbeDuration / 2);
    std::vector<double> seconds;
    while (engine.HasWork()) {
      const TimePoint start = clock_.Now();
      engine.Step();
      const double step = ToSeconds(clock_.Now() - start);
      // The first sequences may be some tokens ahead, and end before the others.
      if (which.prefill || engine.Stats().num_rows == which.sequences) seconds.push_back(step);
    }
    const double after = probe.ReadBytesPerSecond(kProbeDuration / 2);
    if (seconds.empty()) return Internal("no step held all sequences; raise --steps");
    MachineLimits limits = limits_;
    limits.read_bytes_per_s = (before + after) / 2;
    return Timing{.seconds = Median(std::move(seconds)),
                  .roofline = StepSeconds(Costs(which, limits)),
                  .begin = begin_seconds};
  }

  std::vector<OperatorCost> Costs(const Case& which, const MachineLimits& limits) const {
    const DType dtype = runner_->engine().layout().dtype;
    const bool is_int8 = options_.quantization == "int8";
    return StepCosts(runner_->spec(), {.matrices = is_int8 ? DType::kI8 : dtype, .others = dtype},
                     LoadOf(which), limits);
  }

  // `adapter_bytes`: of one.
  simulate::StepWork WorkOf(const Case& which, int64_t adapter_bytes) const {
    if (which.prefill) return {.prefill_tokens = options_.prefill_tokens};
    return {.decodes = which.sequences,
            .context_tokens = which.sequences * TimedContext(which),
            .adapter_bytes = which.adapters ? which.sequences * adapter_bytes : 0};
  }

  // Whether steps of these kinds tell the coefficients, whatever they will take.
  Status CheckFit(const std::vector<Case>& cases) const {
    if (options_.passes < 2) {
      return InvalidArgument(
          "--step-model needs --passes 2 or more: what loads take is what the first takes longer");
    }
    std::vector<simulate::MeasuredStep> steps;
    for (const Case& which : cases) {
      const simulate::StepWork work = WorkOf(which, int64_t{1} << 20);
      steps.push_back({work, ToSeconds(simulate::StepModel().Step(work))});
    }
    return Annotate(simulate::FitStepModel(steps).status(), "--step-model");
  }

  Status WriteStepModel(const std::vector<Case>& cases,
                        const std::vector<std::vector<Timing>>& timings) {
    // As the simulator counts: whole pages.
    const int64_t adapter_bytes =
        runner_->engine().PagesFor(AdapterId(0)) * runner_->engine().layout().page_bytes();
    std::vector<simulate::MeasuredStep> steps;
    double load_seconds = 0;  // of all adapters
    for (size_t i = 0; i < cases.size(); ++i) {
      std::vector<double> seconds, begins;
      for (const Timing& timing : timings[i]) {
        seconds.push_back(timing.seconds);
        begins.push_back(timing.begin);
      }
      steps.push_back({WorkOf(cases[i], adapter_bytes), Median(seconds)});
      if (!cases[i].adapters || begins.size() < 2) continue;
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

  Status Report(const std::vector<Case>& cases, const std::vector<std::vector<Timing>>& timings) {
    std::vector<std::vector<std::string>> lines = {
        {"step", "sequences", "ms", "tok/s", "roofline ms", "of roofline", "worst", "best"}};
    Json::Array results;
    for (size_t i = 0; i < cases.size(); ++i) {
      std::vector<double> seconds, rooflines, ratios;
      for (const Timing& timing : timings[i]) {
        seconds.push_back(timing.seconds);
        rooflines.push_back(timing.roofline);
        ratios.push_back(timing.roofline / timing.seconds);
      }
      const auto [worst, best] = std::minmax_element(ratios.begin(), ratios.end());
      const double median = Median(seconds);
      const auto tokens = static_cast<double>(LoadOf(cases[i]).num_rows());
      lines.push_back({cases[i].name, std::to_string(cases[i].sequences), Decimal(median * 1e3, 2),
                       Decimal(tokens / median, 1), Decimal(Median(rooflines) * 1e3, 2),
                       Decimal(Median(ratios), 2), Decimal(*worst, 2), Decimal(*best, 2)});
      results.push_back(Json::Object{{"step", cases[i].name},
                                     {"sequences", cases[i].sequences},
                                     {"context", cases[i].context},
                                     {"seconds", median},
                                     {"roofline_seconds", Median(rooflines)},
                                     {"of_roofline", Median(ratios)}});
    }
    out_ << "read " << Decimal(limits_.read_bytes_per_s / 1e9, 1) << " GB/s, fp32 "
         << Decimal(limits_.f32_per_s / 1e9, 0) << " GFLOP/s, bf16 "
         << Decimal(limits_.bf16_per_s / 1e9, 0) << " GFLOP/s at the start\n"
         << AlignColumns(lines, 1) << std::flush;
    if (options_.json_path.empty()) return OkStatus();
    const Json json = Json::Object{{"shape", options_.shape},
                                   {"quantization", options_.quantization},
                                   {"limits", limits_.ToJson()},
                                   {"passes", options_.passes},
                                   {"results", Json(std::move(results))}};
    return WriteTextFile("--json", options_.json_path, json.Dump() + "\n");
  }

  const BenchStepOptions& options_;
  std::ostream& out_;
  const Clock& clock_;
  kernels::Isa isa_ = kernels::Isa::kPortable;
  std::unique_ptr<ThreadPool> probe_threads_;
  std::unique_ptr<SyntheticFiles> files_;
  std::unique_ptr<LocalRunner> runner_;
  MachineLimits limits_;
  int64_t next_id_ = 0;
};

}  // namespace

Status BenchStep(const BenchStepOptions& options, std::ostream& out, const Clock& clock) {
  return Bench(options, out, clock).Run();
}

}  // namespace aril
