// The command `aril run-batch`.

#include <algorithm>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run_batch.h"
#include "apps/serve.h"
#include "apps/serve_flags.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril {
namespace {

// In work at a time for each sequence that a step has: some wait for their turn, so that no step
// has room left.
constexpr int64_t kRequestsPerSequence = 4;

struct RunBatchFlags {
  ServeFlags serve;
  BatchOptions batch;
};

Status RunBatchOnModel(const RunBatchFlags& flags) {
  ASSIGN_OR_RETURN(ServeOptions options, ResolveServeOptions(flags.serve));
  const RealClock clock;
  BatchOptions batch = flags.batch;
  batch.max_in_flight =
      std::min(options.max_in_flight, kRequestsPerSequence * options.runner.max_num_seqs);
  return ServeInside(options, clock, [&](const AskFunction& ask) -> Status {
    const TimePoint start = clock.Now();
    ASSIGN_OR_RETURN(const BatchCounts counts, RunBatch(batch, ask, clock, std::cerr));
    const double seconds = std::chrono::duration<double>(clock.Now() - start).count();
    LogInfo(StrCat(
        counts.num_answered, " requests answered, ", counts.num_failed, " failed, ",
        counts.num_skipped, " answered before; ", counts.num_tokens, " tokens generated, ",
        static_cast<int64_t>(static_cast<double>(counts.num_tokens) / seconds), " per second"));
    return OkStatus();
  });
}

// By the names that vLLM has for them.
void AddFileFlag(CLI::App& app, const std::string& letter, const std::string& flag,
                 std::string& path, const std::string& help) {
  app.add_option(letter + "," + flag, path, help)
      ->envname(EnvironmentName(app, flag))
      ->type_name("FILE")
      ->check(NotEmpty())
      ->required();
}

}  // namespace

void AddRunBatchCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "run-batch", "Answer a file of requests to a base model and its adapters, without a server");
  auto flags = std::make_shared<RunBatchFlags>();
  command->option_defaults()->group("Batch");
  AddFileFlag(*command, "-i", "--input-file", flags->batch.input,
              "Requests, one per line, as OpenAI's Batch API has them");
  AddFileFlag(*command, "-o", "--output-file", flags->batch.output,
              "For what becomes of them, line by line as it comes");
  AddSwitch(*command, "--resume", flags->batch.resumes,
            "Go on with an output that is there: ask for what it has no answers to");
  AddModelFlags(*command, flags->serve);
  AddAdapterChangeFlags(*command, flags->serve);
  AddNameFlags(*command, flags->serve);
  AddEngineFlags(*command, flags->serve);
  command->callback([flags] { ExitUnlessOk("run-batch", RunBatchOnModel(*flags)); });
}

}  // namespace aril
