#include "model/weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>
#include <variant>

#include "base/checked.h"
#include "base/json.h"
#include "base/strings.h"
#include "kernels/gemm/int4_weights.h"
#include "model/cuda_weights.h"

namespace aril {
namespace {

using kernels::CpuContext;
using kernels::PackedMatrix;

// Of a name that a stranger's file brings into a message.
constexpr size_t kMaxShownName = 120;

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kLmHead = "lm_head.weight";

bool HaveEqualBytes(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.data, b.data, a.size_bytes()) == 0;
}

// Takes tensors out of a checkpoint, and remembers which.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, const ModelSpec& spec, ThreadPool& threads,
         const LoadProgress& progress)
      : checkpoint_(checkpoint),
        norm_offset_(spec.unit_offset_norms ? 1.0f : 0.0f),
        threads_(threads),
        progress_(progress) {
    for (const auto& [name, tensor] : checkpoint.tensors()) total_bytes_ += tensor.size_bytes();
    for (const auto& [name, matrix] : checkpoint.matrices()) total_bytes_ += SizeBytes(matrix);
  }

  StatusOr<TensorView> Take(const std::string& name, const Shape& shape) {
    ASSIGN_OR_RETURN(TensorView tensor, checkpoint_.Get(name, shape));
    RETURN_IF_ERROR(CheckFinite(name, tensor));
    MarkTaken(name, tensor.size_bytes());
    return tensor;
  }

  StatusOr<WeightView> TakeMatrix(const std::string& name, const Shape& shape) {
    ASSIGN_OR_RETURN(WeightView matrix, checkpoint_.GetMatrix(name, shape));
    RETURN_IF_ERROR(std::visit([&](const auto& view) { return CheckFinite(name, view); }, matrix));
    MarkTaken(name, SizeBytes(matrix));
    const auto* const int4 = std::get_if<Int4View>(&matrix);
    if (int4 != nullptr && !kernels::HasExactFactors(*int4)) {
      return InvalidArgument(StrCat("tensor ", name, " has scales in ", int4->scales.dtype,
                                    " that float16 does not hold, not even by a power of two for "
                                    "each output: save the quantized model in float16"));
    }
    return matrix;
  }

  // A vector as float32.
  StatusOr<std::vector<float>> Vector(const std::string& name, int64_t size) {
    ASSIGN_OR_RETURN(const TensorView tensor, Take(name, {size}));
    std::vector<float> values(static_cast<size_t>(size));
    CopyAsFloat(tensor, 0, size, values.data());
    return values;
  }

  // [rows, 1, cols] in a file, as of a convolution of single channels: [cols, rows].
  StatusOr<std::vector<float>> Turned(const std::string& name, int64_t rows, int64_t cols) {
    ASSIGN_OR_RETURN(const TensorView tensor, Take(name, {rows, 1, cols}));
    std::vector<float> row(static_cast<size_t>(cols));
    std::vector<float> turned(static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r) {
      CopyAsFloat(tensor, r * cols, cols, row.data());
      for (int64_t c = 0; c < cols; ++c) {
        turned[static_cast<size_t>(c * rows + r)] = row[static_cast<size_t>(c)];
      }
    }
    return turned;
  }

  // Of all experts, whose tensor has those of several projections in turns: one behind the other.
  StatusOr<std::vector<float>> ExpertsBias(const std::string& name, int64_t experts,
                                           int64_t num_projections, int64_t out) {
    const int64_t width = num_projections * out;
    ASSIGN_OR_RETURN(const TensorView tensor, Take(name, {experts, width}));
    std::vector<float> in_turns(static_cast<size_t>(width)), bias;
    bias.reserve(static_cast<size_t>(experts * width));
    for (int64_t expert = 0; expert < experts; ++expert) {
      CopyAsFloat(tensor, expert * width, width, in_turns.data());
      for (int64_t i = 0; i < width; ++i) {
        bias.push_back(in_turns[static_cast<size_t>(i % out * num_projections + i / out)]);
      }
    }
    return bias;
  }

  // Of an RMSNorm.
  StatusOr<std::vector<float>> Norm(const std::string& module, int64_t size) {
    ASSIGN_OR_RETURN(std::vector<float> weight, Vector(module + ".weight", size));
    for (float& value : weight) value += norm_offset_;
    return weight;
  }

  // Matrices [out_i, in].
  StatusOr<std::vector<WeightView>> Matrices(const std::vector<MatrixPart>& parts, int64_t in) {
    std::vector<WeightView> views;
    for (const MatrixPart& part : parts) {
      ASSIGN_OR_RETURN(views.emplace_back(), TakeMatrix(part.module + ".weight", {part.out, in}));
    }
    return views;
  }

  StatusOr<std::vector<float>> Bias(const std::vector<MatrixPart>& parts) {
    std::vector<float> bias;
    for (const MatrixPart& part : parts) {
      ASSIGN_OR_RETURN(const std::vector<float> values, Vector(part.module + ".bias", part.out));
      bias.insert(bias.end(), values.begin(), values.end());
    }
    return bias;
  }

  // Of a tied model. Checkpoints may repeat the embedding as lm_head. One with another lm_head is
  // not tied, whatever its config says: transformers (since 5) computes logits by it.
  Status SkipTiedHead(const TensorView& embedding) {
    const auto head = checkpoint_.tensors().find(kLmHead);
    if (head == checkpoint_.tensors().end()) return OkStatus();
    if (!HaveEqualBytes(head->second, embedding)) {
      return InvalidArgument(StrCat("tensor ", kLmHead, " is not equal to ", kEmbedding,
                                    ", although config.json says tie_word_embeddings: true; to "
                                    "compute logits by the former, say false there; to compute "
                                    "them by the latter, leave the former out"));
    }
    taken_.insert(kLmHead);
    return OkStatus();
  }

  // Fails if the checkpoint has a tensor that nobody took: ignoring it would change the model.
  Status CheckAllTaken() const {
    for (const auto& [name, tensor] : checkpoint_.tensors()) {
      if (!taken_.contains(name) && !IsRedundant(name, tensor)) {
        return NotOfTheArchitecture(name);
      }
    }
    for (const auto& [name, matrix] : checkpoint_.matrices()) {
      if (!taken_.contains(name)) return NotOfTheArchitecture(name);
    }
    return OkStatus();
  }

 private:
  static Status NotOfTheArchitecture(const std::string& name) {
    return InvalidArgument(StrCat(
        "tensor ", JsonQuote(name.substr(0, kMaxShownName)),
        " is not part of the architecture that config.json describes; check num_hidden_layers, "
        "attention_bias, tie_word_embeddings and the number of experts there"));
  }

  // AutoGPTQ gave every module that it quantized a bias, of zeros if there was none.
  bool IsRedundant(const std::string& name, const TensorView& tensor) const {
    if (name.ends_with(".rotary_emb.inv_freq")) return true;
    const bool has_quantized = std::ranges::any_of(
        checkpoint_.matrices(), [](const auto& entry) { return IsQuantized(entry.second); });
    const bool is_of_quantized = has_quantized && name.ends_with(".bias");
    return is_of_quantized && std::all_of(tensor.data, tensor.data + tensor.size_bytes(),
                                          [](std::byte byte) { return byte == std::byte{0}; });
  }

  Status CheckFinite(const std::string& name, const StridedView& view) const {
    std::atomic<bool> finite = true;
    threads_.ParallelFor(view.rows, [&](int64_t row) {
      std::vector<float> values(static_cast<size_t>(view.cols));
      CopyAsFloat(view, row * view.cols, view.cols, values.data());
      if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
        finite = false;
      }
    });
    return finite ? OkStatus() : HoldsNan(name);
  }

  static Status HoldsNan(const std::string& name) {
    return InvalidArgument(StrCat("tensor ", name, " holds NaN or infinite values"));
  }

  Status CheckFinite(const std::string& name, const TensorView& tensor) const {
    return Finite(tensor) ? OkStatus() : HoldsNan(name);
  }
  Status CheckFinite(const std::string& name, const Int4View& view) const {
    return CheckScales(name, view.scales);
  }
  Status CheckFinite(const std::string& name, const Int8View& view) const {
    return CheckScales(name, view.scales);
  }
  Status CheckFinite(const std::string& name, const Float8View& view) const {
    RETURN_IF_ERROR(CheckFinite(name, view.levels));
    return CheckScales(name, view.scales);
  }
  Status CheckFinite(const std::string& name, const Codebook4View& view) const {
    if (view.numbers) return CheckFinite(name, *view.numbers);
    float largest = 0;
    for (const float value : view.codebook) {
      if (!std::isfinite(value)) return HoldsNan(name);
      largest = std::max(largest, std::fabs(value));
    }
    const int64_t begin = view.BlockOf(0, 0), end = view.BlockOf(view.rows - 1, view.cols - 1) + 1;
    std::atomic<bool> finite = true;
    ForEachChunk(end - begin, [&](int64_t first, int64_t count) {
      for (int64_t block = first; block < first + count && finite; ++block) {
        if (!std::isfinite(view.Scale(begin + block) * largest)) finite = false;
      }
    });
    return finite ? OkStatus() : MakesInfinite(name);
  }

  // The largest number that a scale is multiplied with is an F8E4M3's.
  Status CheckScales(const std::string& name, const TensorView& scales) const {
    RETURN_IF_ERROR(CheckFinite(name, scales));
    std::vector<float> values(static_cast<size_t>(scales.num_elements()));
    CopyAsFloat(scales, 0, scales.num_elements(), values.data());
    const auto is_too_large = [](float scale) { return !std::isfinite(scale * kMaxF8E4M3); };
    return std::ranges::none_of(values, is_too_large) ? OkStatus() : MakesInfinite(name);
  }
  static Status MakesInfinite(const std::string& name) {
    return InvalidArgument(StrCat("tensor ", name, " has scales that make infinite values"));
  }

  void MarkTaken(const std::string& name, size_t size_bytes) {
    taken_.insert(name);
    done_bytes_ += size_bytes;
    if (progress_) progress_(done_bytes_, total_bytes_);
  }

  bool Finite(const TensorView& tensor) const {
    std::atomic<bool> finite = true;
    ForEachChunk(tensor.num_elements(), [&](int64_t first, int64_t count) {
      const TensorView part{
          tensor.data + static_cast<size_t>(first) * SizeOf(tensor.dtype), tensor.dtype, {count}};
      if (!AllFinite(part)) finite = false;
    });
    return finite;
  }

  // look(first, count) of parts of `elements`, on all threads.
  template <typename Look>
  void ForEachChunk(int64_t elements, const Look& look) const {
    constexpr int64_t kChunkElements = 1 << 20;
    threads_.ParallelFor(CeilDiv(elements, kChunkElements), [&](int64_t chunk) {
      const int64_t first = chunk * kChunkElements;
      look(first, std::min(kChunkElements, elements - first));
    });
  }

  const Checkpoint& checkpoint_;
  float norm_offset_;
  ThreadPool& threads_;
  const LoadProgress& progress_;
  std::set<std::string, std::less<>> taken_;
  size_t total_bytes_ = 0;
  size_t done_bytes_ = 0;
};

bool HasBias(const ModelSpec& spec, ProjectionGroup group) {
  return (group == ProjectionGroup::kQkv && spec.qkv_bias) ||
         (group == ProjectionGroup::kO && spec.o_bias);
}

// "post_attention_layernorm" is after attention in both, but before the addition only where there
// are output_norms.
template <typename Layer>
Status TakeNorms(Loader& loader, const ModelSpec& spec, const std::string& prefix, bool is_linear,
                 Layer& weights) {
  const std::string before_mlp =
      spec.output_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
  ASSIGN_OR_RETURN(weights.attention_norm,
                   loader.Norm(prefix + "input_layernorm", spec.hidden_size));
  ASSIGN_OR_RETURN(weights.mlp_norm, loader.Norm(prefix + before_mlp, spec.hidden_size));
  if (spec.output_norms) {
    ASSIGN_OR_RETURN(weights.attention_out_norm,
                     loader.Norm(prefix + "post_attention_layernorm", spec.hidden_size));
    ASSIGN_OR_RETURN(weights.mlp_out_norm,
                     loader.Norm(prefix + "post_feedforward_layernorm", spec.hidden_size));
  }
  if (spec.qk_norm && !is_linear) {
    ASSIGN_OR_RETURN(weights.q_norm, loader.Norm(prefix + "self_attn.q_norm", spec.head_dim));
    ASSIGN_OR_RETURN(weights.k_norm, loader.Norm(prefix + "self_attn.k_norm", spec.head_dim));
  }
  return OkStatus();
}

// What is no linear module in linear attention. Its norm is by what it multiplies with, also where
// the others are not.
template <typename Layer>
Status TakeDelta(Loader& loader, const LinearAttentionSpec& linear, const std::string& prefix,
                 Layer& weights) {
  auto& delta = weights.delta;
  ASSIGN_OR_RETURN(
      delta.conv, loader.Turned(prefix + "conv1d.weight", linear.num_channels(), linear.conv_size));
  ASSIGN_OR_RETURN(delta.decay, loader.Vector(prefix + "A_log", linear.num_value_heads));
  for (float& value : delta.decay) {
    value = std::exp(value);
    if (!std::isfinite(value)) {
      return InvalidArgument(StrCat("tensor ", prefix, "A_log has logarithms of infinite values"));
    }
  }
  ASSIGN_OR_RETURN(delta.dt_bias, loader.Vector(prefix + "dt_bias", linear.num_value_heads));
  ASSIGN_OR_RETURN(delta.norm, loader.Vector(prefix + "norm.weight", linear.value_dim));
  return OkStatus();
}

template <typename Layer>
Status TakeExpertBiases(Loader& loader, const ModelSpec& spec, int64_t layer, Layer& weights) {
  const MatrixPart router = RouterOf(spec, layer);
  ASSIGN_OR_RETURN(weights.router_bias, loader.Bias({router}));
  const std::pair<const StackedExperts&, std::vector<float>&> stacks[] = {
      {kStackedExperts[0], weights.experts.gate_up_bias},
      {kStackedExperts[1], weights.experts.down_bias}};
  for (const auto& [stack, bias] : stacks) {
    ASSIGN_OR_RETURN(bias, loader.ExpertsBias(StrCat(LayerPrefix(layer), stack.path, "_bias"),
                                              spec.experts->count, stack.num_projections,
                                              spec.OutFeatures(stack.first)));
  }
  return OkStatus();
}

template <typename Matrix, typename Stack>
Status TakeExperts(Loader& loader, const ModelSpec& spec, int64_t layer,
                   const MatrixMaker<Matrix>& make, const StackMaker<Stack>& make_stack,
                   LayerWeights<Matrix, Stack>& weights) {
  ASSIGN_OR_RETURN(const std::vector<WeightView> router,
                   loader.Matrices({RouterOf(spec, layer)}, spec.hidden_size));
  ASSIGN_OR_RETURN(weights.router, make(MatrixRole::kUnrounded, router));
  for (const auto& [group, stack] : {std::pair(ProjectionGroup::kGateUp, &weights.experts.gate_up),
                                     {ProjectionGroup::kDown, &weights.experts.down}}) {
    std::vector<std::vector<WeightView>> experts;
    for (int64_t expert = 0; expert < spec.experts->count; ++expert) {
      ASSIGN_OR_RETURN(
          experts.emplace_back(),
          loader.Matrices(PartsOfExpert(spec, layer, expert, group), InFeatures(spec, group)));
    }
    ASSIGN_OR_RETURN(*stack, make_stack(experts));
  }
  return spec.experts->is_gpt_oss ? TakeExpertBiases(loader, spec, layer, weights) : OkStatus();
}

template <typename Matrix, typename Stack>
StatusOr<LayerWeights<Matrix, Stack>> TakeLayer(Loader& loader, const ModelSpec& spec,
                                                int64_t layer, const MatrixMaker<Matrix>& make,
                                                const StackMaker<Stack>& make_stack) {
  const std::string prefix = LayerPrefix(layer);
  LayerWeights<Matrix, Stack> weights;
  RETURN_IF_ERROR(TakeNorms(loader, spec, prefix, spec.IsLinear(layer), weights));
  if (spec.attention_sinks) {
    ASSIGN_OR_RETURN(weights.sinks, loader.Vector(prefix + "self_attn.sinks", spec.num_heads));
  }
  if (spec.IsLinear(layer)) {
    RETURN_IF_ERROR(TakeDelta(loader, *spec.linear_attention, prefix + "linear_attn.", weights));
  }
  for (const ProjectionGroup group : ProjectionGroupsOf(spec, layer)) {
    const std::vector<MatrixPart> parts = PartsOf(spec, layer, group);
    ASSIGN_OR_RETURN(const std::vector<WeightView> matrices,
                     loader.Matrices(parts, InFeatures(spec, group)));
    ASSIGN_OR_RETURN(weights[group].w, make(RoleOf(group), matrices));
    if (HasBias(spec, group)) {
      ASSIGN_OR_RETURN(weights[group].bias, loader.Bias(parts));
    }
  }
  if (spec.experts) {
    RETURN_IF_ERROR(TakeExperts(loader, spec, layer, make, make_stack, weights));
  }
  return weights;
}

}  // namespace

template <typename Matrix, typename Stack>
StatusOr<ModelWeights<Matrix, Stack>> TakeWeights(Checkpoint checkpoint, const ModelSpec& spec,
                                                  ThreadPool& threads, const LoadProgress& progress,
                                                  const MatrixMaker<Matrix>& make,
                                                  const StackMaker<Stack>& make_stack) {
  ModelWeights<Matrix, Stack> weights;
  weights.checkpoint = std::move(checkpoint);
  Loader loader(weights.checkpoint, spec, threads, progress);
  ASSIGN_OR_RETURN(weights.embedding, loader.Take(kEmbedding, {spec.vocab_size, spec.hidden_size}));
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    ASSIGN_OR_RETURN(weights.layers.emplace_back(),
                     TakeLayer(loader, spec, layer, make, make_stack));
  }
  ASSIGN_OR_RETURN(weights.final_norm, loader.Norm("model.norm", spec.hidden_size));
  // lm_head and adapters to it are linear: what logits are divided by may be divided by here.
  for (float& weight : weights.final_norm) weight /= static_cast<float>(spec.logits_scaling);
  std::vector<WeightView> lm_head = {weights.embedding};
  if (spec.has_lm_head && !spec.tie_word_embeddings) {
    ASSIGN_OR_RETURN(lm_head, loader.Matrices({{"lm_head", spec.vocab_size}}, spec.hidden_size));
  } else if (spec.has_lm_head) {
    RETURN_IF_ERROR(loader.SkipTiedHead(weights.embedding));
  }
  if (spec.has_lm_head) {
    ASSIGN_OR_RETURN(weights.lm_head, make(MatrixRole::kLmHead, lm_head));
  }
  RETURN_IF_ERROR(loader.CheckAllTaken());
  return weights;
}

template StatusOr<ModelWeights<DeviceMatrix, DeviceMatrix>> TakeWeights(
    Checkpoint, const ModelSpec&, ThreadPool&, const LoadProgress&,
    const MatrixMaker<DeviceMatrix>&, const StackMaker<DeviceMatrix>&);

namespace {

// Packs matrices, each in the format that its parts and the options say.
class Packer {
 public:
  Packer(CpuContext& context, DType dtype, Quantization quantization)
      : context_(context), dtype_(dtype), quantization_(quantization) {}

  // All in one format.
  std::vector<PackedMatrix> Pack(MatrixRole role,
                                 const std::vector<std::vector<WeightView>>& matrices) {
    const auto quantized = QuantizedFormatOf(role, matrices, quantization_);
    const kernels::WeightFormat format = quantized.value_or(kernels::FormatOf(dtype_));
    std::vector<PackedMatrix> packed;
    for (const std::vector<WeightView>& parts : matrices) {
      packed.push_back(kernels::Pack(context_, parts, format));
      if (!quantized && std::ranges::any_of(parts, IsQuantized)) ++num_widened_;
    }
    return packed;
  }

  // Of matrices that have quantized parts.
  int64_t num_widened() const { return num_widened_; }

 private:
  CpuContext& context_;
  DType dtype_;
  Quantization quantization_;
  int64_t num_widened_ = 0;
};

}  // namespace

StatusOr<PackedWeights> LoadWeights(Checkpoint checkpoint, const ModelSpec& spec, DType dtype,
                                    Quantization quantization, CpuContext& context,
                                    const LoadProgress& progress) {
  Packer packer(context, dtype, quantization);
  auto weights = TakeWeights<PackedMatrix, std::vector<PackedMatrix>>(
      std::move(checkpoint), spec, context.threads(), progress,
      [&](MatrixRole role, const std::vector<WeightView>& parts) {
        return StatusOr<PackedMatrix>(std::move(packer.Pack(role, {parts}).front()));
      },
      [&](const std::vector<std::vector<WeightView>>& experts) {
        return StatusOr<std::vector<PackedMatrix>>(packer.Pack(MatrixRole::kLayer, experts));
      });
  LogWidened(packer.num_widened(), dtype);
  return weights;
}

StatusOr<DType> ChooseDType(const std::string& option, const Checkpoint& checkpoint,
                            bool has_float16) {
  if (option == "float32") return DType::kF32;
  if (option == "bfloat16") return DType::kBF16;
  if (option == "float16") {
    if (has_float16) return DType::kF16;
    return InvalidArgument(
        "--dtype float16 is not supported on the CPU; use float32, which holds float16 weights "
        "exactly, or bfloat16");
  }
  if (option != "auto") {
    return InvalidArgument(StrCat("--dtype ", option, " is unknown; use auto, float32",
                                  has_float16 ? ", bfloat16 or float16" : " or bfloat16"));
  }
  const auto embedding = checkpoint.tensors().find(kEmbedding);
  if (checkpoint.matrices().contains(kEmbedding)) {
    return InvalidArgument(
        StrCat("tensor ", kEmbedding, " is quantized, and must be F32, BF16 or F16"));
  }
  if (embedding == checkpoint.tensors().end())
    return InvalidArgument(StrCat("tensor ", kEmbedding, " is missing"));
  const DType dtype = embedding->second.dtype;
  return dtype == DType::kBF16 || (dtype == DType::kF16 && has_float16) ? dtype : DType::kF32;
}

}  // namespace aril
