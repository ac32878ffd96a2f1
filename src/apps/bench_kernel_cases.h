// The kernels that `aril bench kernels` times, at a model's sizes, beside what they replace. Their
// operands rotate through more memory than the caches hold, as a model's layers do.

#ifndef ARIL_APPS_BENCH_KERNEL_CASES_H_
#define ARIL_APPS_BENCH_KERNEL_CASES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/bench_popularity.h"
#include "kernels/cpu/context.h"
#include "spec/model_spec.h"
#include "tensor/dtype.h"

namespace aril {

struct KernelCase {
  std::string kernel;    // "gemm", "lora", "lora, loop over adapters", …
  std::string operands;  // "qkv 2048 to 2560", "distinct", …
  int64_t rows = 0;
  DType dtype = DType::kBF16;  // of what it multiplies with
  // Of a call, on average: of weights, adapters, or K and V.
  double bytes = 0;
  double operations = 0;
  // The case of the same list that it is an alternative to; itself if it is none.
  size_t compared_to = 0;
  // Keeps what it needs alive; the context must outlive it.
  std::function<void()> run;
};

// Weights of [n, k] in `dtype` (BF16 or I8) against BF16 rows: the rows are packed, or rounded to
// bytes, in each call.
std::vector<KernelCase> GemmCases(kernels::CpuContext& context, const std::string& name, int64_t k,
                                  int64_t n, DType dtype, const std::vector<int64_t>& rows,
                                  size_t cold_bytes);

struct LoraCasesOptions {
  std::vector<int64_t> ranks;  // of adapters, in turns
  std::vector<int64_t> rows;   // of batches
  // How the rows of a batch share adapters: as popular as this, or so many rows with each.
  std::vector<PopularityKind> popularities;
  std::vector<int64_t> segment_rows;
};

// The segmented operator, a loop over the adapters of the batch, and a batched product after all
// rows' adapters are gathered, padded to the largest rank.
std::vector<KernelCase> LoraCases(kernels::CpuContext& context, int64_t in, int64_t out,
                                  const LoraCasesOptions& options, size_t cold_bytes);

// `sequences` of them decode, each with so many tokens; and one computes a prompt of
// `prefill_tokens` (0: none). BF16.
std::vector<KernelCase> AttentionCases(kernels::CpuContext& context, const ModelSpec& spec,
                                       const std::vector<int64_t>& contexts, int64_t sequences,
                                       int64_t prefill_tokens, size_t cold_bytes);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_KERNEL_CASES_H_
