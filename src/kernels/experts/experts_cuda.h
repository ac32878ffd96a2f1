// A mixture's routing on a device (experts.h has the contract): which rows go to which expert, and
// the sum of what comes back. Nothing of it is known to the host.
//
// Places are as there: one for each row and each of its experts, in the order of the experts, those
// of an expert in the order of their rows.

#ifndef ARIL_KERNELS_EXPERTS_EXPERTS_CUDA_H_
#define ARIL_KERNELS_EXPERTS_EXPERTS_CUDA_H_

#include <stdint.h>

#include "kernels/cuda/context.h"

namespace aril::kernels {

inline constexpr int kMaxDeviceExperts = 1024;
inline constexpr int kMaxDeviceExpertsPerRow = 32;

// Each row's experts, ascending, and their weights.
struct ChooseExpertsArgs {
  const float* logits = nullptr;  // [rows, experts]
  // One number: the rows that there are. Those behind them, which a launch for more rows has, are
  // given the first row's experts, so that none is read for them.
  const int32_t* num_rows = nullptr;
  int32_t rows = 0;
  int32_t experts = 0;  // at most kMaxDeviceExperts
  int32_t per_row = 0;  // at most kMaxDeviceExpertsPerRow, and experts
  bool normalized = false;
  int32_t* chosen = nullptr;  // [rows, per_row]
  float* weights = nullptr;   // likewise
};

// The places of rows, by what was chosen for them.
struct PlaceRowsArgs {
  const int32_t* chosen = nullptr;  // [rows, per_row]
  int32_t rows = 0;
  int32_t per_row = 0;
  int32_t experts = 0;
  int32_t* first_places = nullptr;  // [experts + 1]
  int32_t* place_rows = nullptr;    // [rows · per_row]: of each place, its row
  int32_t* places = nullptr;        // [rows, per_row]: of each row and expert, its place
};

// out [rows, size] = each row's weighted sum of what its experts gave, y [places, size], in the
// order of the experts.
struct AddExpertsArgs {
  const float* y = nullptr;
  const int32_t* places = nullptr;  // [rows, per_row]
  const float* weights = nullptr;   // likewise
  int32_t rows = 0;
  int32_t per_row = 0;
  int32_t size = 0;
  float* out = nullptr;
};

}  // namespace aril::kernels

// All may be captured in a graph. They return a CUDA error, or 0.
#define ARIL_DECLARE_EXPERTS_CUDA(target)                          \
  namespace aril::kernels::target {                                \
  int ChooseExperts(const CudaContext&, const ChooseExpertsArgs&); \
  int PlaceRows(const CudaContext&, const PlaceRowsArgs&);         \
  int AddExperts(const CudaContext&, const AddExpertsArgs&);       \
  }

ARIL_DECLARE_EXPERTS_CUDA(cuda)
ARIL_DECLARE_EXPERTS_CUDA(emulated)

#endif  // ARIL_KERNELS_EXPERTS_EXPERTS_CUDA_H_
