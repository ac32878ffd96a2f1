#include "runner/compute_device.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "kernels/lora/lora_cuda.h"
#include "model/cpu_backend.h"
#include "model/cuda_arena.h"
#include "model/cuda_backend.h"
#include "model/cuda_weights.h"

namespace aril {
namespace {

constexpr double kPoolShareOfFreeHostMemory = 0.4;

// What is left beside the pool: for graphs, whose number CudaBackend bounds, for what the driver
// and the libraries load later, and for tables that grow with the load.
struct Reserve {
  double share;
  int64_t at_least;  // but no more than half of what the model leaves
};
constexpr Reserve kReserveByDefault = {0.1, int64_t{2} << 30};
constexpr Reserve kSmallestReserve = {0.05, int64_t{1} << 30};

int64_t PoolBeside(const Reserve& reserve, int64_t bytes) {
  const auto share = static_cast<int64_t>(reserve.share * static_cast<double>(bytes));
  return bytes - std::max(share, std::min(reserve.at_least, bytes / 2));
}

int64_t MachineMemory() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

// MemAvailable of /proc/meminfo, in bytes.
StatusOr<int64_t> AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return FailedPrecondition("cannot read MemAvailable from /proc/meminfo; give --pool-bytes");
}

class Cpu final : public ComputeDevice {
 public:
  explicit Cpu(kernels::CpuContext& context) : context_(context) {}

  std::string name() const override { return StrCat(context_.isa()); }
  bool has_float16() const override { return false; }
  std::string memory_owner() const override { return "this machine"; }
  Status CheckModel(const ModelSpec&, const BackendOptions&) const override { return OkStatus(); }
  Status CheckAdapter(const LoraSpec&) const override { return OkStatus(); }
  StatusOr<PoolMemory> MemoryForPool(const Checkpoint&, const ModelSpec&,
                                     const BackendOptions&) const override {
    PoolMemory memory{.most = MachineMemory(), .by_default = AvailableMemory(), .is_shared = true};
    if (memory.by_default.ok()) {
      memory.by_default = static_cast<int64_t>(kPoolShareOfFreeHostMemory *
                                               static_cast<double>(*memory.by_default));
    }
    return memory;
  }
  StatusOr<std::unique_ptr<Backend>> LoadBackend(Checkpoint checkpoint, const ModelSpec& spec,
                                                 const BackendOptions& options) override {
    ASSIGN_OR_RETURN(PackedWeights weights,
                     LoadWeights(std::move(checkpoint), spec, options.dtype, options.quantization,
                                 context_, options.progress));
    return std::unique_ptr<Backend>(
        std::make_unique<CpuBackend>(spec, options.layout, std::move(weights), options.max_rows,
                                     options.max_positions, context_));
  }
  StatusOr<std::unique_ptr<Arena>> MakeArena(int32_t num_pages, int64_t page_bytes) override {
    return std::unique_ptr<Arena>(std::make_unique<HostArena>(num_pages, page_bytes));
  }

 private:
  kernels::CpuContext& context_;
};

class CudaGpu final : public ComputeDevice {
 public:
  CudaGpu(Gpu gpu, ThreadPool& threads) : gpu_(std::move(gpu)), threads_(threads) {}

  std::string name() const override { return gpu_.device->name(); }
  bool has_float16() const override { return true; }
  std::string memory_owner() const override { return "the GPU"; }
  Status CheckModel(const ModelSpec& spec, const BackendOptions& options) const override {
    return CudaBackend::Supports(spec, options.layout);
  }
  Status CheckAdapter(const LoraSpec& spec) const override {
    if (spec.MaxRank() > kernels::kLoraMaxExpandRank) {
      return InvalidArgument(StrCat(
          "the adapter has rank ", spec.MaxRank(), ", and the GPU backend serves ranks up to ",
          kernels::kLoraMaxExpandRank, ": start the server with ", "--device cpu"));
    }
    return OkStatus();
  }
  StatusOr<PoolMemory> MemoryForPool(const Checkpoint& checkpoint, const ModelSpec& spec,
                                     const BackendOptions& options) const override {
    ASSIGN_OR_RETURN(const int64_t free, gpu_.device->FreeBytes());
    const int64_t weights =
        DeviceWeightBytes(checkpoint, spec, options.dtype, options.quantization);
    const int64_t activations =
        CudaBackend::ActivationBytes(spec, options.layout, options.max_rows, options.max_positions);
    const int64_t rest = free - weights - activations;
    if (rest <= 0) {
      return ResourceExhausted(StrCat(
          "the model's weights in ", options.dtype, " take ", weights >> 20, " MiB and a ",
          "step of ", options.max_rows, " rows ", activations >> 20, " MiB, and the GPU has ",
          free >> 20, " MiB free: use a smaller model or dtype, or ",
          "--quantization int8 or int4, or lower ", "--max-num-batched-tokens"));
    }
    return PoolMemory{.most = PoolBeside(kSmallestReserve, rest),
                      .by_default = PoolBeside(kReserveByDefault, rest)};
  }
  StatusOr<std::unique_ptr<Backend>> LoadBackend(Checkpoint checkpoint, const ModelSpec& spec,
                                                 const BackendOptions& options) override {
    ASSIGN_OR_RETURN(
        DeviceWeights weights,
        LoadDeviceWeights(std::move(checkpoint), spec, options.dtype, options.quantization,
                          *gpu_.device, threads_, options.progress));
    LogInfo("trying algorithms of matrix products");
    ASSIGN_OR_RETURN(
        std::unique_ptr<CudaBackend> backend,
        CudaBackend::Create(*gpu_.device, std::move(gpu_.gemm), spec, options.layout,
                            std::move(weights), options.max_rows, options.max_positions));
    LogInfo("chose the algorithms of matrix products");
    return std::unique_ptr<Backend>(std::move(backend));
  }
  StatusOr<std::unique_ptr<Arena>> MakeArena(int32_t num_pages, int64_t page_bytes) override {
    ASSIGN_OR_RETURN(std::unique_ptr<CudaArena> arena,
                     CudaArena::Create(*gpu_.device, num_pages, page_bytes));
    return std::unique_ptr<Arena>(std::move(arena));
  }

 private:
  Gpu gpu_;
  ThreadPool& threads_;
};

}  // namespace

StatusOr<Gpu> OpenGpu() {
  Gpu gpu;
  ASSIGN_OR_RETURN(gpu.device, kernels::OpenCudaDevice());
  ASSIGN_OR_RETURN(gpu.gemm, kernels::OpenCudaGemm(*gpu.device, kernels::GemmChoice::kInvariant));
  return gpu;
}

StatusOr<std::unique_ptr<ComputeDevice>> ChooseDevice(
    const std::string& option, kernels::CpuContext& context,
    const std::function<StatusOr<Gpu>()>& open_gpu) {
  if (option != "auto" && option != "cpu" && option != "cuda") {
    return InvalidArgument(StrCat("--device ", option, " is unknown; use auto, cpu or cuda"));
  }
  if (option != "cpu") {
    StatusOr<Gpu> gpu = open_gpu();
    if (gpu.ok()) {
      return std::unique_ptr<ComputeDevice>(
          std::make_unique<CudaGpu>(*std::move(gpu), context.threads()));
    }
    if (option == "cuda") return InvalidArgument(StrCat("--device cuda: ", Message(gpu.status())));
    LogInfo(StrCat("--device auto: the CPU (", Message(gpu.status()), ")"));
  }
  return std::unique_ptr<ComputeDevice>(std::make_unique<Cpu>(context));
}

}  // namespace aril
