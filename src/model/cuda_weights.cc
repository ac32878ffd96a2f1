#include "model/cuda_weights.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/checked.h"
#include "base/strings.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/weight_rows.h"

namespace aril {
namespace {

using kernels::CudaDevice;
using kernels::DeviceBuffer;
using kernels::PinnedBuffer;

// What is converted at once, and copied then: large enough that copies are not what takes the time.
constexpr int64_t kStagingElements = int64_t{1} << 22;
constexpr int64_t kElementsAtOnce = int64_t{1} << 16;  // of one thread

// 0: all of an output share one.
int64_t GroupSizeOf(const WeightView& part) {
  if (const auto* const int4 = std::get_if<Int4View>(&part); int4 != nullptr) {
    return int4->groups() == 1 ? 0 : int4->group_size;
  }
  if (const auto* const float8 = std::get_if<Float8View>(&part); float8 != nullptr) {
    return float8->blocks() == 1 ? 0 : float8->block_cols;
  }
  if (const auto* const codes = std::get_if<Codebook4View>(&part); codes != nullptr) {
    return std::gcd(codes->block_size, codes->cols);  // of blocks that may go on in the next row
  }
  return kernels::kInt4GroupSize;  // to which numbers are rounded
}

// Inputs that share a factor in all of four bits, of FP8 and of codes, a multiple of 32 or no fewer
// than there are.
int64_t GroupSizeOf(const std::vector<std::vector<WeightView>>& matrices) {
  int64_t size = 0;
  for (const std::vector<WeightView>& parts : matrices) {
    for (const WeightView& part : parts) size = std::gcd(size, GroupSizeOf(part));
  }
  return size > 0 ? size : ShapeOf(matrices.front().front()).at(1);
}

// The inputs of each matrix in its order; nothing if all are in that of their columns.
std::vector<int32_t> InputsOf(const std::vector<std::vector<WeightView>>& matrices) {
  std::vector<int32_t> all;
  bool in_order = true;
  for (const std::vector<WeightView>& parts : matrices) {
    if (!kernels::AreInt4(parts)) return {};
    const auto& first = std::get<Int4View>(parts.front());
    std::vector<int32_t> inputs = first.InputsByGroup();
    in_order = in_order && inputs.empty();
    if (inputs.empty()) {
      inputs.resize(static_cast<size_t>(first.cols));
      std::iota(inputs.begin(), inputs.end(), 0);
    }
    all.insert(all.end(), inputs.begin(), inputs.end());
  }
  return in_order ? std::vector<int32_t>() : all;
}

// A matrix that is not there yet.
DeviceMatrix Describe(const std::vector<WeightView>& parts) {
  DeviceMatrix matrix;
  for (const WeightView& part : parts) {
    const Shape shape = ShapeOf(part);
    matrix.n += shape.at(0);
    matrix.k = shape.at(1);
  }
  return matrix;
}

// Of each of them.
kernels::QuantizedLayout LayoutOf(kernels::WeightFormat format,
                                  const std::vector<std::vector<WeightView>>& matrices) {
  const DeviceMatrix each = Describe(matrices.front());
  const auto* const codes = std::get_if<Codebook4View>(&matrices.front().front());
  return kernels::MakeQuantizedLayout(format, each.n, each.k, GroupSizeOf(matrices),
                                      codes != nullptr ? codes->codebook : Codebook4());
}

// Codes of several codebooks become the numbers that they stand for: a product has one. Their
// groups are of any size there.
std::optional<kernels::WeightFormat> DeviceFormatOf(
    MatrixRole role, const std::vector<std::vector<WeightView>>& matrices,
    Quantization quantization) {
  const auto format = QuantizedFormatOf(role, matrices, quantization);
  if (!format || !kernels::IsCodebook4(*format)) return format;
  std::vector<WeightView> all;
  for (const std::vector<WeightView>& parts : matrices) {
    all.insert(all.end(), parts.begin(), parts.end());
  }
  if (!kernels::AreCodebook4(all, *format)) return std::nullopt;
  return kernels::WeightFormat::kCodebook4;
}

class Uploader {
 public:
  Uploader(CudaDevice& device, DType dtype, Quantization quantization, ThreadPool& threads)
      : device_(device), dtype_(dtype), quantization_(quantization), threads_(threads) {}

  // Matrices of the same shape, one below the other.
  StatusOr<DeviceMatrix> Stack(MatrixRole role,
                               const std::vector<std::vector<WeightView>>& matrices) {
    if (const auto format = DeviceFormatOf(role, matrices, quantization_); format) {
      return Quantized(*format, matrices);
    }
    std::vector<WeightView> all;
    for (const std::vector<WeightView>& parts : matrices) {
      if (std::ranges::any_of(parts, IsQuantized)) ++num_widened_;
      all.insert(all.end(), parts.begin(), parts.end());
    }
    return Numbers(all);
  }

  StatusOr<DeviceMatrix> Numbers(const std::vector<WeightView>& parts) {
    DeviceMatrix matrix = Describe(parts);
    ASSIGN_OR_RETURN(matrix.data, DeviceBuffer::Allocate(
                                      device_, static_cast<size_t>(matrix.n) * RowBytes(matrix.k)));
    std::byte* to = matrix.data.data();
    for (const WeightView& part : parts) {
      const int64_t elements = ShapeOf(part).at(0) * matrix.k;
      RETURN_IF_ERROR(Copy(part, elements, to));
      to += RowBytes(elements);
    }
    return matrix;
  }

  // Of matrices that have quantized parts.
  int64_t num_widened() const { return num_widened_; }

 private:
  size_t RowBytes(int64_t elements) const { return static_cast<size_t>(elements) * SizeOf(dtype_); }

  StatusOr<DeviceMatrix> Quantized(kernels::WeightFormat format,
                                   const std::vector<std::vector<WeightView>>& matrices) {
    DeviceMatrix matrix = Describe(matrices.front());
    const kernels::QuantizedLayout layout = LayoutOf(format, matrices);
    const std::vector<int32_t> inputs =
        format == kernels::WeightFormat::kInt4 ? InputsOf(matrices) : std::vector<int32_t>();
    const auto each_bytes = static_cast<size_t>(layout.size_bytes());
    matrix.quantized = layout;
    matrix.n *= std::ssize(matrices);
    ASSIGN_OR_RETURN(matrix.data, DeviceBuffer::Allocate(device_, each_bytes * matrices.size()));
    for (size_t i = 0; i < matrices.size(); ++i) {
      std::span<const int32_t> of_matrix = inputs;
      if (!inputs.empty()) {
        const auto k = static_cast<size_t>(matrix.k);
        of_matrix = of_matrix.subspan(i * k, k);
      }
      RETURN_IF_ERROR(
          WriteTiles(layout, matrices[i], of_matrix, matrix.data.data() + i * each_bytes));
    }
    if (inputs.empty()) return matrix;
    ASSIGN_OR_RETURN(matrix.inputs,
                     DeviceBuffer::Allocate(device_, std::span(inputs).size_bytes()));
    RETURN_IF_ERROR(
        device_.CopyAside(matrix.inputs.data(), inputs.data(), std::span(inputs).size_bytes()));
    return matrix;
  }

  Status WriteTiles(const kernels::QuantizedLayout& layout, const std::vector<WeightView>& parts,
                    std::span<const int32_t> inputs, std::byte* to) {
    constexpr size_t kCols = kernels::kQuantizedCols;
    const std::vector<kernels::WeightRow> rows = kernels::RowsOf(parts);
    const auto tile_bytes = static_cast<size_t>(layout.tile_bytes);
    // As many as are no more than numbers would take, but some for each thread.
    const auto at_once = std::min<int64_t>(
        std::max<int64_t>(static_cast<int64_t>(RowBytes(kStagingElements) / tile_bytes),
                          2 * threads_.num_threads()),
        layout.tiles());
    RETURN_IF_ERROR(Reserve(static_cast<size_t>(at_once) * tile_bytes));
    for (int64_t first = 0; first < layout.tiles(); first += at_once) {
      const int64_t count = std::min(at_once, layout.tiles() - first);
      threads_.ParallelFor(count, [&](int64_t i) {
        const size_t row = static_cast<size_t>(first + i) * kCols;
        kernels::WriteQuantizedTile(
            layout, std::span(rows).subspan(row, std::min(kCols, rows.size() - row)), inputs,
            staging_.data() + static_cast<size_t>(i) * tile_bytes);
      });
      RETURN_IF_ERROR(device_.CopyAside(to + static_cast<size_t>(first) * tile_bytes,
                                        staging_.data(), static_cast<size_t>(count) * tile_bytes));
    }
    return OkStatus();
  }

  Status Copy(const WeightView& part, int64_t elements, std::byte* to) {
    RETURN_IF_ERROR(Reserve(RowBytes(std::min(elements, kStagingElements))));
    for (int64_t first = 0; first < elements; first += kStagingElements) {
      const int64_t count = std::min(kStagingElements, elements - first);
      const int64_t pieces = CeilDiv(count, kElementsAtOnce);
      threads_.ParallelFor(pieces, [&](int64_t piece) {
        const int64_t begin = piece * kElementsAtOnce;
        CopyElements(part, first + begin, std::min(kElementsAtOnce, count - begin), dtype_,
                     staging_.data() + RowBytes(begin));
      });
      RETURN_IF_ERROR(device_.CopyAside(to + RowBytes(first), staging_.data(), RowBytes(count)));
    }
    return OkStatus();
  }

  // What is converted lies there until it is copied.
  Status Reserve(size_t size_bytes) {
    if (staging_.size_bytes() >= size_bytes) return OkStatus();
    staging_ = {};
    ASSIGN_OR_RETURN(staging_, PinnedBuffer::Allocate(device_, size_bytes));
    return OkStatus();
  }

  CudaDevice& device_;
  DType dtype_;
  Quantization quantization_;
  ThreadPool& threads_;
  PinnedBuffer staging_;
  int64_t num_widened_ = 0;
};

StatusOr<DeviceWeights::Layer> Upload(CudaDevice& device,
                                      LayerWeights<DeviceMatrix, DeviceMatrix> from) {
  DeviceWeights::Layer layer;
  ASSIGN_OR_RETURN(layer.attention_norm, UploadFloats(device, from.attention_norm));
  ASSIGN_OR_RETURN(layer.mlp_norm, UploadFloats(device, from.mlp_norm));
  ASSIGN_OR_RETURN(layer.attention_out_norm, UploadFloats(device, from.attention_out_norm));
  ASSIGN_OR_RETURN(layer.mlp_out_norm, UploadFloats(device, from.mlp_out_norm));
  ASSIGN_OR_RETURN(layer.q_norm, UploadFloats(device, from.q_norm));
  ASSIGN_OR_RETURN(layer.k_norm, UploadFloats(device, from.k_norm));
  ASSIGN_OR_RETURN(layer.sinks, UploadFloats(device, from.sinks));
  ASSIGN_OR_RETURN(layer.delta.conv, UploadFloats(device, from.delta.conv));
  ASSIGN_OR_RETURN(layer.delta.decay, UploadFloats(device, from.delta.decay));
  ASSIGN_OR_RETURN(layer.delta.dt_bias, UploadFloats(device, from.delta.dt_bias));
  ASSIGN_OR_RETURN(layer.delta.norm, UploadFloats(device, from.delta.norm));
  for (size_t i = 0; i < kNumProjectionGroups; ++i) {
    layer.groups[i].w = std::move(from.groups[i].w);
    ASSIGN_OR_RETURN(layer.groups[i].bias, UploadFloats(device, from.groups[i].bias));
  }
  layer.router = std::move(from.router);
  layer.expert_gate_up = std::move(from.experts.gate_up);
  layer.expert_down = std::move(from.experts.down);
  ASSIGN_OR_RETURN(layer.router_bias, UploadFloats(device, from.router_bias));
  ASSIGN_OR_RETURN(layer.expert_gate_up_bias, UploadFloats(device, from.experts.gate_up_bias));
  ASSIGN_OR_RETURN(layer.expert_down_bias, UploadFloats(device, from.experts.down_bias));
  return layer;
}

}  // namespace

StatusOr<DeviceBuffer> UploadFloats(CudaDevice& device, const std::vector<float>& values) {
  if (values.empty()) return DeviceBuffer();
  const size_t size_bytes = values.size() * sizeof(float);
  ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Allocate(device, size_bytes));
  RETURN_IF_ERROR(device.CopyAside(buffer.data(), values.data(), size_bytes));
  return buffer;
}

kernels::QuantizedGemmArgs DeviceMatrix::quantized_args() const {
  return {.inputs = inputs.as<int32_t>(),
          .w = data.data(),
          .layout = *quantized,
          .groups = static_cast<int32_t>(n / quantized->n)};
}

namespace {

// Of matrices of the same shape, one below the other.
int64_t BytesOf(MatrixRole role, const std::vector<std::vector<WeightView>>& matrices, DType dtype,
                Quantization quantization) {
  const DeviceMatrix each = Describe(matrices.front());
  const int64_t count = std::ssize(matrices);
  const auto format = DeviceFormatOf(role, matrices, quantization);
  if (!format) return count * each.n * each.k * static_cast<int64_t>(SizeOf(dtype));
  const bool has_order = *format == kernels::WeightFormat::kInt4;
  const int64_t inputs = has_order ? std::ssize(InputsOf(matrices)) : 0;
  return count * LayoutOf(*format, matrices).size_bytes() + inputs * int64_t{sizeof(int32_t)};
}

// The matrices of a checkpoint by what is multiplied together.
class Measure {
 public:
  Measure(const Checkpoint& checkpoint, const ModelSpec& spec, DType dtype,
          Quantization quantization)
      : checkpoint_(checkpoint), spec_(spec), dtype_(dtype), quantization_(quantization) {}

  void AddLayer(int64_t layer) {
    for (const ProjectionGroup group : ProjectionGroupsOf(spec_, layer)) {
      Add(RoleOf(group), {PartsOf(spec_, layer, group)}, InFeatures(spec_, group));
    }
    if (!spec_.experts) return;
    Add(MatrixRole::kUnrounded, {{RouterOf(spec_, layer)}}, spec_.hidden_size);
    for (const ProjectionGroup group : {ProjectionGroup::kGateUp, ProjectionGroup::kDown}) {
      std::vector<std::vector<MatrixPart>> experts;
      for (int64_t expert = 0; expert < spec_.experts->count; ++expert) {
        experts.push_back(PartsOfExpert(spec_, layer, expert, group));
      }
      Add(MatrixRole::kLayer, experts, InFeatures(spec_, group));
    }
  }
  void AddOuter() {
    const MatrixPart embedding = {"model.embed_tokens", spec_.vocab_size};
    // As it is, like a router.
    Add(MatrixRole::kUnrounded, {{embedding}}, spec_.hidden_size);
    if (!spec_.has_lm_head) return;
    if (!spec_.tie_word_embeddings) {
      Add(MatrixRole::kLmHead, {{{"lm_head", spec_.vocab_size}}}, spec_.hidden_size);
      return;
    }
    const int64_t before = bytes_;
    const bool is_embedding = !Add(MatrixRole::kLmHead, {{embedding}}, spec_.hidden_size);
    if (is_embedding) bytes_ = before;
  }
  int64_t bytes() const { return bytes_; }

 private:
  // Whether it is quantized there. What is not as it must be is for loading to say.
  bool Add(MatrixRole role, const std::vector<std::vector<MatrixPart>>& matrices, int64_t in) {
    std::vector<std::vector<WeightView>> views;
    for (const std::vector<MatrixPart>& parts : matrices) {
      views.emplace_back();
      for (const MatrixPart& part : parts) {
        auto view = checkpoint_.GetMatrix(part.module + ".weight", {part.out, in});
        if (!view.ok()) return false;
        views.back().push_back(*std::move(view));
      }
    }
    bytes_ += BytesOf(role, views, dtype_, quantization_);
    return DeviceFormatOf(role, views, quantization_).has_value();
  }

  const Checkpoint& checkpoint_;
  const ModelSpec& spec_;
  DType dtype_;
  Quantization quantization_;
  int64_t bytes_ = 0;
};

}  // namespace

int64_t DeviceWeightBytes(const Checkpoint& checkpoint, const ModelSpec& spec, DType dtype,
                          Quantization quantization) {
  Measure measure(checkpoint, spec, dtype, quantization);
  measure.AddOuter();
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) measure.AddLayer(layer);
  int64_t bytes = measure.bytes();
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const bool is_bias = tensor.shape.size() == 2 && name.ends_with("_bias");  // of experts
    const bool is_kept_in_floats =
        tensor.shape.size() == 1 || is_bias || name.ends_with(".conv1d.weight");
    if (is_kept_in_floats) bytes += tensor.num_elements() * int64_t{sizeof(float)};
  }
  return bytes;
}

StatusOr<DeviceWeights> LoadDeviceWeights(Checkpoint checkpoint, const ModelSpec& spec, DType dtype,
                                          Quantization quantization, CudaDevice& device,
                                          ThreadPool& threads, const LoadProgress& progress) {
  Uploader uploader(device, dtype, quantization, threads);
  const auto make = [&](MatrixRole role,
                        const std::vector<WeightView>& parts) -> StatusOr<DeviceMatrix> {
    const bool is_embedding = role == MatrixRole::kLmHead && spec.tie_word_embeddings &&
                              !DeviceFormatOf(role, {parts}, quantization);
    if (is_embedding) return DeviceMatrix();
    return uploader.Stack(role, {parts});
  };
  const auto make_stack = [&](const std::vector<std::vector<WeightView>>& experts) {
    return uploader.Stack(MatrixRole::kLayer, experts);
  };
  ASSIGN_OR_RETURN(auto taken,
                   (TakeWeights<DeviceMatrix, DeviceMatrix>(std::move(checkpoint), spec, threads,
                                                            progress, make, make_stack)));
  LogWidened(uploader.num_widened(), dtype);
  DeviceWeights weights;
  ASSIGN_OR_RETURN(weights.embedding, uploader.Numbers({taken.embedding}));
  for (auto& layer : taken.layers) {
    ASSIGN_OR_RETURN(weights.layers.emplace_back(), Upload(device, std::move(layer)));
  }
  ASSIGN_OR_RETURN(weights.final_norm, UploadFloats(device, taken.final_norm));
  weights.lm_head = std::move(taken.lm_head);
  weights.checkpoint = std::move(taken.checkpoint);
  return weights;
}

}  // namespace aril
