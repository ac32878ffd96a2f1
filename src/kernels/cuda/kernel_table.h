// The CUDA kernels of one target: compiled for a device, or for the emulator.

#ifndef ARIL_KERNELS_CUDA_KERNEL_TABLE_H_
#define ARIL_KERNELS_CUDA_KERNEL_TABLE_H_

#include "kernels/activation/activation_cuda.h"
#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/empty_cuda.h"
#include "kernels/embedding/embedding_cuda.h"
#include "kernels/experts/experts_cuda.h"
#include "kernels/gated_delta/gated_delta_cuda.h"
#include "kernels/gemm/grouped_gemm_cuda.h"
#include "kernels/gemm/paged_gemm_cuda.h"
#include "kernels/gemm/quantized_gemm_cuda.h"
#include "kernels/lora/expert_lora_cuda.h"
#include "kernels/lora/lora_cuda.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/sampling/sampling_cuda.h"

namespace aril::kernels {

// Each returns a CUDA error, or 0; CudaDevice::Check makes a Status of it.
struct CudaKernels {
  int (*empty)(const CudaContext&);
  int (*embed)(const CudaContext&, DType dtype, const EmbedArgs&);
  int (*embed_shrink)(const CudaContext&, DType dtype, const EmbedShrinkArgs&);
  int (*add_rms_norm)(const CudaContext&, DType dtype, const AddRmsNormArgs&);
  int (*glu)(const CudaContext&, DType dtype, const GluArgs&);
  int (*softcap)(const CudaContext&, const SoftcapArgs&);
  int (*gate_heads)(const CudaContext&, DType dtype, const GateHeadsArgs&);
  int (*gated_delta)(const CudaContext&, DType dtype, const GatedDeltaArgs&);
  int (*rope_append)(const CudaContext&, DType dtype, const RopeAppendArgs&);
  int (*attention)(const CudaContext&, DType dtype, const AttentionArgs&);
  int (*sample)(const CudaContext&, const SampleArgs&);
  int (*take_chosen)(const CudaContext&, const TakeChosenArgs&);
  int (*lora_shrink)(const CudaContext&, DType dtype, const LoraShrinkArgs&);
  int (*lora_expand)(const CudaContext&, DType dtype, const LoraExpandArgs&);
  int (*paged_gemm)(const CudaContext&, DType dtype, const PagedGemmArgs&);
  int (*expert_lora_tiles)(const CudaContext&, const ExpertLoraTilesArgs&);
  int (*expert_lora_shrink)(const CudaContext&, DType dtype, const ExpertLoraShrinkArgs&);
  int (*expert_lora_expand)(const CudaContext&, DType dtype, const ExpertLoraExpandArgs&);
  int (*grouped_gemm)(const CudaContext&, DType dtype, const GroupedGemmArgs&);
  int (*quantized_gemm)(const CudaContext&, DType dtype, const QuantizedGemmArgs&);
  int (*choose_experts)(const CudaContext&, const ChooseExpertsArgs&);
  int (*place_rows)(const CudaContext&, const PlaceRowsArgs&);
  int (*add_experts)(const CudaContext&, const AddExpertsArgs&);
};

#define ARIL_CUDA_KERNELS(target)                                                                 \
  ::aril::kernels::CudaKernels {                                                                  \
    .empty = target::LaunchEmpty, .embed = target::Embed, .embed_shrink = target::EmbedShrink,    \
    .add_rms_norm = target::AddRmsNorm, .glu = target::Glu, .softcap = target::Softcap,           \
    .gate_heads = target::GateHeads, .gated_delta = target::GatedDelta,                           \
    .rope_append = target::RopeAppend, .attention = target::Attention, .sample = target::Sample,  \
    .take_chosen = target::TakeChosen, .lora_shrink = target::LoraShrink,                         \
    .lora_expand = target::LoraExpand, .paged_gemm = target::PagedGemm,                           \
    .expert_lora_tiles = target::ExpertLoraTiles, .expert_lora_shrink = target::ExpertLoraShrink, \
    .expert_lora_expand = target::ExpertLoraExpand, .grouped_gemm = target::GroupedGemm,          \
    .quantized_gemm = target::QuantizedGemm, .choose_experts = target::ChooseExperts,             \
    .place_rows = target::PlaceRows, .add_experts = target::AddExperts,                           \
  }

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_CUDA_KERNEL_TABLE_H_
