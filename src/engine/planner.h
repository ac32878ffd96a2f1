// Decides what a step does: a pure function of the sequences and the pool's occupancy.
//
// Policy. First come, first served, by the places that the view has. Every running sequence that
// decodes gets its row; what is left of the row budget goes to prefills, oldest first, in chunks.
// When pages run out, the newest running sequence is evicted, again and again, until the older ones
// fit; the oldest waits for an adapter that is being loaded into the pages it needs. A waiting
// sequence joins, in order of arrival, when there is room for its adapters, for all its tokens, and
// for some more tokens of each other running sequence (Punica, section 5.1: one page, of 16 tokens
// there), so that it is not evicted at once. The head of the queue is not overtaken; a sequence
// that could not run alone is refused on submission.
//
// Where there are several tenants, each has a share of the rows for prefills, in proportion to its
// weight, and what it leaves of that is the others' (engine/row_shares.h). "Oldest first" then
// holds within a tenant: one whose share is used up is overtaken by others' sequences, but nobody
// who lacks nothing but pages is.
//
// A sequence with an adapter that is still being loaded has its seat and the promise of its pages,
// and lets the others run. While waiting ones lack only seats or rows, the adapters of the next are
// loaded ahead, into pages that nobody has been promised.
//
// Adapters may have a share of the pool that they must not exceed together. Who needs an absent one
// that the share has no room for waits until those that are used leave it; alone it always fits.
// Sequences may have a share for their KV cache, too: as good as a smaller pool for them.
//
// A sequence that decodes may have tokens that are guessed (engine/drafts.h). They get rows that
// nobody else wants, in turns, in steps of few rows; and pages while nobody waits for some, but not
// those that the running ones may want next.
//
// Only numbers of pages matter here. A page is available unless something that runs uses it: an
// idle adapter and a cached prefix that nobody uses are as good as free pages, but no longer once a
// sequence joins that uses them. Which of them give way, the pool knows.

#ifndef ARIL_ENGINE_PLANNER_H_
#define ARIL_ENGINE_PLANNER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "base/adapter_mix.h"
#include "base/ids.h"
#include "base/sequence_pages.h"
#include "engine/drafts.h"

namespace aril {

struct PlanLimits {
  int64_t max_rows = 512;    // of a step (max_num_batched_tokens), at least max_running
  int64_t max_running = 32;  // sequences (max_num_seqs)
  SequencePages pages;
  // What every running sequence must have room to grow by before another one joins. Tokens, not
  // pages: pages may be small.
  int64_t headroom_tokens = 16;
  int64_t max_draft_rows = kMaxDraftRows;  // of a step with drafts, all of its rows
};

// What the planner knows of a sequence.
struct PlanSequence {
  SequenceId id;
  AdapterMix adapters;
  bool running = false;
  int32_t tenant = 0;        // with whom it shares rows
  double tenant_weight = 1;  // the same for all of a tenant
  int64_t num_tokens = 0;    // prompt and output so far
  // Tokens whose K and V are in pages, and these pages, with those of its state, if it has one. Of
  // a waiting sequence: the cached ones with which it would start, and those of the state that it
  // would take.
  int64_t num_computed = 0;
  int64_t num_pages = 0;
  // Those of its pages that no sequence before it in the view has: by its joining they stop being
  // available; by its eviction, when all newer sequences have gone, they become so. (Sequences of
  // different tenants have none in common: so this holds whoever of them joins.)
  int64_t num_own_pages = 0;
  // Rows that a step may give it: its state is to be kept as it is behind them.
  int64_t max_rows = std::numeric_limits<int64_t>::max();
  // Guessed tokens behind the last one, which it has rows for if there are any left. Of a sequence
  // that decodes.
  int64_t num_drafted = 0;
};

// An adapter that some sequence of the view uses.
struct PlanAdapter {
  // While it is being loaded nobody can use it, and nobody else its pages.
  enum class State { kAbsent, kLoading, kReady };
  AdapterId id;
  int64_t num_pages = 0;
  State state = State::kReady;
  bool is_pinned = false;  // stays, whoever uses it: its pages are never available
};

// A sequence that waits and could not start now.
struct PlanUpcoming {
  SequenceId id;
  AdapterMix adapters;
};

struct PlanView {
  std::vector<PlanSequence> sequences;  // running ones by arrival, oldest first, then waiting ones
  std::vector<PlanUpcoming> upcoming;   // others that wait, as far as one wants to look ahead
  std::vector<PlanAdapter> adapters;    // of both
  int64_t available_pages = 0;
  // That adapters may take besides those that are used, as far as they are available.
  int64_t available_adapter_pages = std::numeric_limits<int64_t>::max();
  // That sequences may take besides those they have, as far as they are available.
  int64_t available_kv_pages = std::numeric_limits<int64_t>::max();
  // Those of both that nobody who joins may take: something else waits for them.
  int64_t promised_pages = 0;
  int64_t max_prefetches = 0;
};

struct Plan {
  // Rows of one sequence: its tokens [num_computed, num_computed + num_rows), guessed ones last.
  struct Item {
    SequenceId id;
    AdapterMix adapters;
    int64_t num_rows = 0;
    int64_t new_pages = 0;
    bool prefill = false;  // more than one token that is not guessed, or not yet at its last one
  };

  // To be carried out in this order.
  std::vector<SequenceId> evict;  // newest first
  // Waiting sequences that start, with the cached pages of the view. These and their adapters must
  // all be pinned before pages are taken for anything.
  std::vector<SequenceId> admit;
  // An adapter of a waiting sequence, to be loaded so that it is ready when that starts.
  struct Prefetch {
    SequenceId id;
    AdapterId adapter;

    friend bool operator==(const Prefetch&, const Prefetch&) = default;
  };
  std::vector<Prefetch> prefetch;  // each another adapter
  // In the order of the batch's rows: prefill chunks, then decodes; rows of one mix of adapters
  // adjacent, also across the border between the two.
  std::vector<Item> items;
};

Plan MakePlan(const PlanView& view, const PlanLimits& limits);

}  // namespace aril

#endif  // ARIL_ENGINE_PLANNER_H_
