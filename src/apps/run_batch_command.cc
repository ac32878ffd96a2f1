// The command `aril run-batch`.

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run_batch.h"
#include "apps/serve.h"
#include "apps/serve_flags.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril {
namespace {

// In work at a time for each sequence of a step: some wait for their turn, so that no step has room
// left.
constexpr int64_t kRequestsPerSequence = 4;

struct RunBatchFlags {
  ServeFlags serve;
  std::string input, output;
  bool resumes = false;
};

Status RunBatchOnModel(const RunBatchFlags& flags) {
  ASSIGN_OR_RETURN(const ServeOptions options, ResolveServeOptions(flags.serve));
  // What can be wrong is found before the weights are read.
  ASSIGN_OR_RETURN(BatchFiles files, BatchFiles::Open(flags.input, flags.output, flags.resumes));
  const BatchPace pace = {
      .max_in_flight =
          std::min(options.max_in_flight, kRequestsPerSequence * options.runner.max_num_seqs)};
  const RealClock clock;
  BatchCounts counts;
  Duration took{};
  RETURN_IF_ERROR(ServeInside(options, clock, [&](const AskFunction& ask) -> Status {
    const TimePoint start = clock.Now();
    ASSIGN_OR_RETURN(counts, RunBatch(std::move(files), pace, ask, clock, std::cerr));
    took = clock.Now() - start;
    return OkStatus();
  }));
  const double seconds = std::max(1e-3, std::chrono::duration<double>(took).count());
  LogInfo(StrCat(counts.num_answered, " requests answered, ", counts.num_failed, " failed, ",
                 counts.num_skipped, " answered before; ", counts.num_tokens, " tokens generated, ",
                 static_cast<int64_t>(static_cast<double>(counts.num_tokens) / seconds),
                 " per second"));
  return OkStatus();
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
      "run-batch", "Answer a file of requests to a base model and its adapters, without HTTP");
  auto flags = std::make_shared<RunBatchFlags>();
  command->option_defaults()->group("Batch");
  AddFileFlag(*command, "-i", "--input-file", flags->input,
              "Requests, one per line, as OpenAI's Batch API has them");
  AddFileFlag(*command, "-o", "--output-file", flags->output,
              "For what becomes of them, line by line as it comes");
  AddSwitch(*command, "--resume", flags->resumes,
            "Go on with an output that is there: ask for what it has no answers to");
  AddModelFlags(*command, flags->serve);
  AddFlag(*command, "--state-dir", flags->serve.options.state_dir,
          "Folder in which a server, which must have ended, has kept the adapters that its clients "
          "have loaded [none]")
      ->type_name("DIR");
  AddSwitch(*command, "--skip-bad-adapters", flags->serve.options.skip_bad_adapters,
            "Leave out adapters that cannot be served, instead of ending");
  AddNameFlags(*command, flags->serve);
  AddEngineFlags(*command, flags->serve);
  command->callback([flags] { ExitUnlessOk("run-batch", RunBatchOnModel(*flags)); });
}

}  // namespace aril
