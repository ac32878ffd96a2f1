// Decides what a step does: a pure function of the sequences and the pool's occupancy.
//
// Policy. First come, first served. Every running sequence that decodes gets its row; what is left
// of the row budget goes to prefills, oldest first, in chunks. When pages run out, idle adapters go
// first (least recently used), then the newest running sequence is evicted, again and again, until
// the older ones fit. A waiting sequence joins, in order of arrival, when there is room for its
// adapter, for all its tokens, and for some more tokens of each other running sequence (Punica,
// section 5.1: one page, of 16 tokens there), so that it is not evicted at once. The head of the
// queue is never overtaken; a sequence that could not run alone is refused on submission.

#ifndef ARIL_ENGINE_PLANNER_H_
#define ARIL_ENGINE_PLANNER_H_

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace aril {

struct PlanLimits {
  int64_t max_rows = 512;    // of a step (max_num_batched_tokens), at least max_running
  int64_t max_running = 32;  // sequences (max_num_seqs)
  int64_t page_tokens = 16;
  // What every running sequence must have room to grow by before another one joins. Tokens, not
  // pages: pages may be small.
  int64_t headroom_tokens = 16;
};

// What the planner knows of a sequence.
struct PlanSequence {
  SequenceId id;
  AdapterId adapter;
  uint64_t arrival = 0;
  bool running = false;
  int64_t num_tokens = 0;    // prompt and output so far
  int64_t num_computed = 0;  // 0 unless running
  int64_t num_pages = 0;     // 0 unless running
};

// What the planner knows of an adapter that some sequence of the view uses, or that is resident.
struct PlanAdapter {
  AdapterId id;
  int64_t num_pages = 0;
  bool resident = false;
};

struct PlanView {
  std::vector<PlanSequence> sequences;  // by arrival, oldest first
  std::vector<PlanAdapter> adapters;  // idle residents must come in order of last use, oldest first
  int64_t free_pages = 0;
};

struct Plan {
  // Rows of one sequence: its tokens [num_computed, num_computed + num_rows).
  struct Item {
    SequenceId id;
    AdapterId adapter;
    int64_t num_rows = 0;
    int64_t new_pages = 0;
    bool prefill = false;  // more than a decode's one row, or not yet at its last token
  };

  // To be carried out in this order.
  std::vector<SequenceId> evict;  // newest first
  std::vector<AdapterId> drop;    // idle adapters whose pages are wanted
  std::vector<SequenceId>
      admit;  // waiting sequences that start; their adapters are loaded if absent
  // In the order of the batch's rows: prefill chunks, then decodes; rows of one adapter adjacent,
  // also across the border between the two.
  std::vector<Item> items;
};

Plan MakePlan(const PlanView& view, const PlanLimits& limits);

}  // namespace aril

#endif  // ARIL_ENGINE_PLANNER_H_
