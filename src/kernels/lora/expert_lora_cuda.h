// The LoRA operator at the experts of a mixture, on a device: y of each place (experts_cuda.h) +=
// what the adapters of its row add at its expert. expert_lora_plan.h makes the tables.
//
// The host knows which adapters a row has, and the device to which experts it goes. Rows that have
// the same adapters are a run; the places of an expert whose rows are of one run lie together, and
// are cut into tiles. The arithmetic is lora_cuda.h's.
//
// V. [places, max_entries, targets, partials, max_rank]: the tables' numbers; partials is the
// number of chunks, or 1.

#ifndef ARIL_KERNELS_LORA_EXPERT_LORA_CUDA_H_
#define ARIL_KERNELS_LORA_EXPERT_LORA_CUDA_H_

#include <stdint.h>

#include <cstddef>

#include "kernels/cuda/context.h"
#include "kernels/lora/lora_cuda.h"
#include "tensor/dtype.h"

namespace aril::kernels {

// What an expert has weights for: gate, up, down.
inline constexpr int kExpertLoraSites = 3;

// Consecutive rows that have the same adapters.
struct ExpertLoraRun {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t first_entry = 0;  // entries are applied in order
  int32_t num_entries = 0;
};

// An adapter's weights in a layer: of an expert's site they are
// weights[expert · per_expert + site · per_site]. What an adapter does not change has strides of 0,
// and weights of rank 0.
struct ExpertLoraLayer {
  const LoraDeviceWeights* weights = nullptr;
  int32_t per_expert = 0;
  int32_t per_site = 0;
};

struct ExpertLoraEntry {
  const ExpertLoraLayer* layers = nullptr;  // of the adapter, one for each layer
  float weight = 0;
};

// What a step uploads: this, the run of each row (int32; -1: none), the runs, the entries.
struct alignas(16) ExpertLoraTables {
  int32_t max_entries = 0;  // of a run
  int32_t max_rank = 0;     // of all entries
  int64_t runs_offset = 0;  // bytes from this
  int64_t entries_offset = 0;
};

// Up to kLoraExpandRows places of an expert and a run.
struct ExpertLoraTile {
  int32_t first_place = 0;
  int32_t num_places = 0;
  int32_t run = 0;
};

// Where the places of some of the step's rows are, from first_row on.
struct ExpertPlaces {
  const int32_t* first_places = nullptr;  // [experts + 1]
  const int32_t* place_rows = nullptr;    // of each place, counted from first_row
  int32_t first_row = 0;
  int32_t experts = 0;
};

struct ExpertLoraTilesArgs {
  const ExpertLoraTables* tables = nullptr;
  ExpertPlaces places;
  // [places]: an expert's begin at its first place, and it has counts[expert] of them.
  ExpertLoraTile* tiles = nullptr;
  int32_t* counts = nullptr;  // [experts]
};

// What a shrink and its expand are for. Targets: gate and up, or down alone.
struct ExpertLoraCall {
  const ExpertLoraTables* tables = nullptr;
  ExpertPlaces places;
  const ExpertLoraTile* tiles = nullptr;  // as ExpertLoraTilesArgs has them
  const int32_t* counts = nullptr;
  int32_t layer = 0;
  int32_t first_site = 0;  // of an expert: the first target's
  int32_t num_targets = 0;
  int32_t partials = 0;
};

struct ExpertLoraShrinkArgs {
  ExpertLoraCall call;
  const std::byte* x = nullptr;  // in the dtype
  int64_t x_stride = 0;          // elements
  bool x_of_rows = false;        // x has a row for each of place_rows; else for each place
  int32_t in = 0;
  float* v = nullptr;
};

struct ExpertLoraExpandArgs {
  ExpertLoraCall call;
  int32_t max_rank = 0;  // at least the tables': the launch's shared memory is for so much
  int32_t out = 0;       // of each target; they lie one behind the other
  const float* v = nullptr;
  float* y = nullptr;  // [places, num_targets · out]
  int64_t y_stride = 0;
};

}  // namespace aril::kernels

// All may be captured in a graph: they read the tables when they run, and trap where one has a
// larger rank than they were launched for. They return a CUDA error, or 0. The dtype is that of x
// and of the adapters: kF32, kBF16 or kF16.
#define ARIL_DECLARE_EXPERT_LORA_CUDA(target)                                         \
  namespace aril::kernels::target {                                                   \
  int ExpertLoraTiles(const CudaContext&, const ExpertLoraTilesArgs&);                \
  int ExpertLoraShrink(const CudaContext&, DType dtype, const ExpertLoraShrinkArgs&); \
  int ExpertLoraExpand(const CudaContext&, DType dtype, const ExpertLoraExpandArgs&); \
  }

ARIL_DECLARE_EXPERT_LORA_CUDA(cuda)
ARIL_DECLARE_EXPERT_LORA_CUDA(emulated)

#endif  // ARIL_KERNELS_LORA_EXPERT_LORA_CUDA_H_
