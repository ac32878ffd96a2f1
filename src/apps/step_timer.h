// Steps of the engine on random weights: what they take, and what they could take at best.

#ifndef ARIL_APPS_STEP_TIMER_H_
#define ARIL_APPS_STEP_TIMER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "apps/bench_synthetic.h"
#include "apps/gpu_limits.h"
#include "apps/machine_limits.h"
#include "apps/step_roofline.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "runner/local_runner.h"

namespace aril {

struct StepTimerOptions {
  std::string shape;  // synth_shapes.h
  std::string dtype = "auto";
  std::string quantization = "none";
  std::string device = "cpu";  // or cuda
  std::string isa = "auto";
  int threads = 0;                     // 0: one per core
  std::vector<int64_t> adapter_ranks;  // of adapter 0, 1, …
  std::vector<std::string> adapter_targets = SyntheticOptions().targets;
  int64_t max_sequences = 1;  // that decode together
  int64_t max_tokens = 1;     // of a sequence, with what it generates
  int64_t max_prefill_tokens = 0;
  std::optional<int64_t> pool_bytes;                // nullopt: what the device has, as for a server
  size_t probe_bytes = MachineProbe::kMemoryBytes;  // of the bandwidth probe
};

// A kind of step.
struct StepCase {
  int64_t sequences = 1;  // that decode, in turns with each of `adapters`; none: the base model
  int64_t context = 0;    // tokens of each before the first timed step
  std::vector<int32_t> adapters;
  int64_t prefill_tokens = 0;  // above 0: instead, one sequence computes its prompt of so many
  int64_t steps = 1;           // timed ones

  // Of each step, left for prompts, at least.
  static constexpr int64_t kPromptRows = 256;

  // In which prompts are computed, at most.
  int64_t PromptSteps() const { return CeilDiv(sequences * context, kPromptRows); }
  // Of a sequence at its end: the first to begin goes on until the last has had its timed steps.
  int64_t MaxTokens() const { return context + 1 + PromptSteps() + steps; }
  // In the middle of the timed steps, the mean over the sequences: the first has generated a token
  // in each step of the others' prompts, the last none.
  int64_t TimedContext() const {
    const int64_t lead = PromptSteps() * (sequences - 1) / sequences;
    return context + (lead + steps) / 2;
  }
};

struct StepTiming {
  double seconds = 0;   // of a step, the median
  double roofline = 0;  // with the bandwidth probed before and after
  double begin = 0;     // of the steps up to the first that only decodes
};

// Used by one thread.
class StepTimer {
 public:
  // Makes the model and the adapters in a temporary folder, loads them, and measures the limits.
  // The clock must outlive it.
  static StatusOr<std::unique_ptr<StepTimer>> Create(const StepTimerOptions& options,
                                                     std::ostream& out, const Clock& clock);

  // nullopt: the pool has no room for all its sequences at once. Far too many are turned away
  // before a step is run.
  StatusOr<std::optional<StepTiming>> Time(const StepCase& which);
  // FailedPrecondition, saying so.
  static Status NoRoomFor(const StepCase& which);
  StepLoad LoadOf(const StepCase& which) const;

  // Now.
  StatusOr<double> BytesPerSecond();
  // Seconds of a step at that bandwidth; and the bytes that it reads.
  double Roofline(const StepLoad& load, double bytes_per_s) const;
  double BytesOf(const StepLoad& load) const;

  // The bandwidth at the start, and the best rates of arithmetic so far.
  const MachineLimits& limits() const { return limits_; }
  LocalRunner& runner() { return *runner_; }

 private:
  StepTimer(const StepTimerOptions& options, const Clock& clock)
      : options_(options), clock_(clock) {}

  Status Load(std::ostream& out);
  int64_t LeastPages(const StepCase& which) const;
  std::vector<OperatorCost> CostsOf(const StepLoad& load, double bytes_per_s) const;

  const StepTimerOptions options_;
  const Clock& clock_;
  kernels::Isa isa_ = kernels::Isa::kPortable;
  std::unique_ptr<ThreadPool> threads_;  // of probes
  std::unique_ptr<kernels::CpuContext> context_;
  std::unique_ptr<MachineProbe> probe_;
  std::unique_ptr<GpuProbe> gpu_probe_;  // instead, on a GPU
  std::unique_ptr<SyntheticFiles> files_;
  std::unique_ptr<LocalRunner> runner_;
  MachineLimits limits_;
  int64_t next_id_ = 0;
};

}  // namespace aril

#endif  // ARIL_APPS_STEP_TIMER_H_
