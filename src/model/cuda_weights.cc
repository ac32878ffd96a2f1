#include "model/cuda_weights.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/checked.h"

namespace aril {
namespace {

using kernels::CudaDevice;
using kernels::DeviceBuffer;
using kernels::PinnedBuffer;

// What is converted at once, and copied then: large enough that copies are not what takes the time.
constexpr int64_t kStagingElements = int64_t{1} << 22;
constexpr int64_t kElementsAtOnce = int64_t{1} << 16;  // of one thread

class Uploader {
 public:
  Uploader(CudaDevice& device, DType dtype, ThreadPool& threads, PinnedBuffer staging)
      : device_(device), dtype_(dtype), threads_(threads), staging_(std::move(staging)) {}

  StatusOr<DeviceMatrix> Matrix(const std::vector<TensorView>& parts) {
    DeviceMatrix matrix{.data = {}, .n = 0, .k = parts.front().shape.back()};
    for (const TensorView& part : parts) matrix.n += part.shape.front();
    ASSIGN_OR_RETURN(matrix.data, DeviceBuffer::Allocate(
                                      device_, static_cast<size_t>(matrix.n) * RowBytes(matrix.k)));
    std::byte* to = matrix.data.data();
    for (const TensorView& part : parts) {
      RETURN_IF_ERROR(Copy(part, to));
      to += RowBytes(part.num_elements());
    }
    return matrix;
  }

 private:
  size_t RowBytes(int64_t elements) const { return static_cast<size_t>(elements) * SizeOf(dtype_); }

  Status Copy(const TensorView& part, std::byte* to) {
    for (int64_t first = 0; first < part.num_elements(); first += kStagingElements) {
      const int64_t count = std::min(kStagingElements, part.num_elements() - first);
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

  CudaDevice& device_;
  DType dtype_;
  ThreadPool& threads_;
  PinnedBuffer staging_;  // [kStagingElements], or the largest tensor
};

// A spec that is not quantized has no others.
std::vector<TensorView> Numbers(const std::vector<WeightView>& parts) {
  std::vector<TensorView> numbers;
  for (const WeightView& part : parts) numbers.push_back(std::get<TensorView>(part));
  return numbers;
}

StatusOr<DeviceWeights::Layer> Upload(CudaDevice& device,
                                      LayerWeights<DeviceMatrix, DeviceMatrix> from) {
  DeviceWeights::Layer layer;
  ASSIGN_OR_RETURN(layer.attention_norm, UploadFloats(device, from.attention_norm));
  ASSIGN_OR_RETURN(layer.mlp_norm, UploadFloats(device, from.mlp_norm));
  ASSIGN_OR_RETURN(layer.attention_out_norm, UploadFloats(device, from.attention_out_norm));
  ASSIGN_OR_RETURN(layer.mlp_out_norm, UploadFloats(device, from.mlp_out_norm));
  ASSIGN_OR_RETURN(layer.q_norm, UploadFloats(device, from.q_norm));
  ASSIGN_OR_RETURN(layer.k_norm, UploadFloats(device, from.k_norm));
  for (size_t i = 0; i < kNumProjectionGroups; ++i) {
    layer.groups[i].w = std::move(from.groups[i].w);
    ASSIGN_OR_RETURN(layer.groups[i].bias, UploadFloats(device, from.groups[i].bias));
  }
  layer.router = std::move(from.router);
  layer.expert_gate_up = std::move(from.experts.gate_up);
  layer.expert_down = std::move(from.experts.down);
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

int64_t DeviceWeightBytes(const Checkpoint& checkpoint, const ModelSpec& spec, DType dtype) {
  int64_t elements = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const bool is_taken = !spec.tie_word_embeddings || name != "lm_head.weight";
    if (is_taken) elements += tensor.num_elements();
  }
  return elements * static_cast<int64_t>(SizeOf(dtype));
}

StatusOr<DeviceWeights> LoadDeviceWeights(Checkpoint checkpoint, const ModelSpec& spec, DType dtype,
                                          CudaDevice& device, ThreadPool& threads,
                                          const LoadProgress& progress) {
  CHECK(!spec.quantized);
  int64_t largest = 1;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    largest = std::max(largest, tensor.num_elements());
  }
  const auto staged = static_cast<size_t>(std::min(largest, kStagingElements));
  ASSIGN_OR_RETURN(PinnedBuffer staging, PinnedBuffer::Allocate(device, staged * SizeOf(dtype)));
  Uploader uploader(device, dtype, threads, std::move(staging));
  const auto make = [&](MatrixRole role,
                        const std::vector<WeightView>& parts) -> StatusOr<DeviceMatrix> {
    if (role == MatrixRole::kLmHead && spec.tie_word_embeddings) return DeviceMatrix();
    return uploader.Matrix(Numbers(parts));
  };
  const auto make_stack = [&](const std::vector<std::vector<WeightView>>& experts) {
    std::vector<TensorView> parts;
    for (const auto& of_expert : experts) {
      const std::vector<TensorView> numbers = Numbers(of_expert);
      parts.insert(parts.end(), numbers.begin(), numbers.end());
    }
    return uploader.Matrix(parts);
  };
  ASSIGN_OR_RETURN(auto taken,
                   (TakeWeights<DeviceMatrix, DeviceMatrix>(std::move(checkpoint), spec, threads,
                                                            progress, make, make_stack)));
  DeviceWeights weights;
  ASSIGN_OR_RETURN(weights.embedding, uploader.Matrix({taken.embedding}));
  for (auto& layer : taken.layers) {
    ASSIGN_OR_RETURN(weights.layers.emplace_back(), Upload(device, std::move(layer)));
  }
  ASSIGN_OR_RETURN(weights.final_norm, UploadFloats(device, taken.final_norm));
  weights.lm_head = std::move(taken.lm_head);
  weights.checkpoint = std::move(taken.checkpoint);
  return weights;
}

}  // namespace aril
