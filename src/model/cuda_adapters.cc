#include "model/cuda_adapters.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/lora/lora_plan.h"

namespace aril {
namespace {

using kernels::LoraDeviceWeights;
using kernels::MatrixRun;

// Room for some forty adapters of a model with 32 layers.
constexpr size_t kFirstBytes = size_t{1} << 20;
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

std::vector<std::byte> CudaAdapters::Describe(const ResidentAdapter& adapter, std::byte* at) {
  std::vector<std::byte> table(TableBytes(adapter));
  size_t run_offset = RoundUp(NumWeights(adapter) * sizeof(LoraDeviceWeights), kAlignment);
  const auto describe = [&](const kernels::LoraMatrix& matrix) {
    const auto* device_runs = reinterpret_cast<const MatrixRun*>(at + run_offset);
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
  size_t missing = 0, all = 0;
  for (const ResidentAdapter* adapter : adapters) {
    const size_t bytes = TableBytes(*adapter);
    all += bytes;
    if (!tables_.contains(adapter->serial())) missing += bytes;
  }
  if (used_bytes_ + missing <= memory_.size_bytes()) return OkStatus();
  // What the stream does with the old tables comes before what is copied there now; but not before
  // memory is given back.
  if (all > memory_.size_bytes()) {
    RETURN_IF_ERROR(device_.Synchronize());
    memory_ = {};
    ASSIGN_OR_RETURN(memory_,
                     kernels::DeviceBuffer::Allocate(device_, std::max(kFirstBytes, 2 * all)));
  }
  tables_.clear();
  used_bytes_ = 0;
  return OkStatus();
}

StatusOr<std::vector<CudaAdapters::Table>> CudaAdapters::Find(
    std::span<const ResidentAdapter* const> adapters) {
  RETURN_IF_ERROR(MakeRoom(adapters));
  std::vector<Table> found;
  for (const ResidentAdapter* adapter : adapters) {
    if (const auto known = tables_.find(adapter->serial()); known != tables_.end()) {
      found.push_back(known->second);
      continue;
    }
    std::byte* const at = memory_.data() + used_bytes_;
    const std::vector<std::byte> bytes = Describe(*adapter, at);
    RETURN_IF_ERROR(device_.CopyToDevice(at, bytes.data(), bytes.size()));
    RETURN_IF_ERROR(device_.Synchronize());  // the bytes are about to go
    used_bytes_ += bytes.size();
    Table table{.weights = reinterpret_cast<const LoraDeviceWeights*>(at)};
    for (int64_t layer = 0; layer < adapter->num_layers(); ++layer) {
      const auto weights = adapter->Layer(layer);
      for (size_t p = 0; p < kNumProjections; ++p) {
        table.ranks[p] = std::max(table.ranks[p], weights[p].rank);
      }
    }
    tables_.emplace(adapter->serial(), table);
    found.push_back(table);
  }
  return found;
}

}  // namespace aril
