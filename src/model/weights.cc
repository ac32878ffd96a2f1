#include "model/weights.h"

#include <atomic>
#include <set>
#include <utility>

#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

using kernels::CpuContext;
using kernels::PackedMatrix;

// Of a name that a stranger's file brings into a message.
constexpr size_t kMaxShownName = 120;

// Takes tensors out of a checkpoint, and remembers which.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, CpuContext& context, const LoadProgress& progress)
      : checkpoint_(checkpoint), context_(context), progress_(progress) {
    for (const auto& [name, tensor] : checkpoint.tensors()) total_bytes_ += tensor.size_bytes();
  }

  StatusOr<TensorView> Take(const std::string& name, const Shape& shape) {
    ASSIGN_OR_RETURN(TensorView tensor, checkpoint_.Get(name, shape));
    if (!Finite(tensor))
      return InvalidArgument(StrCat("tensor ", name, " holds NaN or infinite values"));
    taken_.insert(name);
    done_bytes_ += tensor.size_bytes();
    if (progress_) progress_(done_bytes_, total_bytes_);
    return tensor;
  }

  // A vector as float32.
  StatusOr<std::vector<float>> Vector(const std::string& name, int64_t size) {
    ASSIGN_OR_RETURN(const TensorView tensor, Take(name, {size}));
    std::vector<float> values(static_cast<size_t>(size));
    CopyAsFloat(tensor, 0, size, values.data());
    return values;
  }

  struct Part {
    std::string name;
    int64_t out;
  };

  // Matrices [out_i, in], one below the other, packed in `dtype`.
  StatusOr<PackedMatrix> Matrix(const std::vector<Part>& parts, int64_t in, DType dtype) {
    std::vector<TensorView> views;
    for (const Part& part : parts) {
      ASSIGN_OR_RETURN(views.emplace_back(), Take(part.name + ".weight", {part.out, in}));
    }
    return kernels::Pack(context_, views, dtype);
  }

  StatusOr<std::vector<float>> Bias(const std::vector<Part>& parts) {
    std::vector<float> bias;
    for (const Part& part : parts) {
      ASSIGN_OR_RETURN(const std::vector<float> values, Vector(part.name + ".bias", part.out));
      bias.insert(bias.end(), values.begin(), values.end());
    }
    return bias;
  }

  // Fails if the checkpoint has a tensor that nobody took: ignoring it would change the model.
  Status CheckAllTaken(bool tied) const {
    for (const auto& [name, tensor] : checkpoint_.tensors()) {
      const bool redundant =
          (tied && name == "lm_head.weight") || name.ends_with(".rotary_emb.inv_freq");
      if (!redundant && !taken_.contains(name)) {
        return InvalidArgument(StrCat(
            "tensor ", JsonQuote(name.substr(0, kMaxShownName)),
            " is not part of the architecture that config.json describes; check num_hidden_layers, "
            "attention_bias and tie_word_embeddings there"));
      }
    }
    return OkStatus();
  }

 private:
  bool Finite(const TensorView& tensor) const {
    constexpr int64_t kChunkElements = 1 << 20;
    const int64_t elements = tensor.num_elements();
    std::atomic<bool> finite = true;
    context_.threads().ParallelFor(
        (elements + kChunkElements - 1) / kChunkElements, [&](int64_t chunk) {
          const int64_t first = chunk * kChunkElements;
          const TensorView part{tensor.data + static_cast<size_t>(first) * SizeOf(tensor.dtype),
                                tensor.dtype,
                                {std::min(kChunkElements, elements - first)}};
          if (!AllFinite(part)) finite = false;
        });
    return finite;
  }

  const Checkpoint& checkpoint_;
  CpuContext& context_;
  const LoadProgress& progress_;
  std::set<std::string, std::less<>> taken_;
  size_t total_bytes_ = 0;
  size_t done_bytes_ = 0;
};

StatusOr<LayerWeights> LoadLayer(Loader& loader, const ModelSpec& spec, int64_t layer,
                                 DType dtype) {
  const std::string prefix = StrCat("model.layers.", layer, ".");
  const auto part = [&](Projection projection) {
    return Loader::Part{prefix + std::string(ModulePath(projection)), spec.OutFeatures(projection)};
  };
  const std::vector<Loader::Part> qkv = {part(Projection::kQ), part(Projection::kK),
                                         part(Projection::kV)};
  const std::vector<Loader::Part> o = {part(Projection::kO)};
  LayerWeights weights;
  ASSIGN_OR_RETURN(weights.input_norm,
                   loader.Vector(prefix + "input_layernorm.weight", spec.hidden_size));
  ASSIGN_OR_RETURN(weights.post_norm,
                   loader.Vector(prefix + "post_attention_layernorm.weight", spec.hidden_size));
  if (spec.qk_norm) {
    ASSIGN_OR_RETURN(weights.q_norm,
                     loader.Vector(prefix + "self_attn.q_norm.weight", spec.head_dim));
    ASSIGN_OR_RETURN(weights.k_norm,
                     loader.Vector(prefix + "self_attn.k_norm.weight", spec.head_dim));
  }
  ASSIGN_OR_RETURN(weights.qkv, loader.Matrix(qkv, spec.hidden_size, dtype));
  ASSIGN_OR_RETURN(weights.o, loader.Matrix(o, spec.q_size(), dtype));
  if (spec.qkv_bias) {
    ASSIGN_OR_RETURN(weights.qkv_bias, loader.Bias(qkv));
  }
  if (spec.o_bias) {
    ASSIGN_OR_RETURN(weights.o_bias, loader.Bias(o));
  }
  ASSIGN_OR_RETURN(weights.gate_up, loader.Matrix({part(Projection::kGate), part(Projection::kUp)},
                                                  spec.hidden_size, dtype));
  ASSIGN_OR_RETURN(weights.down,
                   loader.Matrix({part(Projection::kDown)}, spec.intermediate_size, dtype));
  return weights;
}

}  // namespace

StatusOr<ModelWeights> LoadWeights(Checkpoint checkpoint, const ModelSpec& spec, DType dtype,
                                   Quantization quantization, CpuContext& context,
                                   const LoadProgress& progress) {
  ModelWeights weights;
  weights.checkpoint = std::move(checkpoint);
  Loader loader(weights.checkpoint, context, progress);
  const DType layer_dtype = quantization == Quantization::kInt8 ? DType::kI8 : dtype;
  ASSIGN_OR_RETURN(weights.embedding,
                   loader.Take("model.embed_tokens.weight", {spec.vocab_size, spec.hidden_size}));
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    ASSIGN_OR_RETURN(weights.layers.emplace_back(), LoadLayer(loader, spec, layer, layer_dtype));
  }
  ASSIGN_OR_RETURN(weights.final_norm, loader.Vector("model.norm.weight", spec.hidden_size));
  if (spec.tie_word_embeddings) {
    weights.lm_head = kernels::Pack(context, {weights.embedding}, dtype);
  } else {
    ASSIGN_OR_RETURN(weights.lm_head,
                     loader.Matrix({{"lm_head", spec.vocab_size}}, spec.hidden_size, dtype));
  }
  RETURN_IF_ERROR(loader.CheckAllTaken(spec.tie_word_embeddings));
  return weights;
}

StatusOr<Quantization> ChooseQuantization(const std::string& option, const ModelSpec& spec) {
  if (option == "none") return Quantization::kNone;
  if (option != "int8") {
    return InvalidArgument(StrCat("--quantization ", option, " is unknown; use none or int8"));
  }
  for (const Projection projection : kAllProjections) {
    if (spec.InFeatures(projection) > kernels::kMaxInt8Depth) {
      return InvalidArgument(StrCat("--quantization int8 takes matrices of at most ",
                                    kernels::kMaxInt8Depth, " inputs, and ", Name(projection),
                                    " has ", spec.InFeatures(projection), "; use none"));
    }
  }
  return Quantization::kInt8;
}

StatusOr<DType> ChooseDType(const std::string& option, const Checkpoint& checkpoint) {
  if (option == "float32") return DType::kF32;
  if (option == "bfloat16") return DType::kBF16;
  if (option == "float16") {
    return InvalidArgument(
        "--dtype float16 is not supported on the CPU; use float32, which holds float16 weights "
        "exactly, or bfloat16");
  }
  if (option != "auto") {
    return InvalidArgument(
        StrCat("--dtype ", option, " is unknown; use auto, float32 or bfloat16"));
  }
  const auto embedding = checkpoint.tensors().find("model.embed_tokens.weight");
  if (embedding == checkpoint.tensors().end())
    return InvalidArgument("tensor model.embed_tokens.weight is missing");
  return embedding->second.dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
}

}  // namespace aril
