#include "apps/start_up.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <system_error>
#include <utility>

#include "apps/progress.h"
#include "apps/token_texts.h"
#include "base/log.h"
#include "base/strings.h"
#include "grammar/token_table.h"
#include "scheduler/one_runner.h"

namespace aril {
namespace {

// Draws the progress of loading; its total is known with the first report.
LoadProgress ShowProgress(const Clock& clock) {
  struct State {
    std::unique_ptr<Progress> progress;
    size_t done_bytes = 0;
  };
  auto state = std::make_shared<State>();
  return [state, &clock](size_t done_bytes, size_t total_bytes) {
    if (state->progress == nullptr) {
      state->progress =
          std::make_unique<Progress>(Progress::Options{.label = "loading the model",
                                                       .total = total_bytes,
                                                       .is_terminal = isatty(STDERR_FILENO) == 1},
                                     std::cerr, clock);
    }
    state->progress->Add(done_bytes - std::exchange(state->done_bytes, done_bytes));
    if (done_bytes == total_bytes) state->progress->Finish();
  };
}

// Without a policy, the engine's own queue is first come, first served.
// With turns, a queue of max_waiting is as long as 1 + 1/2 + … + 1/n of it with n tenants: this is
// enough for thirty that fill it one after the other.
constexpr size_t kQueuesOfTenants = 4;

decltype(LocalRunnerOptions::make_admission) AdmissionOf(const ServeOptions& options,
                                                         const Clock& clock) {
  if (options.policies == scheduler::PolicyOptions()) return nullptr;
  return [&clock, policies = options.policies, max_running = options.runner.max_num_seqs,
          max_rows = options.runner.max_num_batched_tokens](int64_t pages_total,
                                                            const SequencePages& pages) {
    return std::make_unique<scheduler::OneRunner>(
        scheduler::OneRunnerOptions{.max_running = max_running,
                                    .max_rows = max_rows,
                                    .pages_total = pages_total,
                                    .pages = pages,
                                    .policies = policies},
        clock.Now());
  };
}

}  // namespace

Status CheckModelDir(const std::string& dir) {
  std::error_code error;
  if (std::filesystem::is_directory(dir, error)) return OkStatus();
  return NotFound(StrCat("--model ", dir,
                         ": no such folder; name one that holds config.json, the weights and the "
                         "tokenizer"));
}

StatusOr<std::vector<NamedAdapter>> ListAdapters(const ServeOptions& options) {
  std::vector<NamedAdapter> adapters;
  if (!options.adapters_dir.empty()) {
    ASSIGN_OR_RETURN(adapters, FindAdapters(options.adapters_dir));
  }
  for (const std::string& text : options.lora_modules) {
    ASSIGN_OR_RETURN(NamedAdapter adapter, ParseLoraModule(text));
    adapters.push_back(std::move(adapter));
  }
  return adapters;
}

std::vector<std::shared_ptr<const Generation>> Placeholders(size_t count) {
  return {count, std::make_shared<const Generation>(Generation::Description{})};
}

Status DescribeFailures(const std::vector<AdapterFailure>& failures,
                        const std::vector<NamedAdapter>& adapters) {
  std::string message =
      StrCat(failures.size(), " of ", adapters.size(), " adapters cannot be served:\n");
  for (const AdapterFailure& failure : failures) {
    message += StrCat("  ", adapters[failure.index].name, ": ", Message(failure.error), "\n");
  }
  return InvalidArgument(message +
                         "Repair or remove them, or leave them out with --skip-bad-adapters.");
}

void RemoveFailed(const std::vector<AdapterFailure>& failures,
                  std::vector<NamedAdapter>* adapters) {
  for (auto failure = failures.rbegin(); failure != failures.rend(); ++failure) {
    LogWarning(StrCat("adapter ", (*adapters)[failure->index].name,
                      " is not served: ", Message(failure->error)));
    adapters->erase(adapters->begin() + static_cast<std::ptrdiff_t>(failure->index));
  }
}

bool MayChangeAdapters(const ServeOptions& options) {
  return !options.adapter_roots.empty() || !options.state_dir.empty();
}

StatusOr<std::unique_ptr<LocalRunner>> MakeRunner(const ServeOptions& options,
                                                  std::shared_ptr<const Tokenizer> tokenizer,
                                                  const Clock& clock,
                                                  std::vector<NamedAdapter>* adapters) {
  while (true) {
    LocalRunnerOptions runner_options = options.runner;
    runner_options.more_adapters = MayChangeAdapters(options);
    runner_options.make_admission = AdmissionOf(options, clock);
    if (tokenizer != nullptr) {
      runner_options.make_token_table = [tokenizer](const ModelSpec& spec) {
        return std::make_shared<const grammar::TokenTable>(TokenTexts(*tokenizer, spec));
      };
    }
    if (options.policies.is_fair) {
      runner_options.shares_rows = true;
      runner_options.tenant_weights = options.policies.tenant_weights;
    }
    // The policies bound the queue, and by tenants; this is for those that run as well.
    if (runner_options.make_admission) {
      runner_options.max_queued = kQueuesOfTenants * options.policies.max_waiting +
                                  static_cast<size_t>(options.runner.max_num_seqs);
    }
    for (const NamedAdapter& adapter : *adapters)
      runner_options.adapter_dirs.push_back(adapter.dir);
    runner_options.progress = ShowProgress(clock);
    std::vector<AdapterFailure> failures;
    auto runner = LocalRunner::Create(runner_options, clock, &failures);
    if (failures.empty()) return runner;
    if (!options.skip_bad_adapters) return DescribeFailures(failures, *adapters);
    RemoveFailed(failures, adapters);
  }
}

}  // namespace aril
