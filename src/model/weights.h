// The weights of a base model, ready for the kernels.

#ifndef ARIL_MODEL_WEIGHTS_H_
#define ARIL_MODEL_WEIGHTS_H_

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "kernels/cpu/context.h"
#include "kernels/gemm/gemm.h"
#include "model/matrix_parts.h"
#include "model/projection_group.h"
#include "model/quantization.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"
#include "tensor/weight_view.h"

namespace aril {

// `Matrix`: how a backend keeps one. `Stack`: how it keeps one of each expert of a layer.
template <typename Matrix, typename Stack>
struct LayerWeights {
  struct Group {
    Matrix w;                 // [out, in], the projections one below the other
    std::vector<float> bias;  // [out] or empty
  };

  Group& operator[](ProjectionGroup group) { return groups[static_cast<size_t>(group)]; }
  const Group& operator[](ProjectionGroup group) const {
    return groups[static_cast<size_t>(group)];
  }

  // [hidden]: of what enters attention and the MLP, and of what they give, the latter empty without
  // output_norms. All norms are by what they multiply with, also where files have the difference
  // from 1.
  std::vector<float> attention_norm, mlp_norm;
  std::vector<float> attention_out_norm, mlp_out_norm;
  std::vector<float> q_norm, k_norm;  // [head_dim], empty without qk_norm
  std::vector<float> sinks;           // [heads], empty without attention_sinks
  // Of a layer with linear attention (kernels/gated_delta/gated_delta.h); else empty.
  struct Delta {
    std::vector<float> conv;            // [conv_size, channels]
    std::vector<float> decay, dt_bias;  // [value heads]
    std::vector<float> norm;            // [value_dim]
  };
  Delta delta;
  std::array<Group, kNumProjectionGroups> groups;  // nothing in those that the layer has not
  // Of a mixture, in place of an MLP's groups.
  struct Experts {
    Stack gate_up;  // as a group's
    Stack down;
    std::vector<float> gate_up_bias, down_bias;  // [experts, out] or empty
  };
  Matrix router;                   // [experts, hidden]
  std::vector<float> router_bias;  // [experts] or empty
  Experts experts;
};

template <typename Matrix, typename Stack>
struct ModelWeights {
  Checkpoint checkpoint;  // keeps the files mapped: `embedding` points into them
  TensorView embedding;   // [vocab, hidden]
  std::vector<LayerWeights<Matrix, Stack>> layers;
  std::vector<float> final_norm;  // [hidden]
  Matrix lm_head;                 // [vocab, hidden]; nothing of a decoder alone
};

// Told how many of all bytes are done, from the loading thread.
using LoadProgress = std::function<void(size_t done_bytes, size_t total_bytes)>;

// Makes the matrix of `parts` [n_i, k], one below the other.
template <typename Matrix>
using MatrixMaker =
    std::function<StatusOr<Matrix>(MatrixRole role, const std::vector<WeightView>& parts)>;
// Likewise those of a layer's experts, each of its own parts.
template <typename Stack>
using StackMaker =
    std::function<StatusOr<Stack>(const std::vector<std::vector<WeightView>>& experts)>;

// Takes the weights of `spec` from the checkpoint.
// InvalidArgument names the tensor that is missing, has another shape, is not finite, or that this
// architecture does not have; errors of `make` and `make_stack` are passed on.
template <typename Matrix, typename Stack>
StatusOr<ModelWeights<Matrix, Stack>> TakeWeights(Checkpoint checkpoint, const ModelSpec& spec,
                                                  ThreadPool& threads, const LoadProgress& progress,
                                                  const MatrixMaker<Matrix>& make,
                                                  const StackMaker<Stack>& make_stack);

using PackedWeights = ModelWeights<kernels::PackedMatrix, std::vector<kernels::PackedMatrix>>;

// Packed for the CPU (kernels/gemm/gemm.h); `dtype`: F32 or BF16. A matrix of four bits, of bytes,
// of FP8 or of codes stays what it is, unless it is a layer's, not of bytes, and `quantization` is
// kInt8, or what is multiplied together with it is not quantized alike: then all of that is kept in
// `dtype`, which is logged; or, with kInt8, in bytes, and with kInt4, beside four bits, what has
// numbers is rounded. InvalidArgument names the one whose scales FP16 does not hold, as four bits
// want it, or make infinite values. With kNf4 it is for the caller to RoundLayers before.
StatusOr<PackedWeights> LoadWeights(Checkpoint checkpoint, const ModelSpec& spec, DType dtype,
                                    Quantization quantization, kernels::CpuContext& context,
                                    const LoadProgress& progress);

// The dtype to compute in for `--dtype` ("auto", "float32", "bfloat16", and "float16" if the device
// has it) and a checkpoint. auto: that of the files; but without float16, such files are computed
// in float32, which holds their values exactly. InvalidArgument for anything else.
StatusOr<DType> ChooseDType(const std::string& option, const Checkpoint& checkpoint,
                            bool has_float16);

}  // namespace aril

#endif  // ARIL_MODEL_WEIGHTS_H_
