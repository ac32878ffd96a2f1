// Where a runner's model is computed and its pool lies: this machine's cores, or its GPU.

#ifndef ARIL_RUNNER_COMPUTE_DEVICE_H_
#define ARIL_RUNNER_COMPUTE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "adapters/adapter.h"
#include "base/status.h"
#include "kernels/attention/kv_layout.h"
#include "kernels/cpu/context.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/gemm/gemm_cuda.h"
#include "memory/arena.h"
#include "model/backend.h"
#include "model/weights.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"

namespace aril {

// A GPU with a library of matrix products for it.
struct Gpu {
  std::unique_ptr<kernels::CudaDevice> device;
  std::unique_ptr<kernels::CudaGemm> gemm;
};

// The first of this machine, with products whose rows have the same bits among any others.
// Unavailable, as OpenCudaDevice and OpenCudaGemm.
StatusOr<Gpu> OpenGpu();

// What there is for a pool beside the model, in bytes.
struct PoolMemory {
  int64_t most = 0;
  StatusOr<int64_t> by_default = int64_t{0};  // unless told otherwise
  // Whether what no limit of the runner could use is left to others.
  bool is_shared = false;
};

struct BackendOptions {
  DType dtype = DType::kF32;
  Quantization quantization = Quantization::kNone;
  kernels::KvLayout layout;
  int64_t max_rows = 0;
  int64_t max_positions = 0;
  LoadProgress progress;
};

// Must outlive what it makes. CheckAdapter: any thread; the others, the one that made it.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  // For people: "avx512", "NVIDIA H200".
  virtual std::string name() const = 0;
  virtual bool has_float16() const = 0;
  // Of the messages about memory: "this machine", "the GPU".
  virtual std::string memory_owner() const = 0;
  // InvalidArgument for a model, or an adapter, that cannot be computed here as it is.
  virtual Status CheckModel(const ModelSpec& spec, const BackendOptions& options) const = 0;
  virtual Status CheckAdapter(const LoraSpec& spec) const = 0;
  // Before the model of these files is loaded. ResourceExhausted if that has no room.
  virtual StatusOr<PoolMemory> MemoryForPool(const Checkpoint& checkpoint, const ModelSpec& spec,
                                             const BackendOptions& options) const = 0;
  // Once.
  virtual StatusOr<std::unique_ptr<Backend>> LoadBackend(Checkpoint checkpoint,
                                                         const ModelSpec& spec,
                                                         const BackendOptions& options) = 0;
  virtual StatusOr<std::unique_ptr<Arena>> MakeArena(int32_t num_pages, int64_t page_bytes) = 0;
};

// That of `--device` ("auto", "cpu", "cuda"). auto: the GPU if
// there is one that can be used, else the CPU, and why is logged. `open_gpu`: as OpenGpu.
// InvalidArgument for another name, and for a GPU that cannot be used. The context must outlive it.
StatusOr<std::unique_ptr<ComputeDevice>> ChooseDevice(
    const std::string& option, kernels::CpuContext& context,
    const std::function<StatusOr<Gpu>()>& open_gpu);

}  // namespace aril

#endif  // ARIL_RUNNER_COMPUTE_DEVICE_H_
