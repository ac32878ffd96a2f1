#include "kernels/cuda/emulated_device.h"

#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"

namespace aril::kernels {
namespace {

constexpr auto kAlignment = std::align_val_t{256};
// Says nothing, but must be something.
constexpr int64_t kFreeBytes = int64_t{64} << 20;

class EmulatedGraph final : public CudaGraph {
 public:
  explicit EmulatedGraph(emulator::Work work) : work_(std::move(work)) {}
  Status Replay() override {
    for (const auto& call : work_) call();
    return OkStatus();
  }

 private:
  emulator::Work work_;
};

class EmulatedDevice final : public CudaDevice {
 public:
  EmulatedDevice(emulator::Order order, int num_multiprocessors) : stream_{.order = order} {
    context_ = {.stream = &stream_, .num_multiprocessors = num_multiprocessors, .overlap = true};
  }

  std::string name() const override {
    return stream_.order == emulator::Order::kForward ? "emulator, forward" : "emulator, backward";
  }
  const CudaKernels& kernels() const override {
    static constexpr CudaKernels kKernels = ARIL_CUDA_KERNELS(emulated);
    return kKernels;
  }
  StatusOr<int64_t> FreeBytes() override { return kFreeBytes; }
  StatusOr<void*> AllocateHost(size_t size_bytes) override { return Allocate(size_bytes); }
  void FreeHost(void* memory) override { Free(memory); }
  StatusOr<void*> Allocate(size_t size_bytes) override {
    void* memory = ::operator new(size_bytes, kAlignment);
    std::memset(memory, 0xFF, size_bytes);  // NaN
    return memory;
  }
  void Free(void* memory) override { ::operator delete(memory, kAlignment); }
  Status CopyToDevice(void* to, const void* from, size_t size_bytes) override {
    RETURN_IF_ERROR(NotInACapture("copying to the device"));
    std::memcpy(to, from, size_bytes);
    return OkStatus();
  }
  Status CopyToHost(void* to, const void* from, size_t size_bytes) override {
    RETURN_IF_ERROR(NotInACapture("copying from the device"));
    std::memcpy(to, from, size_bytes);
    return OkStatus();
  }
  Status CopyWithin(void* to, const void* from, size_t size_bytes) override {
    if (stream_.captured == nullptr) {
      std::memmove(to, from, size_bytes);
    } else {
      stream_.captured->push_back([=] { std::memmove(to, from, size_bytes); });
    }
    return OkStatus();
  }
  Status Set(void* to, uint8_t byte, size_t size_bytes) override {
    if (stream_.captured == nullptr) {
      std::memset(to, byte, size_bytes);
    } else {
      stream_.captured->push_back([=] { std::memset(to, byte, size_bytes); });
    }
    return OkStatus();
  }
  Status CopyAside(void* to, const void* from, size_t size_bytes) override {
    std::memcpy(to, from, size_bytes);
    return OkStatus();
  }
  Status Synchronize() override { return NotInACapture("waiting for the device"); }
  StatusOr<std::unique_ptr<CudaGraph>> Capture(const Work& enqueue) override {
    RETURN_IF_ERROR(NotInACapture("beginning a capture"));
    emulator::Work work;
    stream_.captured = &work;
    const Status enqueued = enqueue();
    stream_.captured = nullptr;
    RETURN_IF_ERROR(enqueued);
    return std::unique_ptr<CudaGraph>(std::make_unique<EmulatedGraph>(std::move(work)));
  }
  StatusOr<double> TimeUs(const Work&) override {
    return Unimplemented("the emulator says nothing about time");
  }
  Status Check(int cuda_error, const std::string& what) const override {
    if (cuda_error == 0) return OkStatus();
    return Internal(what + ": error " + std::to_string(cuda_error));
  }

 private:
  Status NotInACapture(const std::string& what) const {
    if (stream_.captured == nullptr) return OkStatus();
    return Internal(what + " (" + name() + "): not while a graph is captured");
  }

  emulator::Stream stream_;
};

}  // namespace

std::unique_ptr<CudaDevice> MakeEmulatedDevice(emulator::Order order, int num_multiprocessors) {
  return std::make_unique<EmulatedDevice>(order, num_multiprocessors);
}

}  // namespace aril::kernels
