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

// Tables of the adapters that were used last, in one piece of the device's memory. One that is used
// for the first time gets its table there; when there is no room, all are forgotten but those of
// the step. Used by one thread.
class CudaAdapters {
 public:
  struct Table {
    const kernels::LoraDeviceWeights* weights = nullptr;  // [layers, projections], on the device
    std::array<int32_t, kNumProjections> ranks = {};      // of each, the largest of any layer
  };

  // The device must outlive this.
  explicit CudaAdapters(kernels::CudaDevice& device) : device_(device) {}

  // Those of `adapters`, which are in the device's pool. Copies what is not there yet into the
  // stream; kernels that are in the stream already may still read the tables of the last call.
  StatusOr<std::vector<Table>> Find(std::span<const ResidentAdapter* const> adapters);

 private:
  // One adapter's table as bytes that will lie at `at` on the device: the weights, then the runs.
  static std::vector<std::byte> Describe(const ResidentAdapter& adapter, std::byte* at);
  static size_t TableBytes(const ResidentAdapter& adapter);
  Status MakeRoom(std::span<const ResidentAdapter* const> adapters);

  kernels::CudaDevice& device_;
  kernels::DeviceBuffer memory_;
  size_t used_bytes_ = 0;
  std::map<int64_t, Table> tables_;  // by serial
};

}  // namespace aril

#endif  // ARIL_MODEL_CUDA_ADAPTERS_H_
