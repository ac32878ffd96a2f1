#include "model/cuda_adapters.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/lora/lora_plan.h"

namespace aril {
namespace {

using kernels::LoraDeviceWeights;
using kernels::MatrixRun;

// More than a step of decodes has; for a model with 32 layers 8 MB.
constexpr size_t kFirstPlaces = 128;
constexpr size_t kAlignment = 16;

template <typename Function>
void ForEachMatrix(const ResidentAdapter& adapter, Function function) {
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    for (const kernels::LoraWeights& weights : adapter.Layer(layer)) {
      for (const kernels::LoraMatrix* matrix : {&weights.a, &weights.b, &weights.gain}) {
        function(*matrix);
      }
    }
  }
}

size_t NumWeights(const ResidentAdapter& adapter) {
  return static_cast<size_t>(adapter.num_layers()) * kNumProjections;
}

}  // namespace

size_t CudaAdapters::TableBytes(const ResidentAdapter& adapter) {
  size_t runs = 0;
  ForEachMatrix(adapter, [&](const kernels::LoraMatrix& matrix) { runs += matrix.runs.size(); });
  return RoundUp(NumWeights(adapter) * sizeof(LoraDeviceWeights), kAlignment) +
         RoundUp(runs * sizeof(MatrixRun), kAlignment);
}

std::vector<std::byte> CudaAdapters::Describe(const ResidentAdapter& adapter, std::byte* at) const {
  std::vector<std::byte> table(TableBytes(adapter));
  size_t run_offset = RoundUp(NumWeights(adapter) * sizeof(LoraDeviceWeights), kAlignment);
  const auto describe = [&](const kernels::LoraMatrix& matrix) {
    const auto* device_runs = reinterpret_cast<const MatrixRun*>(at + run_offset);
    for (const MatrixRun& run : matrix.runs) CHECK(device_.OwnsAll({&run.data, 1}));
    if (!matrix.runs.empty()) {
      std::memcpy(&table[run_offset], matrix.runs.data(), matrix.runs.size_bytes());
      run_offset += matrix.runs.size_bytes();
    }
    return kernels::DescribeLoraMatrix(matrix, device_runs);
  };
  size_t offset = 0;
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    for (const kernels::LoraWeights& weights : adapter.Layer(layer)) {
      const LoraDeviceWeights described = {.a = describe(weights.a),
                                           .b = describe(weights.b),
                                           .gain = describe(weights.gain),
                                           .rank = weights.rank,
                                           .scale = weights.scale};
      std::memcpy(&table[offset], &described, sizeof(described));
      offset += sizeof(described);
    }
  }
  return table;
}

Status CudaAdapters::MakeRoom(std::span<const ResidentAdapter* const> adapters) {
  size_t bytes = place_bytes_, places = std::max(num_places_, kFirstPlaces);
  for (const ResidentAdapter* adapter : adapters) {
    bytes = std::max(bytes, std::bit_ceil(TableBytes(*adapter)));
  }
  if (adapters.size() > places) places = 2 * adapters.size();
  if (bytes == place_bytes_ && places == num_places_) return OkStatus();
  known_.clear();
  memory_ = {};
  copies_ = {};
  ASSIGN_OR_RETURN(memory_, kernels::DeviceBuffer::Allocate(device_, places * bytes));
  ASSIGN_OR_RETURN(copies_, kernels::PinnedBuffer::Allocate(device_, places * bytes));
  num_places_ = places;
  place_bytes_ = bytes;
  return OkStatus();
}

size_t CudaAdapters::TakePlace() {
  // They are taken in order, and only given on.
  if (known_.size() < num_places_) return known_.size();
  const auto oldest =
      std::ranges::min_element(known_, {}, [](const auto& entry) { return entry.second.last_use; });
  CHECK_LT(oldest->second.last_use, num_calls_);
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
    const size_t place = TakePlace(), offset = place * place_bytes_;
    std::byte* const at = memory_.data() + offset;
    const std::vector<std::byte> bytes = Describe(*adapter, at);
    std::memcpy(copies_.data() + offset, bytes.data(), bytes.size());
    RETURN_IF_ERROR(device_.CopyToDevice(at, copies_.data() + offset, bytes.size()));
    Table table{.weights = reinterpret_cast<const LoraDeviceWeights*>(at)};
    for (int64_t layer = 0; layer < adapter->num_layers(); ++layer) {
      const auto weights = adapter->Layer(layer);
      for (size_t p = 0; p < kNumProjections; ++p) {
        table.ranks[p] = std::max(table.ranks[p], weights[p].rank);
      }
    }
    known_.emplace(adapter->serial(), Known{table, place, num_calls_});
    found.push_back(table);
  }
  return found;
}

}  // namespace aril
