#include "kernels/cpu/kernel_table.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/activation/activation_cpu.h"
#include "kernels/attention/attention_cpu.h"
#include "kernels/cpu/context.h"
#include "kernels/gated_delta/gated_delta_cpu.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/lora/lora_cpu.h"
#include "kernels/norm/norm_cpu.h"
#include "kernels/probe/probe_cpu.h"
#include "kernels/rope/rope_cpu.h"

namespace aril::kernels {
namespace {

GemmKernel TiledGemm(GemmBlockFunction run, int64_t block_cols) {
  return {
      .run = run, .block_cols = block_cols, .x_multiple = 1, .layout = GemmKernel::Layout::kPanels};
}

GemmKernel NibbleGemm(GemmBlockFunction run, int64_t block_cols) {
  return {.run = run,
          .block_cols = block_cols,
          .x_multiple = kInt4XWords,
          .layout = GemmKernel::Layout::kNibblePanels};
}

GemmKernel Float8Gemm(GemmBlockFunction run, int64_t block_cols, int64_t lanes,
                      int64_t group_words) {
  return {.run = run,
          .block_cols = block_cols,
          .x_multiple = group_words,
          .layout = GemmKernel::Layout::kFloat8Panels,
          .lanes = lanes};
}

GemmKernel CodebookGemm(GemmBlockFunction run, int64_t block_cols, int64_t group_size,
                        bool has_pairs = false) {
  return {.run = run,
          .block_cols = block_cols,
          .x_multiple = has_pairs ? group_size / 2 : group_size,
          .layout = GemmKernel::Layout::kCodebookPanels,
          .group_size = group_size,
          .widens_bf16 = !has_pairs};
}

// The functions of one namespace: the same names in each.
#define ARIL_KERNEL_TABLE(id, ns)                                                                  \
  CpuKernels {                                                                                     \
    .isa = id, .gemm_f32 = TiledGemm(ns::GemmBlockF32, ns::kGemmBlockCols),                        \
    .gemm_bf16 = TiledGemm(ns::GemmBlockBF16, ns::kGemmBlockCols),                                 \
    .gemm_int8 = TiledGemm(ns::GemmBlockInt8, ns::kGemmBlockCols),                                 \
    .gemm_int4 = NibbleGemm(ns::GemmBlockInt4, ns::kGemmInt4BlockCols),                            \
    .gemm_float8_f32 = Float8Gemm(ns::GemmBlockFloat8F32, ns::kGemmBlockCols,                      \
                                  ns::kGemmFloat8Lanes, kFloat8GroupSize),                         \
    .gemm_float8_bf16 = Float8Gemm(ns::GemmBlockFloat8BF16, ns::kGemmBlockCols,                    \
                                   ns::kGemmFloat8Lanes, kFloat8GroupSize / 2),                    \
    .gemm_codebook4_f32 =                                                                          \
        CodebookGemm(ns::GemmBlockCodebook4F32, ns::kGemmBlockCols, kCodebook4GroupSize),          \
    .gemm_codebook4_bf16 = CodebookGemm(ns::GemmBlockCodebook4BF16, ns::kGemmBlockCols,            \
                                        kCodebook4GroupSize, ns::kGemmCodebook4HasPairs),          \
    .gemm_codebook4_by_32_f32 =                                                                    \
        CodebookGemm(ns::GemmBlockCodebook4By32F32, ns::kGemmBlockCols, kCodebook4SmallGroupSize), \
    .gemm_codebook4_by_32_bf16 =                                                                   \
        CodebookGemm(ns::GemmBlockCodebook4By32BF16, ns::kGemmBlockCols, kCodebook4SmallGroupSize, \
                     ns::kGemmCodebook4HasPairs),                                                  \
    .quantize_row_f32 = ns::QuantizeRowF32, .quantize_row_bf16 = ns::QuantizeRowBF16,              \
    .quantize_groups_f32 = ns::QuantizeGroupsF32, .quantize_groups_bf16 = ns::QuantizeGroupsBF16,  \
    .lora_shrink_f32 = ns::LoraShrinkF32, .lora_shrink_bf16 = ns::LoraShrinkBF16,                  \
    .lora_expand_f32 = ns::LoraExpandF32, .lora_expand_bf16 = ns::LoraExpandBF16,                  \
    .lora_gain_f32 = ns::LoraGainF32, .lora_gain_bf16 = ns::LoraGainBF16,                          \
    .attention_f32 = {ns::AttentionTileF32, kAttentionVectorQueries},                              \
    .attention_bf16 = {ns::AttentionTileBF16, kAttentionVectorQueries},                            \
    .norm_row_f32 = ns::NormRowF32, .norm_row_bf16 = ns::NormRowBF16, .delta_conv = ns::DeltaConv, \
    .delta_tile = ns::DeltaScan, .delta_norm_row_f32 = ns::DeltaNormRowF32,                        \
    .delta_norm_row_bf16 = ns::DeltaNormRowBF16, .rope_head_f32 = ns::RopeHeadF32,                 \
    .rope_head_bf16 = ns::RopeHeadBF16, .glu_row_f32 = ns::GluRowF32,                              \
    .glu_row_bf16 = ns::GluRowBF16, .softcap_row = ns::SoftcapValues,                              \
    .gate_row_f32 = ns::GateRowF32, .gate_row_bf16 = ns::GateRowBF16, .read_bytes = ns::ReadBytes, \
    .arithmetic_f32 = ns::kArithmeticF32, .arithmetic_bf16 = ns::kArithmeticBF16,                  \
    .arithmetic_int8 = ns::kArithmeticInt8,                                                        \
  }

#if defined(__x86_64__)
CpuKernels Avx512Kernels() {
  CpuKernels kernels = ARIL_KERNEL_TABLE(Isa::kAvx512, avx512);
  kernels.attention_bf16.tile_queries = kAttentionLaneQueries;
  return kernels;
}

// AVX-512, with products of BF16 and of bytes, and attention in BF16, in AMX tiles.
CpuKernels AmxKernels() {
  CpuKernels kernels = Avx512Kernels();
  kernels.isa = Isa::kAmx;
  kernels.gemm_bf16 = {.run = amx::GemmBlockBF16,
                       .block_cols = amx::kGemmBlockCols,
                       .x_multiple = amx::kGemmKMultiple,
                       .layout = GemmKernel::Layout::kAmxTiles};
  kernels.gemm_int8 = kernels.gemm_bf16;
  kernels.gemm_int8.run = amx::GemmBlockInt8;
  kernels.attention_bf16.run = amx::AttentionTileBF16;
  kernels.arithmetic_bf16 = amx::kArithmeticBF16;
  kernels.arithmetic_int8 = amx::kArithmeticInt8;
  return kernels;
}
#endif

}  // namespace

const CpuKernels& KernelsFor(Isa isa) {
  const std::vector<Isa> available = AvailableIsas();
  CHECK(std::find(available.begin(), available.end(), isa) != available.end());
  static const CpuKernels portable_kernels = ARIL_KERNEL_TABLE(Isa::kPortable, portable);
#if defined(__x86_64__)
  static const CpuKernels avx2_kernels = ARIL_KERNEL_TABLE(Isa::kAvx2, avx2);
  static const CpuKernels avx512_kernels = Avx512Kernels();
  static const CpuKernels amx_kernels = AmxKernels();
  if (isa == Isa::kAvx2) return avx2_kernels;
  if (isa == Isa::kAvx512) return avx512_kernels;
  if (isa == Isa::kAmx) return amx_kernels;
#endif
  CHECK_EQ(isa, Isa::kPortable);
  return portable_kernels;
}

#undef ARIL_KERNEL_TABLE

}  // namespace aril::kernels
