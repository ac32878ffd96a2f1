// What the LoRA kernels of a GPU read about adapters: where their matrices lie.

#ifndef ARIL_MODEL_CUDA_ADAPTERS_H_
#define ARIL_MODEL_CUDA_ADAPTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "adapters/resident_adapter.h"
#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/lora/expert_lora_cuda.h"
#include "kernels/lora/lora_cuda.h"
#include "spec/model_spec.h"

namespace aril {

// Tables of the adapters that were used last, on the device. What an adapter has is described when
// it is used for the first time, in a place of as many bytes, to the next power of two. Of places
// of one size there are as many as one step wants, or as fit into `kept_bytes` if the device has
// memory for them; when all are taken, that one is given on whose last use is longest ago. Used by
// one thread.
class CudaAdapters {
 public:
  // Of a layer, what all rows go through: the projections, and a mixture's router.
  static constexpr size_t kMaxSites = static_cast<size_t>(Site::Router().CountUpTo());
  static size_t SitesOf(const ModelSpec& spec) {
    return spec.experts ? kMaxSites : size_t{kNumProjections};
  }

  struct Table {
    const kernels::LoraDeviceWeights* weights = nullptr;  // [layers, SitesOf], on the device
    std::array<int32_t, kMaxSites> ranks = {};            // of each, the largest of any layer
    // Of experts, [layers]; null if the adapter changes none of them.
    const kernels::ExpertLoraLayer* experts = nullptr;
    int32_t expert_rank = 0;  // the largest
    // Of OuterWeights, likewise: what the adapter does not have has rank 0, or is null.
    const kernels::LoraDeviceWeights* embedding = nullptr;  // `a` is Aᵀ [vocab, rank]
    int32_t embedding_rank = 0;
    const kernels::LoraDeviceMatrix* own_embedding = nullptr;
    const kernels::LoraDeviceWeights* lm_head = nullptr;  // one for each block; A is the first's
    int32_t lm_head_rank = 0;
    int64_t lm_head_block_cols = 0;  // the same for all adapters
  };

  static constexpr size_t kKeptBytes = size_t{32} << 20;

  // Of this base model. Both must outlive this.
  CudaAdapters(kernels::CudaDevice& device, const ModelSpec& spec, size_t kept_bytes = kKeptBytes);
  ~CudaAdapters();

  // Those of `adapters`, all different, which are in the device's pool, for one step. Puts copies
  // of what is not there yet into the stream, which may have the step before to run, but none that
  // was before that.
  StatusOr<std::vector<Table>> Find(std::span<const ResidentAdapter* const> adapters);

 private:
  class Shelf;
  // What an adapter has at experts, if any, may be some fifty times as much as the rest.
  enum class Part { kAllButExperts, kExperts };
  struct Place {
    size_t size_bytes = 0;
    std::byte* at = nullptr;    // on the device
    std::byte* copy = nullptr;  // pinned: what is copied there
  };
  struct Known {
    Table table;  // of which the other part's is empty
    Place place;
    int64_t last_use = 0;  // in calls of Find
  };

  StatusOr<Table> FindPart(const ResidentAdapter& adapter, Part part);
  // One that nobody has, or nobody who is wanted now.
  StatusOr<Place> TakePlace(size_t place_bytes);

  kernels::CudaDevice& device_;
  const ModelSpec& spec_;
  size_t kept_bytes_;
  int64_t num_calls_ = 0;
  std::map<size_t, std::unique_ptr<Shelf>> shelves_;  // by the bytes of a place
  std::map<std::pair<int64_t, Part>, Known> known_;   // by serial
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_ADAPTERS_H_
