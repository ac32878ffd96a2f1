// The kernels that `aril bench kernels --device cuda` times, at a model's sizes. As on the CPU,
// operands rotate through more memory than the caches hold.

#ifndef ARIL_APPS_BENCH_CUDA_CASES_H_
#define ARIL_APPS_BENCH_CUDA_CASES_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "apps/bench_kernel_work.h"
#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/gemm/gemm_cuda.h"

namespace aril {

// Calls that are timed together, each with operands of its own.
inline constexpr int kCudaCalls = 16;

// Both functions keep what they need alive, but for the device.
struct CudaKernelCase {
  KernelWork work;
  int num_kernels = 0;  // of a call
  // Puts a call into the stream: one of kCudaCalls, counted from 0. May be captured after a check.
  std::function<Status(int call)> enqueue;
  // Makes the last call, waits for it, and compares its result with the definition in double
  // precision, at places drawn at random. Internal, saying by how much, if it is wrong.
  std::function<Status()> check;
};

struct CudaGemms {
  kernels::CudaGemm& fastest;
  kernels::CudaGemm& invariant;  // as a server has it
};

// Products of BF16; each by the fastest algorithm, and by one that gives the same bits for all
// numbers of rows: the ratio is what batch invariance costs. `gemms` must outlive them.
StatusOr<std::vector<CudaKernelCase>> CudaGemmCases(kernels::CudaDevice& device,
                                                    const CudaGemms& gemms, const MatrixSize& size,
                                                    const std::vector<int64_t>& rows,
                                                    size_t cold_bytes);

// Products of BF16 with matrices of bytes, and of four bits in groups of 32.
StatusOr<std::vector<CudaKernelCase>> CudaQuantizedCases(kernels::CudaDevice& device,
                                                         const MatrixSize& size,
                                                         const std::vector<int64_t>& rows,
                                                         size_t cold_bytes);

// Products of BF16 of the rows of each expert with its matrix, of that size: in one launch, and by
// the library for one expert after the other, for which the host has to know who has which rows.
// Rows choose experts evenly. Their bytes are those of the experts that some row goes to, x, and y.
// `gemm` must outlive them.
StatusOr<std::vector<CudaKernelCase>> CudaExpertsCases(
    kernels::CudaDevice& device, kernels::CudaGemm& gemm, const ExpertsSpec& experts,
    const MatrixSize& size, const std::vector<int64_t>& rows, size_t cold_bytes);

// A shrink and an expand for the whole batch; and such a pair for one adapter after the other.
// Their bytes are the adapters', x, and y twice: each read or written once.
StatusOr<std::vector<CudaKernelCase>> CudaLoraCases(kernels::CudaDevice& device,
                                                    const MatrixSize& size,
                                                    const LoraCasesOptions& options,
                                                    size_t cold_bytes);

// BF16. InvalidArgument for heads that the kernels do not have.
StatusOr<std::vector<CudaKernelCase>> CudaAttentionCases(
    kernels::CudaDevice& device, const ModelSpec& spec,
    const std::vector<AttentionBatchShape>& batches, size_t cold_bytes);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_CUDA_CASES_H_
