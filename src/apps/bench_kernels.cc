#include "apps/bench_kernels.h"

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "apps/bench_kernel_cases.h"
#include "apps/bench_numbers.h"
#include "apps/output_file.h"
#include "apps/synth_shapes.h"
#include "apps/text_table.h"
#include "base/strings.h"
#include "base/thread_pool.h"

namespace aril {
namespace {

constexpr size_t kMinCalls = 3;

// What one pass found for a case.
struct Timing {
  double seconds = 0;  // of a call
  double limit = 0;    // what it takes at best
  bool is_memory_bound = false;
};

class Bench {
 public:
  Bench(const BenchKernelsOptions& options, kernels::Isa isa, std::ostream& out, const Clock& clock)
      : options_(options),
        out_(out),
        clock_(clock),
        threads_(options.threads > 0
                     ? options.threads
                     : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))),
        context_(threads_, isa),
        probe_(context_, clock, options.probe_bytes) {}

  Status Run() {
    out_ << "instruction set: " << context_.isa() << ", threads: " << threads_.num_threads()
         << std::endl;
    for (const std::string& shape : options_.shapes) {
      ASSIGN_OR_RETURN(const Json config, SynthShapeConfig(shape, DType::kBF16));
      ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(config, nullptr));
      for (const std::string& kernel : options_.kernels) RunKernel(shape, spec, kernel);
    }
    if (options_.json_path.empty()) return OkStatus();
    const Json json = Json::Object{{"isa", std::string(Name(context_.isa()))},
                                   {"threads", threads_.num_threads()},
                                   {"passes", options_.passes},
                                   {"results", Json(std::move(results_))}};
    return WriteTextFile("--json", options_.json_path, json.Dump() + "\n");
  }

 private:
  void RunKernel(const std::string& shape, const ModelSpec& spec, const std::string& kernel) {
    if (kernel == "lora") {
      for (const std::string& name : options_.lora_projections) RunLora(shape, spec, name);
      return;
    }
    if (kernel == "attention") {
      RunGroup(shape, AttentionCases(context_, spec, options_.contexts, options_.sequences,
                                     options_.prefill_tokens, options_.cold_bytes));
      return;
    }
    // The products of a layer, as they are packed.
    const struct {
      const char* name;
      int64_t k, n;
    } products[] = {{"qkv", spec.hidden_size, spec.q_size() + 2 * spec.kv_size()},
                    {"o", spec.q_size(), spec.hidden_size},
                    {"gate_up", spec.hidden_size, 2 * spec.intermediate_size},
                    {"down", spec.intermediate_size, spec.hidden_size}};
    const DType dtype = kernel == "gemm-int8" ? DType::kI8 : DType::kBF16;
    for (const auto& [name, k, n] : products) {
      RunGroup(shape, GemmCases(context_, name, k, n, dtype, options_.rows, options_.cold_bytes));
    }
  }

  void RunLora(const std::string& shape, const ModelSpec& spec, const std::string& projection) {
    const std::map<std::string, std::pair<int64_t, int64_t>> sizes = {
        {"q", {spec.hidden_size, spec.q_size()}},
        {"o", {spec.q_size(), spec.hidden_size}},
        {"gate", {spec.hidden_size, spec.intermediate_size}},
        {"down", {spec.intermediate_size, spec.hidden_size}}};
    LoraCasesOptions cases{.ranks = options_.ranks,
                           .rows = options_.lora_rows,
                           .segment_rows = options_.lora_segment_rows};
    if (cases.segment_rows.empty()) {
      cases.popularities = {PopularityKind::kDistinct, PopularityKind::kUniform,
                            PopularityKind::kSkewed, PopularityKind::kIdentical};
    }
    const auto& [in, out] = sizes.at(projection);
    RunGroup(shape, LoraCases(context_, in, out, cases, options_.cold_bytes));
  }

  void RunGroup(const std::string& shape, const std::vector<KernelCase>& cases) {
    std::vector<std::vector<Timing>> timings(cases.size());
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      MachineLimits limits = probe_.Measure(options_.duration);
      for (size_t i = 0; i < cases.size(); ++i) {
        const double before = limits.read_bytes_per_s;
        const double seconds = Time(cases[i]);
        const double after = probe_.ReadBytesPerSecond(options_.duration);
        const double reading = cases[i].bytes / ((before + after) / 2);
        const double calculating = cases[i].operations / limits.product_per_s(cases[i].dtype);
        timings[i].push_back({.seconds = seconds,
                              .limit = std::max(reading, calculating),
                              .is_memory_bound = reading > calculating});
        limits.read_bytes_per_s = after;
      }
    }
    Report(shape, cases, timings);
  }

  // Of a call, the median: a core that the host takes away for a while slows some of them.
  double Time(const KernelCase& which) {
    which.run();
    std::vector<double> seconds;
    const TimePoint end = clock_.Now() + options_.duration;
    TimePoint now = clock_.Now();
    while (now < end || seconds.size() < kMinCalls) {
      which.run();
      const TimePoint start = std::exchange(now, clock_.Now());
      seconds.push_back(ToSeconds(now - start));
    }
    return Median(std::move(seconds));
  }

  void Report(const std::string& shape, const std::vector<KernelCase>& cases,
              const std::vector<std::vector<Timing>>& timings) {
    std::vector<std::vector<std::string>> lines = {{shape, "operands", "limit", "rows", "us",
                                                    "GB/s", "GFLOP/s", "of limit", "worst", "best",
                                                    "ratio"}};
    for (size_t i = 0; i < cases.size(); ++i) {
      const KernelCase& which = cases[i];
      std::vector<double> seconds, shares, ratios;
      int64_t memory_bound = 0;
      for (size_t pass = 0; pass < timings[i].size(); ++pass) {
        const Timing& timing = timings[i][pass];
        seconds.push_back(timing.seconds);
        shares.push_back(timing.limit / timing.seconds);
        ratios.push_back(timing.seconds / timings[which.compared_to][pass].seconds);
        memory_bound += timing.is_memory_bound ? 1 : 0;
      }
      const std::string bound = 2 * memory_bound > options_.passes ? "memory" : "arithmetic";
      const auto [worst, best] = std::ranges::minmax(shares);
      const double median = Median(seconds);
      lines.push_back({which.kernel, which.operands, bound, std::to_string(which.rows),
                       Decimal(median * 1e6, 1), Decimal(which.bytes / median / 1e9, 1),
                       Decimal(which.operations / median / 1e9, 0), Decimal(Median(shares), 2),
                       Decimal(worst, 2), Decimal(best, 2),
                       which.compared_to == i ? "" : Decimal(Median(ratios), 2)});
      results_.push_back(Json::Object{{"shape", shape},
                                      {"kernel", which.kernel},
                                      {"operands", which.operands},
                                      {"rows", which.rows},
                                      {"bound", bound},
                                      {"seconds", median},
                                      {"bytes", which.bytes},
                                      {"operations", which.operations},
                                      {"of_limit", Median(shares)},
                                      {"ratio", Median(ratios)}});
    }
    out_ << "\n" << AlignColumns(lines, 3) << std::flush;
  }

  const BenchKernelsOptions& options_;
  std::ostream& out_;
  const Clock& clock_;
  ThreadPool threads_;
  kernels::CpuContext context_;
  MachineProbe probe_;
  Json::Array results_;
};

Status CheckNames(const char* flag, const std::vector<std::string>& names, const char* kind,
                  const std::vector<std::string>& known) {
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) == known.end()) {
      return InvalidArgument(StrCat(flag, " ", name, ": ", kind, " are ", Join(known, ", ")));
    }
  }
  return OkStatus();
}

}  // namespace

const std::vector<std::string>& BenchKernelNames() {
  static const std::vector<std::string> names = {"gemm", "gemm-int8", "lora", "attention"};
  return names;
}

const std::vector<std::string>& BenchLoraProjections() {
  static const std::vector<std::string> names = {"q", "o", "gate", "down"};
  return names;
}

Status BenchKernels(const BenchKernelsOptions& options, std::ostream& out, const Clock& clock) {
  ASSIGN_OR_RETURN(const kernels::Isa isa, kernels::ChooseIsa(options.isa));
  RETURN_IF_ERROR(CheckNames("--kernel", options.kernels, "kernels", BenchKernelNames()));
  RETURN_IF_ERROR(CheckNames("--lora-projection", options.lora_projections, "projections",
                             BenchLoraProjections()));
  return Bench(options, isa, out, clock).Run();
}

}  // namespace aril
