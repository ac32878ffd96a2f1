#include "apps/simulate_chaos.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "apps/output_file.h"
#include "apps/progress.h"
#include "apps/text_table.h"
#include "base/json.h"
#include "base/strings.h"
#include "simulate/chaos.h"

namespace aril {
namespace {

constexpr size_t kMaxViolations = 20;  // printed

// A seed is a world of its own: they run side by side, and add up to the same in any order.
struct Sum {
  simulate::ChaosResult counts;
  std::map<uint64_t, std::string> violations;
};

Sum RunSeeds(const SimulateChaosOptions& options, simulate::PlantedBug bug, Progress& progress) {
  Sum sum;
  std::mutex mutex;
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t i = next++; i < options.num_seeds; i = next++) {
      const auto seed = static_cast<uint64_t>(options.first_seed + i);
      const simulate::ChaosResult result = simulate::RunChaos(seed, bug);
      const std::lock_guard lock(mutex);
      sum.counts.Add(result);
      if (!result.violation.empty()) sum.violations[seed] = result.violation;
      progress.Add(1);
    }
  };
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t num_threads =
      std::min(options.num_seeds, options.threads == 0 ? cores : options.threads);
  std::vector<std::jthread> threads;
  for (int64_t i = 1; i < num_threads; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return sum;
}

void Print(const Sum& sum, std::ostream& out) {
  const simulate::ChaosResult& counts = sum.counts;
  std::vector<std::vector<std::string>> lines = {{"fault", "times"}};
  for (size_t i = 0; i < simulate::kNumFaultKinds; ++i) {
    lines.push_back({Name(static_cast<simulate::FaultKind>(i)), std::to_string(counts.faults[i])});
  }
  out << AlignColumns(lines, 1) << counts.num_requests << " requests: " << counts.num_finished
      << " finished, " << counts.num_resumed << " of all in more than one attempt; "
      << counts.num_errors << " ended with an error, " << counts.num_cancelled
      << " were cancelled, " << counts.num_broken << " broke with their gateway\n"
      << counts.num_elections << " elections, " << counts.num_evictions << " evictions, "
      << counts.num_loaded_ahead << " adapters loaded ahead, " << counts.num_refused_starts
      << " starts refused, " << counts.num_events << " events\n";
  size_t num_printed = 0;
  for (const auto& [seed, violation] : sum.violations) {
    if (++num_printed > kMaxViolations) break;
    out << "seed " << seed << ": " << violation << "\n";
  }
  out << std::flush;
}

}  // namespace

Status SimulateChaos(const SimulateChaosOptions& options, std::ostream& out,
                     std::ostream& progress_out, const Clock& clock) {
  ASSIGN_OR_RETURN(const simulate::PlantedBug bug, simulate::ParsePlantedBug(options.planted_bug));
  Progress progress({.label = "chaos",
                     .total = static_cast<uint64_t>(options.num_seeds),
                     .unit = "seeds",
                     .is_terminal = false},
                    progress_out, clock);
  const Sum sum = RunSeeds(options, bug, progress);
  progress.Finish();
  Print(sum, out);
  if (!options.json_path.empty()) {
    Json json = sum.counts.ToJson();
    Json::Object violations;
    for (const auto& [seed, violation] : sum.violations) {
      violations.emplace_back(std::to_string(seed), violation);
    }
    Json::Object* const object = json.AsObject();
    object->emplace_back("first_seed", options.first_seed);
    object->emplace_back("seeds", options.num_seeds);
    object->emplace_back("planted_bug", options.planted_bug);
    object->emplace_back("violations", Json(std::move(violations)));
    RETURN_IF_ERROR(WriteTextFile("--json", options.json_path, json.Dump() + "\n"));
  }
  if (sum.violations.empty()) return OkStatus();
  const std::string bug_flag =
      bug == simulate::PlantedBug::kNone ? "" : " --planted-bug " + options.planted_bug;
  return Internal(StrCat(sum.violations.size(), " of ", options.num_seeds,
                         " seeds violated an invariant; replay the first with `aril simulate "
                         "--scenario chaos --seeds 1 --first-seed ",
                         sum.violations.begin()->first, bug_flag, "`"));
}

}  // namespace aril
