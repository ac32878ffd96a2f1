#include "kernels/gemm/gemm_layout.h"

#include "base/checked.h"
#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {

const GemmKernel& KernelFor(const CpuContext& context, WeightFormat format, DType x) {
  const CpuKernels& kernels = context.kernels();
  if (format == WeightFormat::kInt4) return kernels.gemm_int4;
  if (format == WeightFormat::kInt8) return kernels.gemm_int8;
  if (format == WeightFormat::kFloat8) {
    return x == DType::kF32 ? kernels.gemm_float8_f32 : kernels.gemm_float8_bf16;
  }
  if (format == WeightFormat::kCodebook4) {
    return x == DType::kF32 ? kernels.gemm_codebook4_f32 : kernels.gemm_codebook4_bf16;
  }
  if (format == WeightFormat::kCodebook4By32) {
    return x == DType::kF32 ? kernels.gemm_codebook4_by_32_f32 : kernels.gemm_codebook4_by_32_bf16;
  }
  return format == WeightFormat::kF32 ? kernels.gemm_f32 : kernels.gemm_bf16;
}

int64_t XWords(int64_t k, WeightFormat format, const GemmKernel& kernel) {
  if (format == WeightFormat::kInt4) return CeilDiv(k, kInt4GroupSize) * kInt4XWords;
  if (format == WeightFormat::kFloat8) return CeilDiv(k, kFloat8GroupSize) * kernel.x_multiple;
  if (IsCodebook4(format)) return CeilDiv(k, kernel.group_size) * kernel.x_multiple;
  const int64_t per_group = format == WeightFormat::kInt8   ? 4
                            : format == WeightFormat::kBF16 ? 2
                                                            : 1;
  return RoundUp(CeilDiv(k, per_group), kernel.x_multiple);
}

int64_t BlockWords(const GemmKernel& kernel, int64_t x_words) {
  switch (kernel.layout) {
    case GemmKernel::Layout::kNibblePanels:
      return x_words / kInt4XWords * kernel.block_cols * kInt4GroupBytes / 4;
    case GemmKernel::Layout::kFloat8Panels:
      return x_words / kernel.x_multiple * kernel.block_cols * kFloat8GroupSize / 4;
    case GemmKernel::Layout::kCodebookPanels:
      return x_words / kernel.x_multiple * kernel.block_cols *
             Codebook4GroupBytes(kernel.group_size) / 4;
    default:
      return x_words * kernel.block_cols;
  }
}

}  // namespace aril::kernels
