// What benchmarks of the engine run: a model and adapters of random weights, and requests that are
// timed from the first to the last token.

#ifndef ARIL_APPS_BENCH_SYNTHETIC_H_
#define ARIL_APPS_BENCH_SYNTHETIC_H_

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "runner/local_runner.h"

namespace aril {

struct SyntheticOptions {
  std::string shape;  // synth_shapes.h
  int64_t min_positions = 0;
  int64_t num_adapters = 0;  // adapter i has ranks[i % size]
  std::vector<int64_t> ranks = {16};
  std::vector<std::string> targets = {"all-linear"};
};

// Their files in a temporary folder, deleted with this.
class SyntheticFiles {
 public:
  // NotFound lists the shapes there are.
  static StatusOr<std::unique_ptr<SyntheticFiles>> Create(const SyntheticOptions& options,
                                                          ThreadPool& threads);
  SyntheticFiles(const SyntheticFiles&) = delete;
  SyntheticFiles& operator=(const SyntheticFiles&) = delete;
  ~SyntheticFiles();

  std::string model_dir() const { return folder_ / "model"; }
  // In the order of the adapters' numbers.
  const std::vector<std::string>& adapter_dirs() const { return adapter_dirs_; }

 private:
  SyntheticFiles();

  const std::filesystem::path folder_;
  std::vector<std::string> adapter_dirs_;
};

// A prompt of random tokens without special ones, the same for the same `which`.
std::vector<int32_t> SyntheticPrompt(int64_t vocab_size, int64_t num_tokens, int64_t which);

// Greedy, with no other end than its length.
wire::SequenceRequest SyntheticRequest(int64_t vocab_size, int64_t which, AdapterId adapter,
                                       int64_t prompt_tokens, int64_t output_tokens);

// Runs requests as a server does, on the runner's own thread. Used by one thread.
class TimedRunner {
 public:
  TimedRunner(std::unique_ptr<LocalRunner> runner, const Clock& clock);
  ~TimedRunner();

  // From the submission of them all, at once, to the last token: seconds. An error of any of them
  // is returned.
  StatusOr<double> Run(std::vector<wire::SequenceRequest> requests);
  // After the last step.
  const wire::StepStats& stats() const { return sink_.stats; }
  const ModelSpec& spec() const { return runner_->spec(); }

 private:
  struct Sink : wire::EventSink {
    void OnStep(const wire::StepStats& last, std::vector<wire::TokenEvent> events) override;

    std::mutex mutex;
    std::condition_variable changed;
    size_t unfinished = 0;  // guarded by mutex
    Status error;           // guarded by mutex
    wire::StepStats stats;
  };

  const std::unique_ptr<LocalRunner> runner_;
  const Clock& clock_;
  Sink sink_;
  int64_t next_id_ = 0;
};

}  // namespace aril

#endif  // ARIL_APPS_BENCH_SYNTHETIC_H_
