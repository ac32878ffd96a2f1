// What the GPU can do at best: as machine_limits.h, of a device.

#ifndef ARIL_APPS_GPU_LIMITS_H_
#define ARIL_APPS_GPU_LIMITS_H_

#include <memory>

#include "apps/machine_limits.h"
#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/gemm/gemm_cuda.h"

namespace aril {

// Measures with memory of its own, on a stream of its own. Used by one thread.
class GpuProbe {
 public:
  // Unavailable without a GPU.
  static StatusOr<std::unique_ptr<GpuProbe>> Create();

  // Of copies on the device, bytes read and written: the median of some.
  StatusOr<double> BytesPerSecond();
  // The bandwidth, and the rates of matrix products of 8192 rows, columns and terms.
  StatusOr<MachineLimits> Measure();

 private:
  GpuProbe() = default;
  StatusOr<double> OperationsPerSecond(DType dtype);

  std::unique_ptr<kernels::CudaDevice> device_;
  std::unique_ptr<kernels::CudaGemm> gemm_;
  kernels::DeviceBuffer from_, to_;
};

}  // namespace aril

#endif  // ARIL_APPS_GPU_LIMITS_H_
