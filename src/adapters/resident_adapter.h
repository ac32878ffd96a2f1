// An adapter whose weights are in the pool.
//
// Its matrices lie one after the other, layer by layer in the order of kAllProjections, each as
// rank-major rows: A [rank, in], then Bᵀ [rank, out], in the model's dtype. A row never straddles a
// page: where one does not fit any more, the next page begins. So an adapter takes whole pages of
// its exact bytes, and wastes at most one page and the ends of its pages.

#ifndef ARIL_ADAPTERS_RESIDENT_ADAPTER_H_
#define ARIL_ADAPTERS_RESIDENT_ADAPTER_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "adapters/adapter.h"
#include "kernels/lora/lora.h"
#include "memory/arena.h"
#include "memory/page_pool.h"

namespace aril {

// Number of pages that an adapter takes.
int64_t PagesForAdapter(const Adapter& adapter, DType dtype, int64_t page_bytes);

// The longest row of any adapter of a base model, in bytes: a page must be at least this long.
int64_t LongestAdapterRowBytes(const ModelSpec& base, DType dtype);

// Move-only; gives its pages back when destroyed.
class ResidentAdapter {
 public:
  // Lays the weights out on `pages`, of which there are exactly PagesForAdapter.
  ResidentAdapter(const Adapter& adapter, DType dtype, const Arena& arena,
                  std::vector<PageRef> pages);

  // Converts and copies the weights of the same adapter; until then the pages hold anything. Any
  // thread: touches these pages only.
  void Copy(const Adapter& adapter) const;

  int64_t num_pages() const { return static_cast<int64_t>(pages_.size()); }

  // The seven projections of a layer, in the order of kAllProjections; rank 0 where not targeted.
  std::span<const kernels::LoraWeights, kNumProjections> Layer(int64_t layer) const {
    return layers_[static_cast<size_t>(layer)];
  }

 private:
  // Consecutive rows of a matrix, to be copied.
  struct Piece {
    kernels::MatrixRun run;
    std::byte* to;
  };

  DType dtype_;
  std::vector<PageRef> pages_;
  std::vector<Piece> pieces_;  // of all matrices, in order
  std::vector<std::array<kernels::LoraWeights, kNumProjections>> layers_;
  std::vector<std::vector<kernels::MatrixRun>> runs_;  // what the weights' spans point into
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_RESIDENT_ADAPTER_H_
