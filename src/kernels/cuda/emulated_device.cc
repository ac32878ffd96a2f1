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

// What the stream has been given and has not run, as late as it may be: when somebody waits for it.
class Queue {
 public:
  emulator::Work& work() { return work_; }
  // Of all that has ever been put there: the number of the next one.
  size_t end() const { return num_run_ + work_.size(); }
  void RunUpTo(size_t end) {
    if (end <= num_run_) return;
    const auto last = work_.begin() + static_cast<std::ptrdiff_t>(end - num_run_);
    for (auto call = work_.begin(); call != last; ++call) (*call)();
    work_.erase(work_.begin(), last);
    num_run_ = end;
  }

 private:
  emulator::Work work_;
  size_t num_run_ = 0;
};

class EmulatedEvent final : public CudaEvent {
 public:
  explicit EmulatedEvent(Queue& queue) : queue_(queue) {}
  Status Record() override {
    place_ = queue_.end();
    return OkStatus();
  }
  Status Wait() override {
    queue_.RunUpTo(place_);
    return OkStatus();
  }

 private:
  Queue& queue_;
  size_t place_ = 0;
};

class EmulatedGraph final : public CudaGraph {
 public:
  // Takes of `free_bytes` what it gives back in the end.
  EmulatedGraph(emulator::Work work, Queue& queue, int64_t& free_bytes)
      : work_(std::move(work)), queue_(queue), free_bytes_(free_bytes) {
    free_bytes_ -= SizeBytes(work_);
  }
  ~EmulatedGraph() override { free_bytes_ += SizeBytes(work_); }
  static int64_t SizeBytes(const emulator::Work& work) {
    return static_cast<int64_t>(work.size()) * kGraphBytesPerCall;
  }
  Status Replay() override {
    queue_.work().insert(queue_.work().end(), work_.begin(), work_.end());
    return OkStatus();
  }

 private:
  emulator::Work work_;
  Queue& queue_;
  int64_t& free_bytes_;
};

class EmulatedDevice final : public CudaDevice {
 public:
  EmulatedDevice(emulator::Order order, int num_multiprocessors, int64_t memory_bytes)
      : stream_{.order = order, .later = &queue_.work()}, free_bytes_(memory_bytes) {
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
  void FreeHost(void* memory) override {
    RunAll();
    ::operator delete(memory, kAlignment);
  }
  StatusOr<void*> Allocate(size_t size_bytes) override {
    RETURN_IF_ERROR(CheckFree(static_cast<int64_t>(size_bytes)));
    void* memory = New(size_bytes);
    free_bytes_ -= static_cast<int64_t>(size_bytes);
    sizes_.emplace(memory, size_bytes);
    return memory;
  }
  // As on a GPU, where what the stream still has to do may need it.
  void Free(void* memory) override {
    RunAll();
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
    return CopyWithin(to, from, size_bytes);
  }
  Status CopyToHost(void* to, const void* from, size_t size_bytes) override {
    RETURN_IF_ERROR(NotInACapture("copying from the device"));
    return CopyWithin(to, from, size_bytes);
  }
  Status CopyWithin(void* to, const void* from, size_t size_bytes) override {
    stream_.later->push_back([=] { std::memmove(to, from, size_bytes); });
    return OkStatus();
  }
  Status Set(void* to, uint8_t byte, size_t size_bytes) override {
    stream_.later->push_back([=] { std::memset(to, byte, size_bytes); });
    return OkStatus();
  }
  Status CopyAside(void* to, const void* from, size_t size_bytes) override {
    std::memcpy(to, from, size_bytes);
    return OkStatus();
  }
  Status Synchronize() override {
    RETURN_IF_ERROR(NotInACapture("waiting for the device"));
    RunAll();
    return OkStatus();
  }
  StatusOr<std::unique_ptr<CudaEvent>> MakeEvent() override {
    return std::unique_ptr<CudaEvent>(std::make_unique<EmulatedEvent>(queue_));
  }
  StatusOr<std::unique_ptr<CudaGraph>> Capture(const Work& enqueue) override {
    RETURN_IF_ERROR(NotInACapture("beginning a capture"));
    emulator::Work work;
    stream_.later = &work;
    const Status enqueued = enqueue();
    stream_.later = &queue_.work();
    RETURN_IF_ERROR(enqueued);
    RETURN_IF_ERROR(CheckFree(EmulatedGraph::SizeBytes(work)));
    return std::unique_ptr<CudaGraph>(
        std::make_unique<EmulatedGraph>(std::move(work), queue_, free_bytes_));
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
  bool is_capturing() { return stream_.later != &queue_.work(); }
  void RunAll() { queue_.RunUpTo(queue_.end()); }
  Status NotInACapture(const std::string& what) {
    if (!is_capturing()) return OkStatus();
    return Internal(what + " (" + name() + "): not while a graph is captured");
  }

  Queue queue_;
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
