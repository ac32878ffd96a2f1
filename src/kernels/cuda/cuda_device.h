// A place where CUDA kernels run: a GPU, or the emulator on the host.
//
// Everything that it does is in the order of its one stream, but for CopyAside. Used by one thread
// at a time, but for that, too.

#ifndef ARIL_KERNELS_CUDA_CUDA_DEVICE_H_
#define ARIL_KERNELS_CUDA_CUDA_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/kernel_table.h"

namespace aril::kernels {

// Launches with all their arguments, to be run again and again: what they read, tables too, is what
// lies at those addresses then. Takes memory of the device. Must not outlive its device.
class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  virtual Status Replay() = 0;
};

// A place in the order of the stream. Must not outlive its device.
class CudaEvent {
 public:
  virtual ~CudaEvent() = default;
  // Behind all that the stream has been given so far.
  virtual Status Record() = 0;
  // Until the stream has come to where it was recorded last. Errors as of Synchronize.
  virtual Status Wait() = 0;
};

class CudaDevice {
 public:
  using Work = std::function<Status()>;

  virtual ~CudaDevice() = default;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  // For people: "NVIDIA H200".
  virtual std::string name() const = 0;
  virtual const CudaKernels& kernels() const = 0;
  // For launches on this device's stream.
  const CudaContext& context() const { return context_; }

  // Memory aligned to 256 bytes, not initialized. ResourceExhausted if there is not enough, with
  // what there is.
  virtual StatusOr<void*> Allocate(size_t size_bytes) = 0;
  virtual void Free(void* memory) = 0;
  // Whether all of these lie in memory that Allocate gave. The emulator knows, so that it finds
  // addresses of the host where kernels need those of the device; a GPU says yes without looking.
  virtual bool OwnsAll(std::span<const std::byte* const>) const { return true; }

  // Of its memory, what nobody has taken.
  virtual StatusOr<int64_t> FreeBytes() = 0;

  // Copies between host and device, in the stream's order: the host's memory may be used again
  // after Synchronize, or after an event behind the copy.
  virtual Status CopyToDevice(void* to, const void* from, size_t size_bytes) = 0;
  virtual Status CopyToHost(void* to, const void* from, size_t size_bytes) = 0;

  virtual Status CopyWithin(void* to, const void* from, size_t size_bytes) = 0;
  // Sets every byte of it.
  virtual Status Set(void* to, uint8_t byte, size_t size_bytes) = 0;

  // Memory of the host that the device reads and writes by itself. ResourceExhausted as above.
  virtual StatusOr<void*> AllocateHost(size_t size_bytes) = 0;
  virtual void FreeHost(void* memory) = 0;

  // Copies beside the stream, and returns when that is done: any thread.
  virtual Status CopyAside(void* to, const void* from, size_t size_bytes) = 0;

  // Waits for all work of the stream. Internal if a kernel failed: the device can then not be used
  // any more by this process.
  virtual Status Synchronize() = 0;
  virtual StatusOr<std::unique_ptr<CudaEvent>> MakeEvent() = 0;

  // Records what `enqueue` puts into the stream, without running it. It must launch kernels and
  // copy within the device, and nothing else. ResourceExhausted if the device has not the memory
  // that the graph takes; the device goes on.
  virtual StatusOr<std::unique_ptr<CudaGraph>> Capture(const Work& enqueue) = 0;
  // The time that the device takes for what `enqueue` puts into the stream, in microseconds.
  // Unimplemented in the emulator, where time means nothing.
  virtual StatusOr<double> TimeUs(const Work& enqueue) = 0;

  // The Status of what a kernel's launch returned; `what` names it.
  virtual Status Check(int cuda_error, const std::string& what) const = 0;

 protected:
  CudaDevice() = default;
  CudaContext context_;
};

enum class CudaMemory { kDevice, kHost };

// Owns memory of a device, or of the host for it. The device must outlive it.
template <CudaMemory kPlace>
class CudaBuffer {
 public:
  CudaBuffer() = default;
  static StatusOr<CudaBuffer> Allocate(CudaDevice& device, size_t size_bytes) {
    ASSIGN_OR_RETURN(void* memory, kPlace == CudaMemory::kDevice ? device.Allocate(size_bytes)
                                                                 : device.AllocateHost(size_bytes));
    return CudaBuffer(device, memory, size_bytes);
  }
  CudaBuffer(CudaBuffer&& other) noexcept { *this = std::move(other); }
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }
  ~CudaBuffer() {
    if (memory_ == nullptr) return;
    kPlace == CudaMemory::kDevice ? device_->Free(memory_) : device_->FreeHost(memory_);
  }

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  size_t size_bytes() const { return size_bytes_; }

 private:
  CudaBuffer(CudaDevice& device, void* memory, size_t size_bytes)
      : device_(&device), memory_(memory), size_bytes_(size_bytes) {}

  CudaDevice* device_ = nullptr;
  void* memory_ = nullptr;
  size_t size_bytes_ = 0;
};
using DeviceBuffer = CudaBuffer<CudaMemory::kDevice>;
using PinnedBuffer = CudaBuffer<CudaMemory::kHost>;

// The first GPU of this machine. Unavailable, saying why, if there is none that can be used: no
// driver, no device, no code for this device in the program, or a program built without CUDA.
StatusOr<std::unique_ptr<CudaDevice>> OpenCudaDevice();

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CUDA_CUDA_DEVICE_H_
