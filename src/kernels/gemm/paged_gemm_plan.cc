#include "kernels/gemm/paged_gemm_plan.h"

#include <algorithm>
#include <cstring>

#include "kernels/lora/lora_plan.h"

namespace aril::kernels {
namespace {

// Rows of the matrix in an item: a vocabulary of 32 k has 500 items, about what a large device runs
// at a time, and a table of 20 KB.
constexpr int32_t kItemCols = 64;

}  // namespace

PagedGemmPlan::PagedGemmPlan(std::span<const PagedGemmPart> parts) {
  for (const PagedGemmPart& part : parts) {
    const bool aligned = DescribeLoraMatrix(part.w, nullptr).aligned16 != 0;
    for (const MatrixRun& run : part.w.runs) {
      for (int32_t col = 0; col < run.num_rows; col += kItemCols) {
        // Rows innermost: who reads the same of the matrix does so at about the same time.
        for (int32_t row = 0; row < part.num_rows; row += kPagedGemmRows) {
          items_.push_back({.w = run.data + col * part.w.row_stride_bytes,
                            .w_stride_bytes = part.w.row_stride_bytes,
                            .w_aligned16 = aligned ? 1 : 0,
                            .first_row = part.first_row + row,
                            .num_rows = std::min(kPagedGemmRows, part.num_rows - row),
                            .first_col = run.first_row + col,
                            .num_cols = std::min(kItemCols, run.num_rows - col)});
        }
      }
    }
  }
}

size_t PagedGemmPlan::table_bytes() const {
  return sizeof(PagedGemmTables) + items_.size() * sizeof(PagedGemmItem);
}

void PagedGemmPlan::Write(std::byte* to) const {
  const PagedGemmTables tables{.num_items = static_cast<int32_t>(items_.size())};
  std::memcpy(to, &tables, sizeof(tables));
  if (!items_.empty()) {
    std::memcpy(to + sizeof(tables), items_.data(), items_.size() * sizeof(items_[0]));
  }
}

}  // namespace aril::kernels
