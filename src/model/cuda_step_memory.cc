#include "model/cuda_step_memory.h"

#include <algorithm>

namespace aril {
namespace {

constexpr size_t kFirstTableBytes = size_t{1} << 20;

size_t VBytes(const CudaStep::Size& size) {
  return static_cast<size_t>(size.v_floats) * sizeof(float);
}

}  // namespace

bool CudaStepMemory::Fits(const CudaStep::Size& size) const {
  return VBytes(size) <= lora_v.size_bytes() && size.table_bytes <= table.size_bytes();
}

Status CudaStepMemory::Reserve(kernels::CudaDevice& device, const CudaStep::Size& size) {
  RETURN_IF_ERROR(ReserveBuffer(device, lora_v, VBytes(size)));
  for (kernels::PinnedBuffer& host_table : host_tables) {
    RETURN_IF_ERROR(ReserveBuffer(device, host_table, size.table_bytes));
  }
  return ReserveBuffer(device, table, size.table_bytes);
}

Status CudaStepMemory::Grow(kernels::CudaDevice& device, const CudaStep::Size& size) {
  return Reserve(device, {std::max(kFirstTableBytes, 2 * size.table_bytes), 2 * size.v_floats});
}

}  // namespace aril
