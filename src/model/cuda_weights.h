// The weights of a base model on a GPU.

#ifndef ARIL_MODEL_CUDA_WEIGHTS_H_
#define ARIL_MODEL_CUDA_WEIGHTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/gemm/quantized_gemm_cuda.h"
#include "model/weights.h"

namespace aril {

// [n, k] in the model's dtype, one row behind the other; or of four bits, bytes, FP8 or codes.
struct DeviceMatrix {
  kernels::DeviceBuffer data;
  int64_t n = 0;
  int64_t k = 0;
  // Of each of the matrices that are one below the other: one, or those of a mixture's experts.
  std::optional<kernels::QuantizedLayout> quantized;
  kernels::DeviceBuffer inputs;  // of these, if any is in another order (QuantizedGemmArgs)

  // Of one that is quantized: what a product with it says of it.
  kernels::QuantizedGemmArgs quantized_args() const;
};

struct DeviceWeights {
  Checkpoint checkpoint;
  DeviceMatrix embedding;  // [vocab, hidden]
  struct Layer {
    struct Group {
      DeviceMatrix w;
      kernels::DeviceBuffer bias;  // fp32 [out], or nothing
    };
    kernels::DeviceBuffer attention_norm, mlp_norm;          // fp32 [hidden]
    kernels::DeviceBuffer attention_out_norm, mlp_out_norm;  // likewise, or nothing
    kernels::DeviceBuffer q_norm, k_norm;                    // fp32 [head_dim], or nothing
    kernels::DeviceBuffer sinks;                             // fp32 [heads], or nothing
    struct Delta {  // fp32, as LayerWeights has them, or nothing
      kernels::DeviceBuffer conv, decay, dt_bias, norm;
    };
    Delta delta;
    std::array<Group, kNumProjectionGroups> groups;
    // Of a mixture, in place of an MLP's groups: the experts' matrices, one below the other.
    DeviceMatrix router, expert_gate_up, expert_down;
    // fp32 [experts], [experts, 2 intermediate] and [experts, hidden], or nothing.
    kernels::DeviceBuffer router_bias, expert_gate_up_bias, expert_down_bias;
  };
  std::vector<Layer> layers;
  kernels::DeviceBuffer final_norm;  // fp32 [hidden]
  DeviceMatrix lm_head;              // [vocab, hidden]; nothing if it is the embedding as it is
};

// As LoadWeights, in `dtype` (F32, BF16 or F16). ResourceExhausted if the device, which must
// outlive the weights, has no room for them.
StatusOr<DeviceWeights> LoadDeviceWeights(Checkpoint checkpoint, const ModelSpec& spec, DType dtype,
                                          Quantization quantization, kernels::CudaDevice& device,
                                          ThreadPool& threads, const LoadProgress& progress);

// What they take there. What a checkpoint lacks is nothing.
int64_t DeviceWeightBytes(const Checkpoint& checkpoint, const ModelSpec& spec, DType dtype,
                          Quantization quantization);

// A copy on the device; nothing of nothing.
StatusOr<kernels::DeviceBuffer> UploadFloats(kernels::CudaDevice& device,
                                             const std::vector<float>& values);

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_WEIGHTS_H_
