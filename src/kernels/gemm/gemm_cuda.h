// Matrix products on a GPU, by cuBLASLt. There is none for the emulator.
//
// Batch invariance. A row's result must not depend on how many rows there are, but no algorithm of
// the library is good for one row and for thousands. Those that do not split k add up in the same
// order, though: a matrix instruction's 16 products at a time, along k, into one sum in fp32. That
// is found here, not assumed: what an algorithm computes is compared bit by bit with what the
// reference gives, for the product at hand, and of those that give the same, which one is taken for
// how many rows is a matter of time alone.

#ifndef ARIL_KERNELS_GEMM_GEMM_CUDA_H_
#define ARIL_KERNELS_GEMM_GEMM_CUDA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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
  // What no call for this W exceeds: the reference of kInvariant can compute up to so many. The
  // same for all of a server, and for servers that are to give the same bits: hence no fewer than
  // usual, unless it is the same bound everywhere.
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
  kFastest,    // what the library advises for the number of rows, to the next power of two
  kInvariant,  // a row's bits do not depend on the number of rows
};

class CudaGemm {
 public:
  virtual ~CudaGemm() = default;
  // Into the device's stream; may be captured once a call of its shape has been made before, which
  // asks the library. Used by one thread at a time.
  virtual Status Run(const CudaGemmArgs& args) = 0;
  // Of kInvariant: finds, for calls like these with up to as many rows, which algorithms are
  // fastest of those that give the reference's bits at both ends of y, by the first and the last
  // W, for some numbers of rows. More rows, and calls that it was not made for, have the reference.
  // The calls are alike but for W and bias, and should be so many that no cache holds all of W; y's
  // stride is n. Their x holds numbers as usual; their y is overwritten. Waits for the device.
  // Internal if not even the reference gives the same bits for all numbers of rows.
  virtual Status Prepare(std::span<const CudaGemmArgs> calls) = 0;
};

// Unavailable, naming the files that were tried, if the library is not there. `device` must outlive
// the result. `library`: a file name as for dlopen; empty: where CUDA installs it.
StatusOr<std::unique_ptr<CudaGemm>> OpenCudaGemm(CudaDevice& device, GemmChoice choice,
                                                 const std::string& library = "");

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_GEMM_CUDA_H_
