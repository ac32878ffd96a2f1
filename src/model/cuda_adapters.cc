#include "model/cuda_adapters.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/lora/lora_plan.h"

namespace aril {
namespace {

using kernels::LoraDeviceMatrix;
using kernels::LoraDeviceWeights;
using kernels::LoraMatrix;
using kernels::LoraWeights;
using kernels::MatrixRun;

// More than a step of decodes has; for a model with 32 layers 8 MB.
constexpr size_t kFirstPlaces = 128;
constexpr size_t kAlignment = 16;

// All weights of an adapter: the layers', and if it has any outside of them the embedding's and
// those of lm_head's blocks.
std::vector<LoraWeights> WeightsOf(const ResidentAdapter& adapter) {
  std::vector<LoraWeights> weights;
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    const auto of_layer = adapter.Layer(layer);
    weights.insert(weights.end(), of_layer.begin(), of_layer.end());
  }
  if (!adapter.changes_outer()) return weights;
  const OuterWeights& outer = adapter.outer();
  weights.push_back({.rank = outer.embedding_rank,
                     .scale = outer.embedding_scale,
                     .a = outer.embedding_a,
                     .b = outer.embedding_b,
                     .gain = outer.embedding_gain});
  for (const OuterWeights::Block& block : outer.lm_head) {
    weights.push_back(block.weights);
    if (block.first_col > 0) weights.back().a = {};
  }
  return weights;
}

void CheckOwned(const kernels::CudaDevice& device, const LoraMatrix& matrix) {
  for (const MatrixRun& run : matrix.runs) CHECK(device.OwnsAll({&run.data, 1}));
}

// An adapter's table as bytes that will lie at `at` on the device: the weights, the embedding's own
// matrix, then the runs of all.
class Description {
 public:
  Description(const ResidentAdapter& adapter, std::byte* at)
      : weights_(WeightsOf(adapter)),
        own_embedding_(adapter.outer().embedding_table),
        at_(at),
        own_embedding_offset_(weights_.size() * sizeof(LoraDeviceWeights)),
        runs_offset_(RoundUp(own_embedding_offset_ + sizeof(LoraDeviceMatrix), kAlignment)) {}

  size_t size_bytes() const {
    size_t runs = own_embedding_.runs.size();
    for (const LoraWeights& weights : weights_) {
      runs += weights.a.runs.size() + weights.b.runs.size() + weights.gain.runs.size();
    }
    return RoundUp(runs_offset_ + runs * sizeof(MatrixRun), kAlignment);
  }

  // For the device that all matrices are on.
  std::vector<std::byte> Write(const kernels::CudaDevice& device) const {
    std::vector<std::byte> table(size_bytes());
    size_t run_offset = runs_offset_;
    const auto describe = [&](const LoraMatrix& matrix) {
      const auto* device_runs = reinterpret_cast<const MatrixRun*>(at_ + run_offset);
      CheckOwned(device, matrix);
      if (!matrix.runs.empty()) {
        std::memcpy(&table[run_offset], matrix.runs.data(), matrix.runs.size_bytes());
        run_offset += matrix.runs.size_bytes();
      }
      return kernels::DescribeLoraMatrix(matrix, device_runs);
    };
    size_t offset = 0;
    for (const LoraWeights& weights : weights_) {
      const LoraDeviceWeights described = {.a = describe(weights.a),
                                           .b = describe(weights.b),
                                           .gain = describe(weights.gain),
                                           .rank = weights.rank,
                                           .scale = weights.scale};
      std::memcpy(&table[offset], &described, sizeof(described));
      offset += sizeof(described);
    }
    const LoraDeviceMatrix own_embedding = describe(own_embedding_);
    std::memcpy(&table[own_embedding_offset_], &own_embedding, sizeof(own_embedding));
    return table;
  }

  const LoraDeviceWeights* weights(size_t index) const {
    return reinterpret_cast<const LoraDeviceWeights*>(at_) + index;
  }
  const LoraDeviceMatrix* own_embedding() const {
    if (own_embedding_.runs.empty()) return nullptr;
    return reinterpret_cast<const LoraDeviceMatrix*>(at_ + own_embedding_offset_);
  }

 private:
  std::vector<LoraWeights> weights_;
  LoraMatrix own_embedding_;
  std::byte* at_;
  size_t own_embedding_offset_;
  size_t runs_offset_;
};

size_t TableBytes(const ResidentAdapter& adapter) {
  return Description(adapter, nullptr).size_bytes();
}

CudaAdapters::Table TableOf(const ResidentAdapter& adapter, const Description& description) {
  CudaAdapters::Table table{.weights = description.weights(0)};
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    const auto weights = adapter.Layer(layer);
    for (size_t p = 0; p < kNumProjections; ++p) {
      table.ranks[p] = std::max(table.ranks[p], weights[p].rank);
    }
  }
  if (!adapter.changes_outer()) return table;
  const OuterWeights& outer = adapter.outer();
  const size_t embedding = static_cast<size_t>(adapter.num_layers()) * kNumProjections;
  table.embedding = description.weights(embedding);
  table.embedding_rank = outer.embedding_rank;
  table.own_embedding = description.own_embedding();
  if (outer.lm_head.empty()) return table;
  table.lm_head = description.weights(embedding + 1);
  table.lm_head_rank = outer.lm_head[0].weights.rank;
  table.lm_head_block_cols = outer.lm_head[0].width;
  return table;
}

}  // namespace

Status CudaAdapters::MakeRoom(std::span<const ResidentAdapter* const> adapters) {
  size_t bytes = place_bytes_, places = std::max(num_places_, kFirstPlaces);
  for (const ResidentAdapter* adapter : adapters) {
    if (known_.contains(adapter->serial())) continue;
    bytes = std::max(bytes, std::bit_ceil(TableBytes(*adapter)));
  }
  if (adapters.size() > places) places = 2 * adapters.size();
  if (bytes == place_bytes_ && places == num_places_) return OkStatus();
  RETURN_IF_ERROR(device_.Synchronize());
  known_.clear();
  memory_ = {};
  copies_ = {};
  ASSIGN_OR_RETURN(memory_, kernels::DeviceBuffer::Allocate(device_, places * bytes));
  ASSIGN_OR_RETURN(copies_, kernels::PinnedBuffer::Allocate(device_, places * bytes));
  num_places_ = places;
  place_bytes_ = bytes;
  return OkStatus();
}

StatusOr<size_t> CudaAdapters::TakePlace() {
  // They are taken in order, and only given on.
  if (known_.size() < num_places_) return known_.size();
  const auto oldest =
      std::ranges::min_element(known_, {}, [](const auto& entry) { return entry.second.last_use; });
  CHECK_LT(oldest->second.last_use, num_calls_);
  // Its copy may still have to be read for the step before.
  if (oldest->second.last_use == num_calls_ - 1) RETURN_IF_ERROR(device_.Synchronize());
  const size_t place = oldest->second.place;
  known_.erase(oldest);
  return place;
}

StatusOr<std::vector<CudaAdapters::Table>> CudaAdapters::Find(
    std::span<const ResidentAdapter* const> adapters) {
  if (adapters.empty()) return std::vector<Table>();
  RETURN_IF_ERROR(MakeRoom(adapters));
  ++num_calls_;
  for (const ResidentAdapter* adapter : adapters) {
    const auto known = known_.find(adapter->serial());
    if (known != known_.end()) known->second.last_use = num_calls_;
  }
  std::vector<Table> found;
  for (const ResidentAdapter* adapter : adapters) {
    if (const auto known = known_.find(adapter->serial()); known != known_.end()) {
      found.push_back(known->second.table);
      continue;
    }
    ASSIGN_OR_RETURN(const size_t place, TakePlace());
    const size_t offset = place * place_bytes_;
    std::byte* const at = memory_.data() + offset;
    CheckOwned(device_, adapter->outer().lm_head_table);
    const Description description(*adapter, at);
    const std::vector<std::byte> bytes = description.Write(device_);
    std::memcpy(copies_.data() + offset, bytes.data(), bytes.size());
    RETURN_IF_ERROR(device_.CopyToDevice(at, copies_.data() + offset, bytes.size()));
    found.push_back(TableOf(*adapter, description));
    known_.emplace(adapter->serial(), Known{found.back(), place, num_calls_});
  }
  return found;
}

}  // namespace aril
