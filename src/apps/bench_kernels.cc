#include "apps/bench_kernels.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "apps/bench_cuda_kernels.h"
#include "apps/bench_kernel_cases.h"
#include "apps/bench_kernel_report.h"
#include "apps/bench_numbers.h"
#include "apps/synth_shapes.h"
#include "base/strings.h"
#include "base/thread_pool.h"
#include "kernels/gemm/gemm_tile.h"

namespace aril {
namespace {

constexpr size_t kMinCalls = 3;
constexpr char kCuda[] = "cuda";
constexpr std::string_view kGatedDelta = "gated-delta";  // only of models with linear attention

// On the CPU, experts are calls of gemm.
bool Has(const std::string& device, const std::string& kernel) {
  if (device == kCuda) return !kernel.starts_with("gemm-") && kernel != kGatedDelta;
  return kernel != "experts";
}

// Of products on the CPU.
kernels::WeightFormat ProductFormat(const std::string& kernel) {
  if (kernel == "gemm-int8") return kernels::WeightFormat::kInt8;
  if (kernel == "gemm-int4") return kernels::WeightFormat::kInt4;
  if (kernel == "gemm-fp8") return kernels::WeightFormat::kFloat8;
  if (kernel == "gemm-codebook4") return kernels::WeightFormat::kCodebook4;
  if (kernel == "gemm-codebook4-by-32") return kernels::WeightFormat::kCodebook4By32;
  return kernels::WeightFormat::kBF16;
}

// There are no groups of codes that are not whole.
bool HasProductOf(kernels::WeightFormat format, const MatrixSize& size) {
  return !kernels::IsCodebook4(format) || size.in % kernels::Codebook4GroupSize(format) == 0;
}

// On the CPU.
class Bench {
 public:
  Bench(const BenchKernelsOptions& options, kernels::Isa isa, std::ostream& out, const Clock& clock)
      : options_(options),
        out_(out),
        report_(out),
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
      ASSIGN_OR_RETURN(const ModelSpec spec, SpecOfShape(shape));
      for (const std::string& kernel : KernelsOf(options_)) RunKernel(shape, spec, kernel);
    }
    return report_.WriteJson(options_.json_path, {{"isa", std::string(Name(context_.isa()))},
                                                  {"threads", threads_.num_threads()},
                                                  {"passes", options_.passes}});
  }

 private:
  void RunKernel(const std::string& shape, const ModelSpec& spec, const std::string& kernel) {
    if (kernel == "lora") {
      for (const std::string& projection : options_.lora_projections) {
        if (!IsAdapted(spec, projection)) continue;
        RunGroup(shape, LoraCases(context_, AdaptedProjection(spec, projection),
                                  LoraOptionsOf(options_), options_.cold_bytes));
      }
      return;
    }
    if (kernel == "attention") {
      RunGroup(shape,
               AttentionCases(context_, spec, AttentionBatchesOf(options_), options_.cold_bytes));
      return;
    }
    if (kernel == kGatedDelta) {
      if (!spec.linear_attention) return;
      RunGroup(shape,
               DeltaCases(context_, spec, AttentionBatchesOf(options_), options_.cold_bytes));
      return;
    }
    const kernels::WeightFormat format = ProductFormat(kernel);
    for (const MatrixSize& size : LayerProducts(spec)) {
      if (!HasProductOf(format, size)) continue;
      RunGroup(shape, GemmCases(context_, size, format, options_.rows, options_.cold_bytes));
    }
  }

  void RunGroup(const std::string& shape, const std::vector<KernelCase>& cases) {
    std::vector<KernelWork> work;
    for (const KernelCase& which : cases) work.push_back(which.work);
    std::vector<std::vector<KernelTiming>> timings(cases.size());
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      MachineLimits limits = probe_.Measure(options_.duration);
      for (size_t i = 0; i < cases.size(); ++i) {
        const double before = limits.read_bytes_per_s;
        const double seconds = Time(cases[i]);
        const double after = probe_.ReadBytesPerSecond(options_.duration);
        timings[i].push_back(CompareWithLimit(work[i], seconds, (before + after) / 2,
                                              limits.product_per_s(work[i].format)));
        limits.read_bytes_per_s = after;
      }
    }
    report_.Add(shape, work, timings);
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

  const BenchKernelsOptions& options_;
  std::ostream& out_;
  KernelReport report_;
  const Clock& clock_;
  ThreadPool threads_;
  kernels::CpuContext context_;
  MachineProbe probe_;
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
  static const std::vector<std::string> names = {
      "gemm",     "gemm-int8",      "gemm-int4",
      "gemm-fp8", "gemm-codebook4", "gemm-codebook4-by-32",
      "lora",     "attention",      std::string(kGatedDelta),
      "experts"};
  return names;
}

std::vector<std::string> KernelsOf(const BenchKernelsOptions& options) {
  if (!options.kernels.empty()) return options.kernels;
  std::vector<std::string> kernels = BenchKernelNames();
  std::erase_if(kernels, [&](const std::string& kernel) { return !Has(options.device, kernel); });
  return kernels;
}

LoraCasesOptions LoraOptionsOf(const BenchKernelsOptions& options) {
  LoraCasesOptions lora{
      .ranks = options.ranks, .rows = options.lora_rows, .segment_rows = options.lora_segment_rows};
  if (lora.segment_rows.empty()) {
    lora.popularities = {PopularityKind::kDistinct, PopularityKind::kUniform,
                         PopularityKind::kSkewed, PopularityKind::kIdentical};
  }
  return lora;
}

std::vector<AttentionBatchShape> AttentionBatchesOf(const BenchKernelsOptions& options) {
  return AttentionBatches(options.contexts, options.sequences, options.prefill_tokens);
}

StatusOr<ModelSpec> SpecOfShape(const std::string& shape) {
  ASSIGN_OR_RETURN(const Json config, SynthShapeConfig(shape, DType::kBF16));
  return ParseModelSpec(config, nullptr);
}

Status BenchKernels(const BenchKernelsOptions& options, std::ostream& out, const Clock& clock) {
  RETURN_IF_ERROR(CheckNames("--kernel", options.kernels, "kernels", BenchKernelNames()));
  RETURN_IF_ERROR(CheckNames("--lora-projection", options.lora_projections, "projections",
                             BenchLoraProjections()));
  for (const std::string& kernel : options.kernels) {
    if (Has(options.device, kernel)) continue;
    return InvalidArgument(
        StrCat("--kernel ", kernel, ": there is none for --device ", options.device));
  }
  if (options.device == kCuda) return BenchCudaKernels(options, out);
  ASSIGN_OR_RETURN(const kernels::Isa isa, kernels::ChooseIsa(options.isa));
  return Bench(options, isa, out, clock).Run();
}

}  // namespace aril
