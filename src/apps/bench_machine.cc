#include "apps/bench_machine.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "apps/machine_limits.h"
#include "apps/output_file.h"
#include "apps/text_table.h"
#include "base/strings.h"
#include "base/thread_pool.h"

namespace aril {
namespace {

std::vector<int> ThreadCounts(int most) {
  std::vector<int> counts;
  for (int threads = 1; threads < most; threads *= 2) counts.push_back(threads);
  counts.push_back(most);
  return counts;
}

std::string Giga(double per_s) { return per_s == 0 ? "-" : Decimal(per_s / 1e9, 1); }

}  // namespace

Status BenchMachine(const BenchMachineOptions& options, std::ostream& out, const Clock& clock) {
  ASSIGN_OR_RETURN(const kernels::Isa isa, kernels::ChooseIsa(options.isa));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<std::vector<std::string>> lines = {
      {"threads", "read GB/s", "fp32 GFLOP/s", "bf16 GFLOP/s", "int8 GOP/s"}};
  Json::Array results;
  for (const int threads : ThreadCounts(options.threads > 0 ? options.threads : cores)) {
    ThreadPool pool(threads);
    kernels::CpuContext context(pool, isa);
    const MachineLimits limits =
        MachineProbe(context, clock, options.probe_bytes).Measure(options.duration);
    lines.push_back({std::to_string(threads), Giga(limits.read_bytes_per_s), Giga(limits.f32_per_s),
                     Giga(limits.bf16_per_s), Giga(limits.int8_per_s)});
    results.push_back(limits.ToJson());
  }
  out << "instruction set: " << isa << "\n" << AlignColumns(lines, 0) << std::flush;
  if (options.json_path.empty()) return OkStatus();
  const Json json =
      Json::Object{{"isa", std::string(Name(isa))}, {"limits", Json(std::move(results))}};
  return WriteTextFile("--json", options.json_path, json.Dump() + "\n");
}

}  // namespace aril
