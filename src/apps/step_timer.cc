#include "apps/step_timer.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/synth_adapters.h"
#include "base/strings.h"

namespace aril {
namespace {

// Long enough to tell a slow phase of the host's memory from a fast one.
constexpr Duration kProbeDuration = std::chrono::milliseconds(200);
// Some turns of the arithmetic's loops.
constexpr Duration kPeakDuration = std::chrono::milliseconds(20);

}  // namespace

StatusOr<std::unique_ptr<StepTimer>> StepTimer::Create(const StepTimerOptions& options,
                                                       std::ostream& out, const Clock& clock) {
  std::unique_ptr<StepTimer> timer(new StepTimer(options, clock));
  RETURN_IF_ERROR(timer->Load(out));
  return timer;
}

Status StepTimer::Load(std::ostream& out) {
  out << "making " << options_.shape << " with random weights" << std::endl;
  ASSIGN_OR_RETURN(isa_, kernels::ChooseIsa(options_.isa));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  threads_ = std::make_unique<ThreadPool>(options_.threads > 0 ? options_.threads : cores);
  const int64_t max_tokens = std::max(options_.max_tokens, options_.max_prefill_tokens + 1);
  ASSIGN_OR_RETURN(files_, SyntheticFiles::Create(
                               {.shape = options_.shape,
                                .min_positions = max_tokens,
                                .num_adapters = static_cast<int64_t>(options_.adapter_ranks.size()),
                                .ranks = options_.adapter_ranks,
                                .targets = options_.adapter_targets},
                               *threads_));
  LocalRunnerOptions runner;
  runner.model_dir = files_->model_dir();
  runner.adapter_dirs = files_->adapter_dirs();
  runner.dtype = options_.dtype;
  runner.quantization = options_.quantization;
  runner.device = options_.device;
  runner.isa = options_.isa;
  runner.threads = threads_->num_threads();
  runner.enable_prefix_caching = false;  // prompts repeat, and are to be computed
  runner.run_aside = Residency::AtOnce;  // no step is to be without rows
  runner.max_num_seqs = options_.max_sequences;
  runner.max_num_batched_tokens =
      std::max(options_.max_sequences + StepCase::kPromptRows, options_.max_prefill_tokens);
  runner.max_model_len = max_tokens;
  runner.pool_bytes = options_.pool_bytes;
  ASSIGN_OR_RETURN(runner_, LocalRunner::Create(runner, clock_));
  out << runner_->Description() << std::endl;
  if (options_.device != "cpu") {
    ASSIGN_OR_RETURN(gpu_probe_, GpuProbe::Create());
    ASSIGN_OR_RETURN(limits_, gpu_probe_->Measure());
    return OkStatus();
  }
  context_ = std::make_unique<kernels::CpuContext>(*threads_, isa_);
  probe_ = std::make_unique<MachineProbe>(*context_, clock_, options_.probe_bytes);
  limits_ = probe_->Measure(kProbeDuration);
  return OkStatus();
}

StatusOr<double> StepTimer::BytesPerSecond() {
  if (gpu_probe_ != nullptr) return gpu_probe_->BytesPerSecond();
  return probe_->ReadBytesPerSecond(kProbeDuration / 2);
}

StepLoad StepTimer::LoadOf(const StepCase& which) const {
  const bool is_prefill = which.prefill_tokens > 0;
  const StepLoad::SequenceLoad each = {
      .rows = is_prefill ? which.prefill_tokens : 1,
      .context = is_prefill ? which.prefill_tokens : which.TimedContext()};
  StepLoad load;
  load.sequences.assign(static_cast<size_t>(which.sequences), each);
  std::map<int32_t, int64_t> rows;
  for (int64_t i = 0; i < which.sequences && !which.adapters.empty(); ++i) {
    rows[which.adapters[static_cast<size_t>(i) % which.adapters.size()]] += each.rows;
  }
  for (const auto& [adapter, num_rows] : rows) {
    load.adapters.push_back(
        {.rank = options_.adapter_ranks[static_cast<size_t>(adapter)], .rows = num_rows});
  }
  if (!AreAllLinear(options_.adapter_targets)) load.adapter_targets = options_.adapter_targets;
  return load;
}

Status StepTimer::NoRoomFor(const StepCase& which) {
  return FailedPrecondition(StrCat("memory has no room for the KV cache of ", which.sequences,
                                   " sequences of ", which.MaxTokens(),
                                   " tokens; ask for fewer sequences or a shorter context"));
}

// That the last timed step uses, even if no sequence were ahead of the others.
int64_t StepTimer::LeastPages(const StepCase& which) const {
  const Engine& engine = runner_->engine();
  const int64_t tokens =
      which.prefill_tokens > 0 ? which.prefill_tokens : which.context + which.steps;
  int64_t pages = which.sequences * engine.layout().pages().For(tokens);
  const size_t num_used = std::min(which.adapters.size(), static_cast<size_t>(which.sequences));
  const std::set<int32_t> used(which.adapters.begin(),
                               which.adapters.begin() + static_cast<std::ptrdiff_t>(num_used));
  for (const int32_t adapter : used) pages += engine.PagesFor(AdapterId(adapter));
  return pages;
}

StatusOr<std::optional<StepTiming>> StepTimer::Time(const StepCase& which) {
  const bool is_prefill = which.prefill_tokens > 0;
  const int64_t prompt = is_prefill ? which.prefill_tokens : which.context;
  Engine& engine = runner_->engine();
  if (LeastPages(which) > engine.Stats().pages_total) return std::nullopt;
  // A GPU may be running the step after a timed one: its bandwidth is measured while it has none.
  double before = 0;
  if (gpu_probe_ != nullptr) {
    ASSIGN_OR_RETURN(before, BytesPerSecond());
  } else {
    probe_->RaisePeaks(kPeakDuration, &limits_);
  }
  const TimePoint begin = clock_.Now();
  for (int64_t i = 0; i < which.sequences; ++i) {
    const AdapterId adapter =
        which.adapters.empty()
            ? kBaseModel
            : AdapterId(which.adapters[static_cast<size_t>(i) % which.adapters.size()]);
    wire::SequenceRequest request =
        SyntheticRequest(runner_->spec().vocab_size, i, adapter, prompt,
                         is_prefill ? 1 : which.MaxTokens() - which.context);
    request.sequence = SequenceId(next_id_++);
    ASSIGN_OR_RETURN(AcceptedSequence accepted, engine.Accept(std::move(request)));
    engine.Add(std::move(accepted));
  }
  // Up to the first step that only decodes.
  for (int64_t first_tokens = 0; !is_prefill && first_tokens < which.sequences;) {
    for (const wire::TokenEvent& event : engine.Step()) first_tokens += event.index == 0 ? 1 : 0;
  }
  const double begin_seconds = ToSeconds(clock_.Now() - begin);
  if (gpu_probe_ == nullptr) {
    ASSIGN_OR_RETURN(before, BytesPerSecond());
  }
  std::vector<double> seconds;
  bool has_room = true;
  for (int64_t step = 0; step < which.steps && has_room; ++step) {
    const TimePoint start = clock_.Now();
    engine.Step();
    const int32_t num_rows = engine.Stats().num_rows;
    // A device may only have been given the step. Where steps follow each other, each is given
    // while it runs the one before: they take as long.
    while (is_prefill && engine.HasWork()) engine.Step();
    seconds.push_back(ToSeconds(clock_.Now() - start));
    has_room = num_rows == (is_prefill ? prompt : which.sequences);
  }
  double after = before;
  if (gpu_probe_ == nullptr) {
    ASSIGN_OR_RETURN(after, BytesPerSecond());
  }
  for (int64_t i = 1; i <= which.sequences; ++i) engine.Cancel(SequenceId(next_id_ - i));
  while (engine.HasWork()) engine.Step();
  if (!has_room) return std::nullopt;
  if (gpu_probe_ != nullptr) {
    ASSIGN_OR_RETURN(after, BytesPerSecond());
  }
  return StepTiming{.seconds = Median(std::move(seconds)),
                    .roofline = Roofline(LoadOf(which), (before + after) / 2),
                    .begin = begin_seconds};
}

std::vector<OperatorCost> StepTimer::CostsOf(const StepLoad& load, double bytes_per_s) const {
  MachineLimits limits = limits_;
  limits.read_bytes_per_s = bytes_per_s;
  // FP16, of a GPU, costs what BF16 does.
  const bool is_f32 = runner_->engine().layout().dtype == DType::kF32;
  // On a GPU codes are the numbers that they stand for.
  const bool are_numbers = gpu_probe_ != nullptr && runner_->quantization() == Quantization::kNf4;
  const Quantization quantization = are_numbers ? Quantization::kNone : runner_->quantization();
  const auto format = [&](MatrixRole role) {
    return FormatFor(role, is_f32 ? DType::kF32 : DType::kBF16, quantization);
  };
  return StepCosts(runner_->spec(),
                   {.layers = format(MatrixRole::kLayer),
                    .lm_head = format(MatrixRole::kLmHead),
                    .others = format(MatrixRole::kUnrounded)},
                   load, limits);
}

double StepTimer::Roofline(const StepLoad& load, double bytes_per_s) const {
  return StepSeconds(CostsOf(load, bytes_per_s));
}

double StepTimer::BytesOf(const StepLoad& load) const {
  double bytes = 0;
  for (const OperatorCost& cost : CostsOf(load, limits_.read_bytes_per_s)) bytes += cost.bytes;
  return bytes;
}

}  // namespace aril
