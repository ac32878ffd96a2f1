#include "kernels/gemm/gemm_layout.h"

#include "base/checked.h"
#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {

const GemmKernel& KernelFor(const CpuContext& context, WeightFormat format) {
  const CpuKernels& kernels = context.kernels();
  switch (format) {
    case WeightFormat::kF32:
      return kernels.gemm_f32;
    case WeightFormat::kBF16:
      return kernels.gemm_bf16;
    case WeightFormat::kInt8:
      return kernels.gemm_int8;
    case WeightFormat::kInt4:
      break;
  }
  return kernels.gemm_int4;
}

int64_t XWords(int64_t k, WeightFormat format, const GemmKernel& kernel) {
  if (format == WeightFormat::kInt4) return CeilDiv(k, kInt4GroupSize) * kInt4XWords;
  const int64_t per_group = format == WeightFormat::kInt8   ? 4
                            : format == WeightFormat::kBF16 ? 2
                                                            : 1;
  return RoundUp(CeilDiv(k, per_group), kernel.x_multiple);
}

int64_t BlockWords(const GemmKernel& kernel, int64_t x_words) {
  if (kernel.layout != GemmKernel::Layout::kNibblePanels) return x_words * kernel.block_cols;
  return x_words / kInt4XWords * kernel.block_cols * kInt4GroupBytes / 4;
}

}  // namespace aril::kernels
