// The kernels that `aril bench kernels` times on the CPU, at a model's sizes, beside what they
// replace. Their operands rotate through more memory than the caches hold, as a model's layers do.

#ifndef ARIL_APPS_BENCH_KERNEL_CASES_H_
#define ARIL_APPS_BENCH_KERNEL_CASES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "apps/bench_kernel_work.h"
#include "kernels/cpu/context.h"
#include "spec/model_spec.h"

namespace aril {

struct KernelCase {
  KernelWork work;
  // Keeps what it needs alive; the context must outlive it.
  std::function<void()> run;
};

// Weights of `size` in `format` (not F32) against BF16 rows: the rows are packed, or rounded to
// bytes, in each call.
std::vector<KernelCase> GemmCases(kernels::CpuContext& context, const MatrixSize& size,
                                  kernels::WeightFormat format, const std::vector<int64_t>& rows,
                                  size_t cold_bytes);

// The segmented operator, a loop over the adapters of the batch, and a batched product after all
// rows' adapters are gathered, padded to the largest rank.
std::vector<KernelCase> LoraCases(kernels::CpuContext& context, const MatrixSize& size,
                                  const LoraCasesOptions& options, size_t cold_bytes);

// BF16.
std::vector<KernelCase> AttentionCases(kernels::CpuContext& context, const ModelSpec& spec,
                                       const std::vector<AttentionBatchShape>& batches,
                                       size_t cold_bytes);

// fp32; of a model with linear attention.
std::vector<KernelCase> DeltaCases(kernels::CpuContext& context, const ModelSpec& spec,
                                   const std::vector<AttentionBatchShape>& batches,
                                   size_t cold_bytes);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_KERNEL_CASES_H_
