#include "apps/bench_cuda_kernels.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "apps/bench_cuda_cases.h"
#include "apps/bench_kernel_report.h"
#include "apps/bench_numbers.h"
#include "apps/gpu_limits.h"
#include "apps/text_table.h"
#include "base/strings.h"

namespace aril {
namespace {

using kernels::CudaDevice;
using kernels::CudaGraph;

constexpr int kReplays = 5;  // of a pass
// Copied from one half to the other: more than any L2.
constexpr size_t kFlushedBytes = size_t{512} << 20;

class CudaBench {
 public:
  CudaBench(const BenchKernelsOptions& options, std::ostream& out)
      : options_(options), out_(out), report_(out) {}

  Status Run() {
    RETURN_IF_ERROR(Open());
    for (const std::string& shape : options_.shapes) {
      ASSIGN_OR_RETURN(const ModelSpec spec, SpecOfShape(shape));
      for (const std::string& kernel : KernelsOf(options_)) {
        RETURN_IF_ERROR(Annotate(RunKernel(shape, spec, kernel), shape));
      }
    }
    return report_.WriteJson(
        options_.json_path,
        {{"device", device_->name()}, {"limits", limits_.ToJson()}, {"passes", options_.passes}});
  }

 private:
  Status Open() {
    {
      ASSIGN_OR_RETURN(const std::unique_ptr<GpuProbe> probe, GpuProbe::Create());
      ASSIGN_OR_RETURN(limits_, probe->Measure());
    }
    ASSIGN_OR_RETURN(device_, kernels::OpenCudaDevice());
    ASSIGN_OR_RETURN(fastest_, kernels::OpenCudaGemm(*device_, kernels::GemmChoice::kFastest));
    ASSIGN_OR_RETURN(invariant_, kernels::OpenCudaGemm(*device_, kernels::GemmChoice::kInvariant));
    ASSIGN_OR_RETURN(flushed_, kernels::DeviceBuffer::Allocate(*device_, kFlushedBytes));
    out_ << device_->name() << ": copies move " << Decimal(limits_.read_bytes_per_s / 1e9, 0)
         << " GB/s, products of BF16 do " << Decimal(limits_.bf16_per_s / 1e12, 0) << " TFLOP/s"
         << std::endl;
    return OkStatus();
  }

  Status RunKernel(const std::string& shape, const ModelSpec& spec, const std::string& kernel) {
    if (kernel == "lora") {
      for (const std::string& projection : options_.lora_projections) {
        if (!IsAdapted(spec, projection)) continue;
        ASSIGN_OR_RETURN(const std::vector<CudaKernelCase> cases,
                         CudaLoraCases(*device_, AdaptedProjection(spec, projection),
                                       LoraOptionsOf(options_), options_.cold_bytes));
        RETURN_IF_ERROR(RunGroup(shape, cases));
      }
      return OkStatus();
    }
    if (kernel == "attention") {
      ASSIGN_OR_RETURN(
          const std::vector<CudaKernelCase> cases,
          CudaAttentionCases(*device_, spec, AttentionBatchesOf(options_), options_.cold_bytes));
      return RunGroup(shape, cases);
    }
    if (kernel == "experts") {
      if (!spec.experts) return OkStatus();
      for (const MatrixSize& size : MlpProducts(spec)) {
        ASSIGN_OR_RETURN(const std::vector<CudaKernelCase> cases,
                         CudaExpertsCases(*device_, *fastest_, *spec.experts, size, options_.rows,
                                          options_.cold_bytes));
        RETURN_IF_ERROR(RunGroup(shape, cases));
      }
      return OkStatus();
    }
    for (const MatrixSize& size : LayerProducts(spec)) {
      ASSIGN_OR_RETURN(std::vector<CudaKernelCase> cases,
                       CudaGemmCases(*device_, {.fastest = *fastest_, .invariant = *invariant_},
                                     size, options_.rows, options_.cold_bytes));
      ASSIGN_OR_RETURN(std::vector<CudaKernelCase> quantized,
                       CudaQuantizedCases(*device_, size, options_.rows, options_.cold_bytes));
      for (CudaKernelCase& each : quantized) {
        const auto same = std::ranges::find_if(
            cases, [&](const CudaKernelCase& other) { return other.work.rows == each.work.rows; });
        each.work.compared_to = static_cast<size_t>(same - cases.begin());
      }
      std::ranges::move(quantized, std::back_inserter(cases));
      RETURN_IF_ERROR(RunGroup(shape, cases));
    }
    return OkStatus();
  }

  Status RunGroup(const std::string& shape, const std::vector<CudaKernelCase>& cases) {
    std::vector<KernelWork> work;
    std::vector<std::unique_ptr<CudaGraph>> graphs;
    for (const CudaKernelCase& which : cases) {
      RETURN_IF_ERROR(Annotate(which.check(), StrCat(which.work.kernel, ", ", which.work.operands,
                                                     ", ", which.work.rows, " rows")));
      ASSIGN_OR_RETURN(graphs.emplace_back(), device_->Capture([&] {
        for (int call = 0; call < kCudaCalls; ++call) RETURN_IF_ERROR(which.enqueue(call));
        return OkStatus();
      }));
      work.push_back(which.work);
    }
    std::vector<std::vector<KernelTiming>> timings(cases.size());
    for (int64_t pass = 0; pass < options_.passes; ++pass) {
      for (size_t i = 0; i < cases.size(); ++i) {
        ASSIGN_OR_RETURN(const double seconds, Time(*graphs[i]));
        timings[i].push_back(CompareWithLimit(work[i], seconds, limits_.read_bytes_per_s,
                                              limits_.product_per_s(work[i].format)));
        ASSIGN_OR_RETURN(timings[i].back().empty_seconds, EmptySeconds(cases[i].num_kernels));
      }
    }
    report_.Add(shape, work, timings);
    return OkStatus();
  }

  // Of a call.
  StatusOr<double> Time(CudaGraph& graph) {
    std::vector<double> seconds;
    for (int replay = 0; replay < kReplays; ++replay) {
      const size_t half = flushed_.size_bytes() / 2;
      RETURN_IF_ERROR(device_->CopyWithin(flushed_.data(), flushed_.data() + half, half));
      ASSIGN_OR_RETURN(const double us, device_->TimeUs([&] { return graph.Replay(); }));
      seconds.push_back(us / 1e6 / kCudaCalls);
    }
    return Median(std::move(seconds));
  }

  // Of so many kernels that do nothing, as a call has.
  StatusOr<double> EmptySeconds(int num_kernels) {
    const auto known = empty_seconds_.find(num_kernels);
    if (known != empty_seconds_.end()) return known->second;
    ASSIGN_OR_RETURN(const std::unique_ptr<CudaGraph> graph, device_->Capture([&] {
      for (int i = 0; i < num_kernels * kCudaCalls; ++i) {
        RETURN_IF_ERROR(
            device_->Check(device_->kernels().empty(device_->context()), "the empty kernel"));
      }
      return OkStatus();
    }));
    ASSIGN_OR_RETURN(const double seconds, Time(*graph));
    empty_seconds_[num_kernels] = seconds;
    return seconds;
  }

  const BenchKernelsOptions& options_;
  std::ostream& out_;
  KernelReport report_;
  MachineLimits limits_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<kernels::CudaGemm> fastest_, invariant_;
  kernels::DeviceBuffer flushed_;
  std::map<int, double> empty_seconds_;  // by the number of kernels
};

}  // namespace

Status BenchCudaKernels(const BenchKernelsOptions& options, std::ostream& out) {
  return CudaBench(options, out).Run();
}

}  // namespace aril
