// What the steps of a model on a GPU read and write beside activations, and how it grows.

#ifndef ARIL_MODEL_CUDA_STEP_MEMORY_H_
#define ARIL_MODEL_CUDA_STEP_MEMORY_H_

#include <array>
#include <cstddef>

#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "model/backend.h"
#include "model/cuda_step.h"

namespace aril {

// At least so large; what was there is lost, when nobody wants it any more.
template <typename BufferType>
Status ReserveBuffer(kernels::CudaDevice& device, BufferType& buffer, size_t size_bytes) {
  if (size_bytes <= buffer.size_bytes()) return OkStatus();
  RETURN_IF_ERROR(device.Synchronize());  // what is there may still be wanted
  buffer = {};
  ASSIGN_OR_RETURN(buffer, BufferType::Allocate(device, size_bytes));
  return OkStatus();
}

// Of the steps of a kind.
struct CudaStepMemory {
  std::array<kernels::PinnedBuffer, Backend::kMaxStepsUnderWay> host_tables;
  kernels::DeviceBuffer table;
  kernels::DeviceBuffer lora_v;  // fp32

  bool Fits(const CudaStep::Size& size) const;
  // At least so large.
  Status Reserve(kernels::CudaDevice& device, const CudaStep::Size& size);
  // Larger than that: the next step may need a little more.
  Status Grow(kernels::CudaDevice& device, const CudaStep::Size& size);
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_STEP_MEMORY_H_
