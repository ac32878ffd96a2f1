#include "model/cuda_adapters.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/lora/expert_lora_cuda.h"
#include "kernels/lora/lora_plan.h"
#include "model/backend.h"

namespace aril {
namespace {

using kernels::LoraDeviceMatrix;
using kernels::LoraDeviceWeights;
using kernels::LoraMatrix;
using kernels::LoraWeights;
using kernels::MatrixRun;

constexpr size_t kAlignment = 16;

// Of the first sites of a layer: the projections, and a router behind them.
std::vector<LoraWeights> SitesOfLayer(const ResidentAdapter& adapter, int64_t layer,
                                      size_t num_sites) {
  const auto projections = adapter.Layer(layer);
  std::vector<LoraWeights> weights(projections.begin(), projections.end());
  if (num_sites > weights.size()) {
    weights.push_back(adapter.Sites(layer, Site::Router(), 1).front());
  }
  return weights;
}

// An adapter's weights but for experts': the layers', and if it has any outside of them the
// embedding's and those of lm_head's blocks.
std::vector<LoraWeights> WeightsOf(const ResidentAdapter& adapter, size_t num_sites) {
  std::vector<LoraWeights> weights;
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    const auto of_layer = SitesOfLayer(adapter, layer, num_sites);
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

// Those of a layer's experts; nothing if it changes none of them.
std::vector<LoraWeights> ExpertWeightsOf(const ResidentAdapter& adapter, int64_t layer,
                                         int64_t num_experts) {
  std::vector<LoraWeights> weights;
  bool changes = false;
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    for (const LoraWeights& site : adapter.Sites(layer, Site::OfExpert(expert, Projection::kGate),
                                                 kernels::kExpertLoraSites)) {
      weights.push_back(site);
      changes = changes || site.rank > 0;
    }
  }
  if (!changes) weights.clear();
  return weights;
}

// Something described as bytes that will lie at `at` on the device, written to `copy`: parts of a
// fixed size, and runs of matrices. Both are null in a first pass, which finds the size.
class Writer {
 public:
  Writer(const kernels::CudaDevice& device, std::byte* at, std::byte* copy)
      : device_(device), at_(at), copy_(copy) {}

  size_t size_bytes() const { return RoundUp(end_, kAlignment); }

  // Room for `count` of these; returns where it is.
  template <typename T>
  size_t Reserve(size_t count) {
    const size_t offset = RoundUp(end_, alignof(T));
    end_ = offset + count * sizeof(T);
    return offset;
  }
  template <typename T>
  void Set(size_t offset, size_t index, const T& value) {
    if (copy_ != nullptr) std::memcpy(copy_ + offset + index * sizeof(T), &value, sizeof(T));
  }
  // Null in the first pass.
  template <typename T>
  const T* Address(size_t offset, size_t index = 0) const {
    return at_ == nullptr ? nullptr : reinterpret_cast<const T*>(at_ + offset) + index;
  }

  // A matrix that kernels get in another way must be on the device as well.
  void CheckOwned(const LoraMatrix& matrix) const {
    if (copy_ == nullptr) return;
    for (const MatrixRun& run : matrix.runs) CHECK(device_.OwnsAll({&run.data, 1}));
  }

  LoraDeviceMatrix Describe(const LoraMatrix& matrix) {
    const size_t offset = Reserve<MatrixRun>(matrix.runs.size());
    if (copy_ == nullptr) return {};
    CheckOwned(matrix);
    for (size_t i = 0; i < matrix.runs.size(); ++i) Set(offset, i, matrix.runs[i]);
    return kernels::DescribeLoraMatrix(matrix, Address<MatrixRun>(offset));
  }
  LoraDeviceWeights Describe(const LoraWeights& weights) {
    return {.a = Describe(weights.a),
            .b = Describe(weights.b),
            .gain = Describe(weights.gain),
            .rank = weights.rank,
            .scale = weights.scale};
  }

 private:
  const kernels::CudaDevice& device_;
  std::byte* at_;
  std::byte* copy_;
  size_t end_ = 0;
};

// All but experts: the weights, the embedding's own matrix, then runs.
CudaAdapters::Table DescribeAdapter(const ResidentAdapter& adapter, size_t num_sites,
                                    Writer& writer) {
  const std::vector<LoraWeights> weights = WeightsOf(adapter, num_sites);
  const size_t offset = writer.Reserve<LoraDeviceWeights>(weights.size());
  const size_t own_embedding = writer.Reserve<LoraDeviceMatrix>(1);
  for (size_t i = 0; i < weights.size(); ++i) writer.Set(offset, i, writer.Describe(weights[i]));
  const OuterWeights& outer = adapter.outer();
  writer.CheckOwned(outer.lm_head_table);
  writer.Set(own_embedding, 0, writer.Describe(outer.embedding_table));
  CudaAdapters::Table table{.weights = writer.Address<LoraDeviceWeights>(offset)};
  const auto layers = static_cast<size_t>(adapter.num_layers());
  for (size_t i = 0; i < layers * num_sites; ++i) {
    int32_t& rank = table.ranks[i % num_sites];
    rank = std::max(rank, weights[i].rank);
  }
  if (!adapter.changes_outer()) return table;
  const size_t embedding = layers * num_sites;
  table.embedding = writer.Address<LoraDeviceWeights>(offset, embedding);
  table.embedding_rank = outer.embedding_rank;
  if (!outer.embedding_table.runs.empty()) {
    table.own_embedding = writer.Address<LoraDeviceMatrix>(own_embedding);
  }
  if (outer.lm_head.empty()) return table;
  table.lm_head = writer.Address<LoraDeviceWeights>(offset, embedding + 1);
  table.lm_head_rank = outer.lm_head[0].weights.rank;
  table.lm_head_block_cols = outer.lm_head_block_cols;
  return table;
}

// What it has at experts: the layers, weights of rank 0, then those of the layers that it changes.
CudaAdapters::Table DescribeExperts(const ResidentAdapter& adapter, int64_t num_experts,
                                    Writer& writer) {
  const size_t layers =
      writer.Reserve<kernels::ExpertLoraLayer>(static_cast<size_t>(adapter.num_layers()));
  const size_t none = writer.Reserve<LoraDeviceWeights>(1);
  writer.Set(none, 0, LoraDeviceWeights());
  CudaAdapters::Table table{.experts = writer.Address<kernels::ExpertLoraLayer>(layers)};
  for (int64_t layer = 0; layer < adapter.num_layers(); ++layer) {
    const std::vector<LoraWeights> weights = ExpertWeightsOf(adapter, layer, num_experts);
    kernels::ExpertLoraLayer described{writer.Address<LoraDeviceWeights>(none), 0, 0};
    if (!weights.empty()) {
      const size_t offset = writer.Reserve<LoraDeviceWeights>(weights.size());
      for (size_t i = 0; i < weights.size(); ++i) {
        writer.Set(offset, i, writer.Describe(weights[i]));
        table.expert_rank = std::max(table.expert_rank, weights[i].rank);
      }
      described = {writer.Address<LoraDeviceWeights>(offset), kernels::kExpertLoraSites, 1};
    }
    writer.Set(layers, static_cast<size_t>(layer), described);
  }
  return table;
}

}  // namespace

// Places of one size, in pieces of memory that stay where they are.
class CudaAdapters::Shelf {
 public:
  Shelf(size_t place_bytes, size_t board_bytes)
      : place_bytes_(place_bytes), places_each_(std::max(size_t{1}, board_bytes / place_bytes)) {}

  bool is_full() const { return num_taken_ == boards_.size() * places_each_; }
  size_t size_bytes() const { return boards_.size() * places_each_ * place_bytes_; }

  Status Grow(kernels::CudaDevice& device) {
    Board board;
    const size_t bytes = places_each_ * place_bytes_;
    ASSIGN_OR_RETURN(board.memory, kernels::DeviceBuffer::Allocate(device, bytes));
    ASSIGN_OR_RETURN(board.copies, kernels::PinnedBuffer::Allocate(device, bytes));
    boards_.push_back(std::move(board));
    return OkStatus();
  }
  // They are taken in order, and only given on.
  Place Take() {
    CHECK(!is_full());
    const Board& board = boards_[num_taken_ / places_each_];
    const size_t offset = num_taken_++ % places_each_ * place_bytes_;
    return {place_bytes_, board.memory.data() + offset, board.copies.data() + offset};
  }

 private:
  struct Board {
    kernels::DeviceBuffer memory;
    kernels::PinnedBuffer copies;
  };

  size_t place_bytes_;
  size_t places_each_;
  std::vector<Board> boards_;
  size_t num_taken_ = 0;
};

CudaAdapters::CudaAdapters(kernels::CudaDevice& device, const ModelSpec& spec, size_t kept_bytes)
    : device_(device), spec_(spec), kept_bytes_(kept_bytes) {}

CudaAdapters::~CudaAdapters() = default;

StatusOr<CudaAdapters::Place> CudaAdapters::TakePlace(size_t place_bytes) {
  constexpr size_t kBoardsKept = 8;
  std::unique_ptr<Shelf>& found = shelves_[place_bytes];
  if (found == nullptr) found = std::make_unique<Shelf>(place_bytes, kept_bytes_ / kBoardsKept);
  Shelf& shelf = *found;
  if (!shelf.is_full()) return shelf.Take();
  auto oldest = known_.end();
  for (auto it = known_.begin(); it != known_.end(); ++it) {
    if (it->second.place.size_bytes != place_bytes) continue;
    if (oldest == known_.end() || it->second.last_use < oldest->second.last_use) oldest = it;
  }
  const bool all_wanted = oldest == known_.end() || oldest->second.last_use == num_calls_;
  if (all_wanted || shelf.size_bytes() < kept_bytes_) {
    const Status grown = shelf.Grow(device_);
    if (grown.ok()) return shelf.Take();
    if (all_wanted || grown.code() != StatusCode::kResourceExhausted) return grown;
  }
  // Its copy may still have to be read for a step that is under way.
  if (oldest->second.last_use > num_calls_ - Backend::kMaxStepsUnderWay) {
    RETURN_IF_ERROR(device_.Synchronize());
  }
  const Place place = oldest->second.place;
  known_.erase(oldest);
  return place;
}

StatusOr<CudaAdapters::Table> CudaAdapters::FindPart(const ResidentAdapter& adapter, Part part) {
  const std::pair key(adapter.serial(), part);
  if (const auto known = known_.find(key); known != known_.end()) return known->second.table;
  const auto describe = [&](Writer writer) {
    const Table table = part == Part::kExperts
                            ? DescribeExperts(adapter, spec_.experts->count, writer)
                            : DescribeAdapter(adapter, SitesOf(spec_), writer);
    return std::pair(table, writer.size_bytes());
  };
  const size_t size_bytes = describe(Writer(device_, nullptr, nullptr)).second;
  ASSIGN_OR_RETURN(const Place place, TakePlace(std::bit_ceil(size_bytes)));
  const Table table = describe(Writer(device_, place.at, place.copy)).first;
  RETURN_IF_ERROR(device_.CopyToDevice(place.at, place.copy, size_bytes));
  known_.emplace(key, Known{table, place, num_calls_});
  return table;
}

StatusOr<std::vector<CudaAdapters::Table>> CudaAdapters::Find(
    std::span<const ResidentAdapter* const> adapters) {
  ++num_calls_;
  for (const ResidentAdapter* adapter : adapters) {
    for (const Part part : {Part::kAllButExperts, Part::kExperts}) {
      const auto known = known_.find({adapter->serial(), part});
      if (known != known_.end()) known->second.last_use = num_calls_;
    }
  }
  std::vector<Table> found;
  for (const ResidentAdapter* adapter : adapters) {
    ASSIGN_OR_RETURN(Table table, FindPart(*adapter, Part::kAllButExperts));
    if (adapter->changes_experts()) {
      ASSIGN_OR_RETURN(const Table of_experts, FindPart(*adapter, Part::kExperts));
      table.experts = of_experts.experts;
      table.expert_rank = of_experts.expert_rank;
    }
    found.push_back(table);
  }
  return found;
}

}  // namespace aril
