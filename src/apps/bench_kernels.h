// `aril bench kernels`: each kernel against what this machine can do at best, and the LoRA operator
// beside what it replaces.

#ifndef ARIL_APPS_BENCH_KERNELS_H_
#define ARIL_APPS_BENCH_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "apps/bench_kernel_work.h"
#include "apps/machine_limits.h"
#include "base/clock.h"
#include "base/status.h"

namespace aril {

// "gemm", "gemm-int8", "gemm-int4", "gemm-fp8", "gemm-codebook4", "gemm-codebook4-by-32",
// "lora", "attention", "experts";
// not every device has all of them.
const std::vector<std::string>& BenchKernelNames();

struct BenchKernelsOptions {
  std::vector<std::string> shapes = {"tinyllama-1.1b"};
  std::vector<std::string> kernels = {};  // empty: all that the device has
  std::string device = "cpu";             // or cuda
  std::string isa = "auto";
  int threads = 0;                                      // 0: one per core
  std::vector<int64_t> rows = {1, 8, 16, 32, 64, 512};  // of products
  std::vector<int64_t> lora_rows = {1, 16, 64};
  std::vector<std::string> lora_projections = {"q"};
  // How many rows of a batch each adapter serves; empty: as popularities say.
  std::vector<int64_t> lora_segment_rows;
  std::vector<int64_t> ranks = {16};  // of adapters, in turns
  std::vector<int64_t> contexts = {128, 2048, 8192};
  int64_t sequences = 8;         // that decode
  int64_t prefill_tokens = 512;  // of attention; 0: none
  int64_t passes = 5;
  Duration duration = std::chrono::milliseconds(50);  // of each timing, and of the probes beside it
  size_t cold_bytes = size_t{768} << 20;  // that operands rotate through: more than the caches
  size_t probe_bytes = MachineProbe::kMemoryBytes;
  std::string json_path;  // empty: none
};

// What the options ask for.
std::vector<std::string> KernelsOf(const BenchKernelsOptions& options);
LoraCasesOptions LoraOptionsOf(const BenchKernelsOptions& options);
std::vector<AttentionBatchShape> AttentionBatchesOf(const BenchKernelsOptions& options);
// InvalidArgument for a shape that is none.
StatusOr<ModelSpec> SpecOfShape(const std::string& shape);

// Prints a table for each group of kernels that share operands: microseconds of a call, and the
// share of the limit (bytes over the bandwidth probed before and after, or operations over the peak
// rate of that pass, whichever takes longer). Medians of the passes, in which the cases of a group
// take turns. On a GPU: bench_cuda_kernels.h. InvalidArgument for names that are none.
Status BenchKernels(const BenchKernelsOptions& options, std::ostream& out, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_BENCH_KERNELS_H_
