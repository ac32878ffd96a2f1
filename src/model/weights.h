// The weights of a base model, ready for the kernels.

#ifndef ARIL_MODEL_WEIGHTS_H_
#define ARIL_MODEL_WEIGHTS_H_

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/cpu/context.h"
#include "kernels/gemm/gemm.h"
#include "spec/model_spec.h"
#include "tensor/safetensors.h"

namespace aril {

struct LayerWeights {
  std::vector<float> input_norm;      // [hidden]
  std::vector<float> post_norm;       // [hidden]
  std::vector<float> q_norm, k_norm;  // [head_dim], empty without qk_norm
  kernels::PackedMatrix qkv;          // [q + 2 kv, hidden]
  std::vector<float> qkv_bias;        // [q + 2 kv] or empty
  kernels::PackedMatrix o;            // [hidden, q]
  std::vector<float> o_bias;          // [hidden] or empty
  kernels::PackedMatrix gate_up;      // [2 intermediate, hidden]
  kernels::PackedMatrix down;         // [hidden, intermediate]
};

struct ModelWeights {
  Checkpoint checkpoint;  // keeps the files mapped: `embedding` points into them
  TensorView embedding;   // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;  // [hidden]
  kernels::PackedMatrix lm_head;  // [vocab, hidden]
};

// Told how many of all bytes are done, from the loading thread.
using LoadProgress = std::function<void(size_t done_bytes, size_t total_bytes)>;

// How the matrices of the layers are kept. The embedding and lm_head always have the dtype.
enum class Quantization { kNone, kInt8 };

// Takes the weights of `spec` from the checkpoint and packs them in `dtype` (F32 or BF16), or in
// bytes (kernels/gemm/gemm.h).
// InvalidArgument names the tensor that is missing, has another shape, is not finite, or that this
// architecture does not have.
StatusOr<ModelWeights> LoadWeights(Checkpoint checkpoint, const ModelSpec& spec, DType dtype,
                                   Quantization quantization, kernels::CpuContext& context,
                                   const LoadProgress& progress);

// That of `--quantization` ("none", "int8"). InvalidArgument for anything else, and for a matrix of
// `spec` that is too large to be added in 32 bits.
StatusOr<Quantization> ChooseQuantization(const std::string& option, const ModelSpec& spec);

// The dtype to compute in for `--dtype` ("auto", "float32", "bfloat16") and a checkpoint. auto:
// that of the files, except that float16 files are computed in float32, which holds their values
// exactly. InvalidArgument for anything else.
StatusOr<DType> ChooseDType(const std::string& option, const Checkpoint& checkpoint);

}  // namespace aril

#endif  // ARIL_MODEL_WEIGHTS_H_
