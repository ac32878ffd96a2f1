// What the LoRA kernels of a GPU read about adapters: where their matrices lie.

#ifndef ARIL_MODEL_CUDA_ADAPTERS_H_
#define ARIL_MODEL_CUDA_ADAPTERS_H_

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "adapters/resident_adapter.h"
#include "base/status.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/lora/lora_cuda.h"

namespace aril {

// Tables of the adapters that were used last, in one piece of the device's memory with a place for
// each. One that is used for the first time gets a place; when all are taken, that of the one whose
// last use is longest ago. Used by one thread.
class CudaAdapters {
 public:
  struct Table {
    const kernels::LoraDeviceWeights* weights = nullptr;  // [layers, projections], on the device
    std::array<int32_t, kNumProjections> ranks = {};      // of each, the largest of any layer
    // Of OuterWeights, likewise: what the adapter does not have has rank 0, or is null.
    const kernels::LoraDeviceWeights* embedding = nullptr;  // `a` is Aᵀ [vocab, rank]
    int32_t embedding_rank = 0;
    const kernels::LoraDeviceMatrix* own_embedding = nullptr;
    const kernels::LoraDeviceWeights* lm_head = nullptr;  // one for each block; A is the first's
    int32_t lm_head_rank = 0;
    int64_t lm_head_block_cols = 0;  // the same for all adapters
  };

  // The device must outlive this.
  explicit CudaAdapters(kernels::CudaDevice& device) : device_(device) {}

  // Those of `adapters`, all different, which are in the device's pool, for one step. Puts copies
  // of what is not there yet into the stream, which may have the step before to run, but none that
  // was before that.
  StatusOr<std::vector<Table>> Find(std::span<const ResidentAdapter* const> adapters);

 private:
  // Places enough for all of them, each large enough for any.
  Status MakeRoom(std::span<const ResidentAdapter* const> adapters);
  // A place that nobody has, or nobody who is wanted now.
  StatusOr<size_t> TakePlace();

  struct Known {
    Table table;
    size_t place = 0;
    int64_t last_use = 0;  // in calls of Find
  };

  kernels::CudaDevice& device_;
  kernels::DeviceBuffer memory_;  // [num_places_, place_bytes_]
  kernels::PinnedBuffer copies_;  // likewise: what is copied there
  size_t num_places_ = 0;
  size_t place_bytes_ = 0;
  int64_t num_calls_ = 0;
  std::map<int64_t, Known> known_;  // by serial
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_ADAPTERS_H_
