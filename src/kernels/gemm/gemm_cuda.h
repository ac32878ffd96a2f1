// Matrix products on a GPU, by cuBLASLt. The library is loaded when it is asked for: it has half a
// gigabyte, which a program without a GPU must not need. There is none for the emulator.

#ifndef ARIL_KERNELS_GEMM_GEMM_CUDA_H_
#define ARIL_KERNELS_GEMM_GEMM_CUDA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "tensor/dtype.h"

namespace aril::kernels {

// Rows of a usual server's largest step.
inline constexpr int64_t kUsualGemmRows = 8192;

// y [rows, n] fp32 = x [rows, k] · Wᵀ + bias [n]. Device addresses, all but bias at multiples of 16
// bytes; strides, in elements, likewise.
struct CudaGemmArgs {
  DType dtype = DType::kBF16;  // of x and W: kF32 (in full precision, not TF32), kBF16 or kF16
  int64_t rows = 0;
  // What no call for this W exceeds: kFixed chooses what can compute up to so many. The same for
  // all of a server, and for servers that are to give the same bits: hence no fewer than usual,
  // unless it is the same bound everywhere.
  int64_t max_rows = kUsualGemmRows;
  int64_t n = 0;
  int64_t k = 0;
  const std::byte* x = nullptr;
  int64_t x_stride = 0;
  const std::byte* w = nullptr;  // [n, k], one row behind the other
  const float* bias = nullptr;   // or null: zeros
  float* y = nullptr;
  int64_t y_stride = 0;
};

enum class GemmChoice {
  kFastest,  // by the number of rows, to the next power of two
  kFixed,    // one algorithm without split K for all numbers of rows: the batch-invariant mode
};

class CudaGemm {
 public:
  virtual ~CudaGemm() = default;
  // Into the device's stream; may be captured once a call of its shape has been made before, which
  // chooses the algorithm. Used by one thread at a time.
  virtual Status Run(const CudaGemmArgs& args) = 0;
};

// Unavailable, naming the files that were tried, if the library is not there. `device` must outlive
// the result. `library`: a file name as for dlopen; empty: where CUDA installs it.
StatusOr<std::unique_ptr<CudaGemm>> OpenCudaGemm(CudaDevice& device, GemmChoice choice,
                                                 const std::string& library = "");

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_CUDA_H_
