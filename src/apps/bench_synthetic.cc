#include "apps/bench_synthetic.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/synth_adapters.h"
#include "apps/synth_model.h"
#include "base/strings.h"

namespace aril {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLowestToken = 10;  // below lie special tokens, as a rule

}  // namespace

SyntheticFiles::SyntheticFiles()
    : folder_(fs::temp_directory_path() / StrCat("aril-bench-", getpid())) {}

SyntheticFiles::~SyntheticFiles() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

StatusOr<std::unique_ptr<SyntheticFiles>> SyntheticFiles::Create(const SyntheticOptions& options,
                                                                 ThreadPool& threads) {
  std::unique_ptr<SyntheticFiles> files(new SyntheticFiles());
  SynthModelOptions model;
  model.shape = options.shape;
  model.out_dir = files->model_dir();
  model.min_positions = options.min_positions;
  ASSIGN_OR_RETURN(const SynthModel plan, PlanSynthModel(model));
  RETURN_IF_ERROR(WriteSynthModel(model, plan, threads, [](uint64_t) {}));
  if (options.num_adapters == 0) return files;

  SynthAdaptersOptions adapters;
  adapters.model_dir = model.out_dir;
  adapters.out_dir = files->folder_ / "adapters";
  adapters.count = static_cast<int>(options.num_adapters);
  adapters.ranks = options.ranks;
  adapters.targets = options.targets;
  ASSIGN_OR_RETURN(const SynthAdapters adapter_plan, PlanSynthAdapters(adapters));
  RETURN_IF_ERROR(WriteSynthAdapters(adapters, adapter_plan, threads, [](uint64_t) {}));
  for (const auto& entry : fs::directory_iterator(adapters.out_dir)) {
    files->adapter_dirs_.push_back(entry.path());
  }
  std::sort(files->adapter_dirs_.begin(), files->adapter_dirs_.end());
  return files;
}

std::vector<int32_t> SyntheticPrompt(int64_t vocab_size, int64_t num_tokens, int64_t which) {
  std::vector<int32_t> prompt;
  for (int64_t t = 0; t < num_tokens; ++t) {
    prompt.push_back(static_cast<int32_t>(kLowestToken + (which * 7919 + t * 104729) %
                                                             (vocab_size - kLowestToken)));
  }
  return prompt;
}

wire::SequenceRequest SyntheticRequest(int64_t vocab_size, int64_t which, AdapterId adapter,
                                       int64_t prompt_tokens, int64_t output_tokens) {
  wire::SequenceRequest request;
  request.sequence = SequenceId(which);
  request.adapters = MixOf(adapter);
  request.prompt = SyntheticPrompt(vocab_size, prompt_tokens, which);
  request.max_tokens = static_cast<int32_t>(output_tokens);
  request.sampling.temperature = 0;
  return request;
}

TimedRunner::TimedRunner(std::unique_ptr<LocalRunner> runner, const Clock& clock)
    : runner_(std::move(runner)), clock_(clock) {
  runner_->Start(sink_);
}

TimedRunner::~TimedRunner() { runner_->Stop(); }

StatusOr<double> TimedRunner::Run(std::vector<wire::SequenceRequest> requests) {
  {
    const std::lock_guard lock(sink_.mutex);
    sink_.unfinished = requests.size();
    sink_.error = OkStatus();
  }
  const TimePoint start = clock_.Now();
  for (wire::SequenceRequest& request : requests) {
    request.sequence = SequenceId(next_id_++);
    request.arrival = start;
    RETURN_IF_ERROR(runner_->port().Submit(std::move(request)));
  }
  std::unique_lock lock(sink_.mutex);
  sink_.changed.wait(lock, [this] { return sink_.unfinished == 0; });
  RETURN_IF_ERROR(sink_.error);
  return ToSeconds(clock_.Now() - start);
}

void TimedRunner::Sink::OnStep(const wire::StepStats& last, std::vector<wire::TokenEvent> events) {
  const std::lock_guard lock(mutex);
  stats = last;
  for (const wire::TokenEvent& event : events) {
    if (!event.finish.has_value()) continue;
    --unfinished;
    if (event.finish == wire::FinishReason::kError) error = event.error;
  }
  if (unfinished == 0) changed.notify_one();
}

}  // namespace aril
