// Plans a step's products with matrices in the pool for a device: which block takes which rows of x
// and of the matrix. Made on the host and uploaded in one copy; no choice in it changes a bit of
// the result.

#ifndef ARIL_KERNELS_GEMM_PAGED_GEMM_PLAN_H_
#define ARIL_KERNELS_GEMM_PAGED_GEMM_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/gemm/paged_gemm_cuda.h"
#include "kernels/lora/lora.h"

namespace aril::kernels {

// Consecutive rows that are multiplied with one matrix, whose runs have addresses of the device.
// No row is in two parts.
struct PagedGemmPart {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  LoraMatrix w;
};

class PagedGemmPlan {
 public:
  explicit PagedGemmPlan(std::span<const PagedGemmPart> parts);

  const std::vector<PagedGemmItem>& items() const { return items_; }

  // What PagedGemmTables describes, for one copy to the device. Write fills `to` [table_bytes()].
  size_t table_bytes() const;
  void Write(std::byte* to) const;

 private:
  std::vector<PagedGemmItem> items_;
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_PAGED_GEMM_PLAN_H_
