// An adapter whose weights are in the pool.
//
// Its matrices lie one after the other, layer by layer in the order of sites, each as rank-major
// rows: A [rank, in], then Bᵀ [rank, out], then with DoRA the gains [2, out], in the
// model's dtype. Projections that are one module in files have one A, before the first's B. A row
// never straddles a page: where one does not fit any more, the next page begins. So an adapter
// takes whole pages of its exact bytes, and wastes at most one page and the ends of its pages.
//
// After the layers comes what some adapters have outside of them: of the embedding Aᵀ [vocab,
// rank], of which a token reads one row, Bᵀ [rank, hidden], and its gains; of lm_head A [rank,
// hidden], and Bᵀ, whose rows would be longer than a page, in blocks of columns [rank, width], each
// with its gains; and matrices [vocab, hidden] of the adapter's own, once if both are one.

#ifndef ARIL_ADAPTERS_RESIDENT_ADAPTER_H_
#define ARIL_ADAPTERS_RESIDENT_ADAPTER_H_

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

// Outside of the layers. What an adapter does not have has rank 0, or no runs.
struct OuterWeights {
  int64_t vocab = 0;  // LoraSpec::vocab_size: what "vocab" is in the shapes below
  int32_t embedding_rank = 0;
  float embedding_scale = 0;
  kernels::LoraMatrix embedding_a;     // Aᵀ [vocab, rank]
  kernels::LoraMatrix embedding_b;     // Bᵀ [rank, hidden]
  kernels::LoraMatrix embedding_gain;  // [2, hidden] with DoRA
  kernels::LoraMatrix embedding_table;
  // A block of lm_head's columns; all have the same A.
  struct Block {
    int64_t first_col = 0;
    int64_t width = 0;
    kernels::LoraWeights weights;
  };
  std::vector<Block> lm_head;
  int64_t lm_head_block_cols = 0;     // of all but the last; the same for all adapters
  kernels::LoraMatrix lm_head_table;  // may be the embedding's

  bool changes_lm_head() const { return !lm_head.empty() || !lm_head_table.runs.empty(); }
};

// Move-only; gives its pages back when destroyed.
class ResidentAdapter {
 public:
  // Lays the weights out on `pages`, of which there are exactly PagesForAdapter.
  ResidentAdapter(const Adapter& adapter, DType dtype, const Arena& arena,
                  std::vector<PageRef> pages);

  // Converts and copies the weights of the same adapter into the same arena; until then the pages
  // hold anything. Any thread: touches these pages only.
  void Copy(const Adapter& adapter, const Arena& arena) const;

  int64_t num_pages() const { return static_cast<int64_t>(pages_.size()); }
  // Of its pages, what holds nothing: less than a row at the end of each, and the rest of the last.
  int64_t unused_bytes() const { return num_pages() * page_bytes_ - used_bytes_; }

  // All projections, in the order of kAllProjections; rank 0 where the layer has not one, or it is
  // not targeted.
  std::span<const kernels::LoraWeights, kNumProjections> Layer(int64_t layer) const {
    return std::span(layers_[static_cast<size_t>(layer)]).first<kNumProjections>();
  }
  // Likewise `count` sites from `first` on, all of attention, of what is in its place, of a router,
  // or of one MLP.
  std::span<const kernels::LoraWeights> Sites(int64_t layer, Site first, size_t count) const;
  // Whether any site of an expert has weights.
  bool changes_experts() const;
  const OuterWeights& outer() const { return outer_; }
  // Whether it is anything but layers.
  bool changes_outer() const {
    return outer_.embedding_rank > 0 || !outer_.embedding_table.runs.empty() ||
           outer_.changes_lm_head();
  }
  int64_t num_layers() const { return static_cast<int64_t>(layers_.size()); }

  // No other of this process has or had the same.
  int64_t serial() const { return serial_; }

 private:
  DType dtype_;
  int64_t page_bytes_;
  int64_t serial_;
  std::vector<PageRef> pages_;
  int64_t used_bytes_ = 0;
  // [sites] each, as in LoraSpec, and the projections in any case.
  std::vector<std::vector<kernels::LoraWeights>> layers_;
  OuterWeights outer_;
  std::vector<kernels::MatrixRun> runs_;  // of all matrices, in order
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_RESIDENT_ADAPTER_H_
