// The functions compiled for one instruction set.

#ifndef ARIL_KERNELS_CPU_KERNEL_TABLE_H_
#define ARIL_KERNELS_CPU_KERNEL_TABLE_H_

#include <cstdint>

#include "kernels/activation/activation_tile.h"
#include "kernels/attention/attention_tile.h"
#include "kernels/cpu/isa.h"
#include "kernels/gated_delta/gated_delta_tile.h"
#include "kernels/gemm/gemm_tile.h"
#include "kernels/lora/lora_tile.h"
#include "kernels/norm/norm_tile.h"
#include "kernels/probe/probe_tile.h"
#include "kernels/rope/rope_tile.h"

namespace aril::kernels {

struct CpuKernels {
  Isa isa;
  GemmKernel gemm_f32, gemm_bf16, gemm_int8, gemm_int4;
  GemmKernel gemm_float8_f32, gemm_float8_bf16;  // by the type of x
  GemmKernel gemm_codebook4_f32, gemm_codebook4_bf16;
  GemmKernel gemm_codebook4_by_32_f32, gemm_codebook4_by_32_bf16;
  QuantizeRowFunction quantize_row_f32, quantize_row_bf16;
  QuantizeGroupsFunction quantize_groups_f32, quantize_groups_bf16;
  LoraShrinkFunction lora_shrink_f32, lora_shrink_bf16;
  LoraExpandFunction lora_expand_f32, lora_expand_bf16;
  LoraGainFunction lora_gain_f32, lora_gain_bf16;
  AttentionKernel attention_f32, attention_bf16;
  NormRowFunction norm_row_f32, norm_row_bf16;
  DeltaConvFunction delta_conv;
  DeltaTileFunction delta_tile;
  DeltaNormFunction delta_norm_row_f32, delta_norm_row_bf16;
  RopeHeadFunction rope_head_f32, rope_head_bf16;
  GluRowFunction glu_row_f32, glu_row_bf16;
  SoftcapRowFunction softcap_row;
  GateRowFunction gate_row_f32, gate_row_bf16;
  ReadFunction read_bytes;
  ArithmeticLoop arithmetic_f32, arithmetic_bf16, arithmetic_int8;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CPU_KERNEL_TABLE_H_
