// `aril simulate` on the command line.

#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/policy_flags.h"
#include "apps/simulate_chaos.h"
#include "apps/simulate_fig13.h"
#include "apps/simulate_scale.h"
#include "apps/simulate_slora.h"
#include "apps/simulate_trace.h"
#include "base/strings.h"
#include "simulate/planted_bug.h"

namespace aril {
namespace {

struct SimulateFlags {
  std::string scenario;
  std::string json_path, svg_path, step_model_path;
  std::optional<Duration> duration;
  std::optional<int64_t> pool_bytes;
  uint64_t seed = 1;
  SimulateClusterOptions cluster;
  SimulateChaosOptions chaos;
  SimulateFig13Options fig13;
  SimulateScaleOptions scale;
  SimulateSloraOptions slora;
  SimulateTraceOptions trace;
};

// A flag that another scenario has is wrong usage, rather than ignored.
Status CheckScenario(const CLI::App& app, const std::string& scenario) {
  std::map<std::string, std::set<std::string>> scenarios_of = {
      {"--seeds", {"chaos"}},
      {"--first-seed", {"chaos"}},
      {"--planted-bug", {"chaos"}},
      {"--threads", {"chaos"}},
      {"--gpus", {"punica-fig13", "trace"}},
      {"--ranks", {"punica-fig13", "trace"}},
      {"--max-num-seqs", {"punica-fig13", "trace"}},
      {"--max-num-batched-tokens", {"punica-fig13", "trace"}},
      {"--pool-bytes", {"punica-fig13", "trace"}},
      {"--kv-bytes-per-token", {"punica-fig13", "trace"}},
      {"--adapter-bytes-per-rank", {"punica-fig13", "trace"}},
      {"--max-backlog-tokens", {"punica-fig13", "trace"}},
      {"--drain-margin", {"punica-fig13", "trace"}},
      {"--save-trace", {"punica-fig13"}},
      {"--trace", {"trace"}},
      {"--trace-adapters", {"trace"}},
      {"--trace-speed", {"trace"}},
      {"--trace-max-tokens", {"trace"}},
      {"--duration", {"punica-fig13", "s-lora-policies", "trace"}},
      {"--peak-rate", {"punica-fig13"}},
      {"--max-tokens", {"punica-fig13"}},
      {"--step-model", {"punica-fig13", "s-lora-policies", "trace"}},
      {"--svg", {"punica-fig13", "s-lora-policies", "trace"}},
      {"--seed", {"punica-fig13", "s-lora-policies", "scale", "trace"}},
      {"--repeat", {"s-lora-policies"}},
      {"--runners", {"scale"}},
      {"--adapters", {"scale"}},
      {"--requests", {"scale"}}};
  for (const CLI::Option* const policy : PolicyFlags(app)) {
    scenarios_of.emplace(policy->get_name(), std::set<std::string>{"punica-fig13", "trace"});
  }
  for (const auto& [flag, scenarios] : scenarios_of) {
    if (app.count(flag) == 0 || scenarios.contains(scenario)) continue;
    return InvalidArgument(
        StrCat(flag, " is for --scenario ", Join(scenarios, " or "), ", not for ", scenario));
  }
  return OkStatus();
}

// What scenarios have in common.
template <typename Options>
void SetShared(const SimulateFlags& flags, Options& options) {
  options.json_path = flags.json_path;
  options.svg_path = flags.svg_path;
  options.step_model_path = flags.step_model_path;
  options.seed = flags.seed;
}

Status RunScenario(SimulateFlags& flags) {
  if (flags.scenario == "chaos") {
    flags.chaos.json_path = flags.json_path;
    return SimulateChaos(flags.chaos, std::cout, std::cerr, RealClock());
  }
  if (flags.scenario == "scale") {
    flags.scale.json_path = flags.json_path;
    flags.scale.seed = flags.seed;
    return SimulateScale(flags.scale, std::cout, RealClock());
  }
  if (flags.scenario == "s-lora-policies") {
    SetShared(flags, flags.slora);
    flags.slora.duration = flags.duration.value_or(flags.slora.duration);
    return SimulateSlora(flags.slora, std::cout);
  }
  SetShared(flags, flags.cluster);
  SimulatedGpu& gpu = flags.cluster.gpu;
  gpu.pool_bytes = flags.pool_bytes.value_or(gpu.pool_bytes);
  if (flags.scenario == "trace") {
    flags.trace.duration = flags.duration;
    flags.trace.cluster = flags.cluster;
    return SimulateTrace(flags.trace, std::cout);
  }
  flags.fig13.cluster = flags.cluster;
  flags.fig13.duration = flags.duration.value_or(flags.fig13.duration);
  return SimulateFig13(flags.fig13, std::cout);
}

}  // namespace

void AddSimulateCommand(CLI::App& app) {
  CLI::App* simulate = app.add_subcommand(
      "simulate", "Run the scheduler's and the delivery's code on a simulated cluster");
  auto flags = std::make_shared<SimulateFlags>();
  AddFlag(*simulate, "--scenario", flags->scenario,
          "chaos: faults from seeds, invariants checked; punica-fig13: an hour of rising and "
          "falling load, GPU hours; trace: the same of recorded requests; s-lora-policies: orders, "
          "early abort and clusters of adapters under bursts; scale: what decisions cost")
      ->required()
      ->check(CLI::IsMember({"chaos", "punica-fig13", "trace", "s-lora-policies", "scale"}));
  AddFlag(*simulate, "--json", flags->json_path, "File to write all numbers to");
  AddFlag(*simulate, "--seeds", flags->chaos.num_seeds, "chaos: how many seeds")
      ->check(AtLeastOne());
  AddFlag(*simulate, "--first-seed", flags->chaos.first_seed, "chaos: the first of them")
      ->check(AtLeastOne());
  AddFlag(*simulate, "--threads", flags->chaos.threads, "chaos: seeds at a time; 0: one per core")
      ->check(CLI::Range(0, 1024));
  std::vector<std::string> bugs;
  for (const simulate::PlantedBug bug : simulate::AllPlantedBugs()) {
    bugs.push_back(simulate::Name(bug));
  }
  AddFlag(*simulate, "--planted-bug", flags->chaos.planted_bug,
          "chaos: a bug that the checker is to find: " + Join(bugs, ", "));
  AddFlag(*simulate, "--gpus", flags->cluster.num_gpus, "punica-fig13, trace: runners")
      ->check(CLI::Range(1, 4096));
  AddFlag(*simulate, "--ranks", flags->cluster.ranks,
          "punica-fig13, trace: of the adapters, in turn")
      ->delimiter(',')
      ->check(CLI::Range(1, 512));
  SimulatedGpu& gpu = flags->cluster.gpu;
  AddFlag(*simulate, "--max-num-seqs", gpu.max_num_seqs, "punica-fig13, trace: as of aril runner")
      ->check(CLI::Range(1, 4096));
  AddFlag(*simulate, "--max-num-batched-tokens", gpu.max_num_batched_tokens,
          "punica-fig13, trace: as of aril runner")
      ->check(CLI::Range(1, 1 << 20));
  AddSizeFlag(*simulate, "--pool-bytes", flags->pool_bytes,
              "punica-fig13, trace: as of aril runner [60GiB]");
  AddFlag(*simulate, "--kv-bytes-per-token", gpu.kv_bytes_per_token,
          "punica-fig13, trace: of keys and values")
      ->check(CLI::Range(1, 1 << 30));
  AddFlag(*simulate, "--adapter-bytes-per-rank", gpu.adapter_bytes_per_rank,
          "punica-fig13, trace: an adapter's, for each of its rank")
      ->check(CLI::Range(1, 1 << 30));
  AddFlag(*simulate, "--max-backlog-tokens", flags->cluster.max_backlog_tokens,
          "punica-fig13, trace: as of aril scheduler")
      ->check(CLI::NonNegativeNumber);
  AddFlag(*simulate, "--drain-margin", flags->cluster.drain_margin,
          "punica-fig13, trace: as of aril scheduler")
      ->check(CLI::NonNegativeNumber);
  AddDurationFlag(*simulate, "--duration", flags->duration,
                  "Of the arrivals [punica-fig13: 1h, s-lora-policies: 300s, trace: all]");
  AddFlag(*simulate, "--trace", flags->trace.path,
          "trace: file of recorded requests, with times and lengths (docs/benchmarks.md has the "
          "formats)");
  AddFlag(*simulate, "--trace-adapters", flags->trace.adapters_path,
          "trace: another one, whose requests say in turn which adapters those of --trace ask for");
  AddFlag(*simulate, "--trace-speed", flags->trace.speed,
          "trace: how many times faster its requests arrive")
      ->check(CLI::Range(1e-3, 1e6));
  AddFlag(*simulate, "--trace-max-tokens", flags->trace.max_tokens,
          "trace: leave out its requests of more tokens, prompt and output together")
      ->check(AtLeastOne());
  AddFlag(*simulate, "--peak-rate", flags->fig13.peak_rate,
          "punica-fig13: requests per second in the middle")
      ->check(CLI::Range(0.01, 1e5));
  AddFlag(*simulate, "--max-tokens", flags->fig13.max_tokens,
          "punica-fig13: of prompt and output together")
      ->check(CLI::Range(3, 100'000));
  AddFlag(*simulate, "--save-trace", flags->fig13.save_trace_path,
          "punica-fig13: file to write the requests to, for aril bench serve --trace");
  AddFlag(*simulate, "--repeat", flags->slora.repeat,
          "s-lora-policies: workloads with successive seeds, of which means are shown")
      ->check(CLI::Range(1, 1000));
  AddFlag(*simulate, "--step-model", flags->step_model_path,
          "punica-fig13, s-lora-policies, trace: JSON file with the coefficients of step times");
  AddFlag(*simulate, "--svg", flags->svg_path,
          "punica-fig13, s-lora-policies, trace: file to draw the figure to");
  AddFlag(*simulate, "--seed", flags->seed,
          "punica-fig13, s-lora-policies, scale, trace: of the load");
  AddFlag(*simulate, "--runners", flags->scale.num_runners, "scale: numbers of runners, in turn")
      ->delimiter(',')
      ->check(CLI::Range(1, 65'536));
  AddFlag(*simulate, "--adapters", flags->scale.num_adapters, "scale: different adapters")
      ->check(CLI::Range(1, 10'000'000));
  AddFlag(*simulate, "--requests", flags->scale.num_requests,
          "scale: timed requests for each number of runners")
      ->check(CLI::Range(1, 100'000'000));
  AddPolicyFlags(*simulate, flags->cluster.policies);
  simulate->callback([simulate, flags] {
    ThrowUsageUnlessOk(CheckScenario(*simulate, flags->scenario));
    ThrowUsageUnlessOk(simulate::ParsePlantedBug(flags->chaos.planted_bug).status());
    ExitUnlessOk("simulate", RunScenario(*flags));
  });
}

}  // namespace aril
