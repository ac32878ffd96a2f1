// The GPU behind CudaDevice: the CUDA runtime, linked statically. It loads the driver when it is
// first called, so that this program starts on a machine without one.
//
// Errors of what frees something are not looked at: an error of the device has been reported where
// it was seen first, and comes back from every later call.

#include "kernels/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <mutex>

#include "kernels/cuda/empty_cuda.h"

namespace aril::kernels {
namespace {

// The first whose code waits for the previous kernel by itself (FollowPreviousKernel). What counts
// is what the code was compiled for, not the device that runs it: a newer device may have compiled
// it out of PTX for an older one, which does not wait.
constexpr int kFirstArchitectureWithOverlap = 90;

std::string Describe(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

class GpuGraph final : public CudaGraph {
 public:
  GpuGraph(const CudaDevice& device, cudaGraphExec_t graph, cudaStream_t stream)
      : device_(device), graph_(graph), stream_(stream) {}
  ~GpuGraph() override { (void)cudaGraphExecDestroy(graph_); }
  Status Replay() override {
    return device_.Check(cudaGraphLaunch(graph_, stream_), "launching a graph");
  }

 private:
  const CudaDevice& device_;
  cudaGraphExec_t graph_;
  cudaStream_t stream_;
};

struct DestroyEvent {
  void operator()(CUevent_st* event) const { (void)cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, DestroyEvent>;

class GpuEvent final : public CudaEvent {
 public:
  GpuEvent(const CudaDevice& device, Event event, cudaStream_t stream)
      : device_(device), event_(std::move(event)), stream_(stream) {}
  Status Record() override {
    return device_.Check(cudaEventRecord(event_.get(), stream_), "recording an event");
  }
  Status Wait() override {
    return device_.Check(cudaEventSynchronize(event_.get()), "waiting for the device");
  }

 private:
  const CudaDevice& device_;
  Event event_;
  cudaStream_t stream_;
};

struct DestroyStream {
  void operator()(CUstream_st* stream) const { (void)cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<CUstream_st, DestroyStream>;

struct DestroyGraph {
  void operator()(CUgraph_st* graph) const { (void)cudaGraphDestroy(graph); }
};
using Graph = std::unique_ptr<CUgraph_st, DestroyGraph>;

class Gpu final : public CudaDevice {
 public:
  Gpu(const cudaDeviceProp& properties, const CudaCode& code, Stream stream, Stream aside,
      Event begin, Event end)
      : name_(properties.name),
        owned_stream_(std::move(stream)),
        stream_(owned_stream_.get()),
        aside_(std::move(aside)),
        begin_(std::move(begin)),
        end_(std::move(end)) {
    context_ = {.stream = stream_,
                .num_multiprocessors = properties.multiProcessorCount,
                .overlap = code.architecture >= kFirstArchitectureWithOverlap};
  }

  std::string name() const override { return name_; }
  const CudaKernels& kernels() const override {
    static constexpr CudaKernels kKernels = ARIL_CUDA_KERNELS(cuda);
    return kKernels;
  }

  StatusOr<void*> Allocate(size_t size_bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, size_bytes);
    RETURN_IF_ERROR(CheckMemory(error, std::to_string(size_bytes >> 20) + " MiB in one piece"));
    return memory;
  }
  void Free(void* memory) override { (void)cudaFree(memory); }

  StatusOr<int64_t> FreeBytes() override {
    size_t free = 0, total = 0;
    RETURN_IF_ERROR(Check(cudaMemGetInfo(&free, &total), "asking for free memory"));
    return static_cast<int64_t>(free);
  }

  StatusOr<void*> AllocateHost(size_t size_bytes) override {
    void* memory = nullptr;
    const cudaError_t error = cudaMallocHost(&memory, size_bytes);
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      return ResourceExhausted("the host has no " + std::to_string(size_bytes >> 20) +
                               " MiB of memory that the GPU may read");
    }
    RETURN_IF_ERROR(Check(error, "allocating host memory"));
    return memory;
  }
  void FreeHost(void* memory) override { (void)cudaFreeHost(memory); }

  Status CopyToDevice(void* to, const void* from, size_t size_bytes) override {
    return Check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyHostToDevice, stream_),
                 "copying to the device");
  }
  Status CopyToHost(void* to, const void* from, size_t size_bytes) override {
    return Check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToHost, stream_),
                 "copying from the device");
  }
  Status CopyWithin(void* to, const void* from, size_t size_bytes) override {
    return Check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, stream_),
                 "copying on the device");
  }
  Status Set(void* to, uint8_t byte, size_t size_bytes) override {
    return Check(cudaMemsetAsync(to, byte, size_bytes, stream_), "setting device memory");
  }
  Status CopyAside(void* to, const void* from, size_t size_bytes) override {
    const std::lock_guard lock(aside_mutex_);
    RETURN_IF_ERROR(
        Check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyHostToDevice, aside_.get()),
              "copying to the device"));
    return Check(cudaStreamSynchronize(aside_.get()), "waiting for a copy");
  }
  Status Synchronize() override {
    return Check(cudaStreamSynchronize(stream_), "waiting for the device");
  }
  StatusOr<std::unique_ptr<CudaEvent>> MakeEvent() override {
    cudaEvent_t created = nullptr;
    RETURN_IF_ERROR(
        Check(cudaEventCreateWithFlags(&created, cudaEventDisableTiming), "making an event"));
    return std::unique_ptr<CudaEvent>(std::make_unique<GpuEvent>(*this, Event(created), stream_));
  }
  StatusOr<std::unique_ptr<CudaGraph>> Capture(const Work& enqueue) override {
    // Calls of other threads are none of this capture's business.
    RETURN_IF_ERROR(Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                          "beginning a capture"));
    const Status enqueued = enqueue();
    cudaGraph_t captured = nullptr;
    const Status ended = Check(cudaStreamEndCapture(stream_, &captured), "ending a capture");
    const Graph graph(captured);
    RETURN_IF_ERROR(enqueued);
    RETURN_IF_ERROR(ended);
    cudaGraphExec_t executable = nullptr;
    RETURN_IF_ERROR(CheckMemory(cudaGraphInstantiate(&executable, graph.get(), 0), "a graph"));
    auto owned = std::make_unique<GpuGraph>(*this, executable, stream_);
    // Now, so that no replay has to find memory.
    RETURN_IF_ERROR(CheckMemory(cudaGraphUpload(executable, stream_), "a graph"));
    return std::unique_ptr<CudaGraph>(std::move(owned));
  }
  StatusOr<double> TimeUs(const Work& enqueue) override {
    RETURN_IF_ERROR(Check(cudaEventRecord(begin_.get(), stream_), "recording an event"));
    RETURN_IF_ERROR(enqueue());
    RETURN_IF_ERROR(Check(cudaEventRecord(end_.get(), stream_), "recording an event"));
    RETURN_IF_ERROR(Check(cudaEventSynchronize(end_.get()), "waiting for an event"));
    float ms = 0;
    RETURN_IF_ERROR(Check(cudaEventElapsedTime(&ms, begin_.get(), end_.get()), "reading events"));
    return static_cast<double>(ms) * 1000;
  }
  Status Check(int cuda_error, const std::string& what) const override {
    const auto error = static_cast<cudaError_t>(cuda_error);
    if (error == cudaSuccess) return OkStatus();
    return Internal(what + " (" + name_ + "): " + Describe(error));
  }

 private:
  // Of a call that takes memory of the device, for `what`.
  Status CheckMemory(cudaError_t error, const std::string& what) const {
    if (error != cudaErrorMemoryAllocation) return Check(error, "taking memory for " + what);
    (void)cudaGetLastError();  // the device goes on
    size_t free = 0, total = 0;
    RETURN_IF_ERROR(Check(cudaMemGetInfo(&free, &total), "asking for free memory"));
    return ResourceExhausted("the GPU has no memory for " + what + ": " +
                             std::to_string(free >> 20) + " MiB of " + std::to_string(total >> 20) +
                             " MiB are free");
  }

  std::string name_;
  Stream owned_stream_;
  cudaStream_t stream_;
  std::mutex aside_mutex_;
  Stream aside_;
  Event begin_, end_;
};

Status NotUsable(const std::string& why) { return Unavailable("no CUDA device: " + why); }

}  // namespace

StatusOr<std::unique_ptr<CudaDevice>> OpenCudaDevice() {
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInsufficientDriver) {
    return NotUsable("there is no NVIDIA driver, or it is older than CUDA " +
                     std::to_string(CUDART_VERSION / 1000) + " needs");
  }
  if (counted != cudaSuccess) return NotUsable(Describe(counted));
  if (count == 0) return NotUsable("the driver lists none");
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, 0); error != cudaSuccess) {
    return NotUsable(Describe(error));
  }
  const CudaCode code = cuda::FindEmpty();
  if (code.error != 0) {
    return NotUsable(std::string(properties.name) + ", compute capability " +
                     std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                     ", is not what this program was built for (ARIL_CUDA_ARCHITECTURES): " +
                     Describe(static_cast<cudaError_t>(code.error)));
  }
  Stream streams[2];
  for (Stream& stream : streams) {
    cudaStream_t created = nullptr;
    // Not the default stream: that one cannot be captured, and waits for others.
    if (const cudaError_t error = cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking);
        error != cudaSuccess) {
      return NotUsable(Describe(error));
    }
    stream.reset(created);
  }
  Event events[2];
  for (Event& event : events) {
    cudaEvent_t created = nullptr;
    if (const cudaError_t error = cudaEventCreate(&created); error != cudaSuccess) {
      return NotUsable(Describe(error));
    }
    event.reset(created);
  }
  return std::unique_ptr<CudaDevice>(
      std::make_unique<Gpu>(properties, code, std::move(streams[0]), std::move(streams[1]),
                            std::move(events[0]), std::move(events[1])));
}

}  // namespace aril::kernels
