#include "kernels/cuda/emulated_device.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"

namespace aril::kernels {
namespace {

constexpr auto kAlignment = std::align_val_t{256};
// About what a driver takes for a launch of a graph that may run.
constexpr int64_t kGraphBytesPerCall = 10 << 10;

class EmulatedGraph final : public CudaGraph {
 public:
  // Takes of `free_bytes` what it gives back in the end.
  EmulatedGraph(emulator::Work work, int64_t& free_bytes)
      : work_(std::move(work)), free_bytes_(free_bytes) {
    free_bytes_ -= SizeBytes(work_);
  }
  ~EmulatedGraph() override { free_bytes_ += SizeBytes(work_); }
  static int64_t SizeBytes(const emulator::Work& work) {
    return static_cast<int64_t>(work.size()) * kGraphBytesPerCall;
  }
  Status Replay() override {
    for (const auto& call : work_) call();
    return OkStatus();
  }

 private:
  emulator::Work work_;
  int64_t& free_bytes_;
};

class EmulatedDevice final : public CudaDevice {
 public:
  EmulatedDevice(emulator::Order order, int num_multiprocessors, int64_t memory_bytes)
      : stream_{.order = order}, free_bytes_(memory_bytes) {
    context_ = {.stream = &stream_, .num_multiprocessors = num_multiprocessors, .overlap = true};
  }

  std::string name() const override {
    return stream_.order == emulator::Order::kForward ? "emulator, forward" : "emulator, backward";
  }
  const CudaKernels& kernels() const override {
    static constexpr CudaKernels kKernels = ARIL_CUDA_KERNELS(emulated);
    return kKernels;
  }
  StatusOr<int64_t> FreeBytes() override { return free_bytes_; }
  StatusOr<void*> AllocateHost(size_t size_bytes) override { return New(size_bytes); }
  void FreeHost(void* memory) override { ::operator delete(memory, kAlignment); }
  StatusOr<void*> Allocate(size_t size_bytes) override {
    RETURN_IF_ERROR(CheckFree(static_cast<int64_t>(size_bytes)));
    void* memory = New(size_bytes);
    free_bytes_ -= static_cast<int64_t>(size_bytes);
    sizes_.emplace(memory, size_bytes);
    return memory;
  }
  void Free(void* memory) override {
    const auto found = sizes_.find(memory);
    CHECK(found != sizes_.end());
    free_bytes_ += static_cast<int64_t>(found->second);
    sizes_.erase(found);
    ::operator delete(memory, kAlignment);
  }
  bool OwnsAll(std::span<const std::byte* const> addresses) const override {
    return std::ranges::all_of(addresses, [this](const std::byte* address) {
      const auto after = sizes_.upper_bound(address);
      if (after == sizes_.begin()) return false;
      const auto& [begin, size_bytes] = *std::prev(after);
      return address < static_cast<const std::byte*>(begin) + size_bytes;
    });
  }
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
    RETURN_IF_ERROR(CheckFree(EmulatedGraph::SizeBytes(work)));
    return std::unique_ptr<CudaGraph>(
        std::make_unique<EmulatedGraph>(std::move(work), free_bytes_));
  }
  StatusOr<double> TimeUs(const Work&) override {
    return Unimplemented("the emulator says nothing about time");
  }
  Status Check(int cuda_error, const std::string& what) const override {
    if (cuda_error == 0) return OkStatus();
    return Internal(what + ": error " + std::to_string(cuda_error));
  }

 private:
  static void* New(size_t size_bytes) {
    void* memory = ::operator new(size_bytes, kAlignment);
    std::memset(memory, 0xFF, size_bytes);  // NaN
    return memory;
  }
  Status CheckFree(int64_t size_bytes) const {
    if (size_bytes <= free_bytes_) return OkStatus();
    return ResourceExhausted(name() + " has no " + std::to_string(size_bytes) +
                             " bytes: " + std::to_string(free_bytes_) + " are free");
  }
  Status NotInACapture(const std::string& what) const {
    if (stream_.captured == nullptr) return OkStatus();
    return Internal(what + " (" + name() + "): not while a graph is captured");
  }

  emulator::Stream stream_;
  int64_t free_bytes_;
  std::map<const void*, size_t> sizes_;  // of what is allocated on the device
};

}  // namespace

std::unique_ptr<CudaDevice> MakeEmulatedDevice(emulator::Order order, int num_multiprocessors,
                                               int64_t memory_bytes) {
  return std::make_unique<EmulatedDevice>(order, num_multiprocessors, memory_bytes);
}

}  // namespace aril::kernels
