// A model of an engine: sequences, pages and adapters as numbers, steps as times. It keeps to the
// policy of engine/planner.h (first come, first served; the newest is evicted when pages run out
// and resumes in its place; idle adapters and cached pages give way, the least recently used
// first), and its tokens are a function of the sequence and of how many tokens it has been given,
// as a real model's are.

#ifndef ARIL_SIMULATE_RUNNER_MODEL_H_
#define ARIL_SIMULATE_RUNNER_MODEL_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "delivery/messages.h"
#include "simulate/planted_bug.h"
#include "simulate/step_model.h"
#include "wire/cluster.h"
#include "wire/messages.h"

namespace aril::simulate {

struct RunnerModelOptions {
  int64_t max_running = 32;
  int64_t max_rows = 512;
  int64_t pages_total = 1000;
  int64_t page_tokens = 16;
  int64_t page_bytes = 8 << 20;
  // Prompts share the pages that they begin with (memory/prefix_cache.h; what is generated behind
  // them is not kept).
  bool caches_prefixes = false;
  StepModel steps;
  PlantedBug bug = PlantedBug::kNone;
};

// The token that follows `num_tokens` tokens of this sequence.
int32_t ModelToken(SequenceId sequence, int64_t num_tokens);

// Not thread-safe.
class RunnerModel {
 public:
  explicit RunnerModel(const RunnerModelOptions& options);

  // Not yet there; with its adapter it fits the pool.
  void Add(const delivery::StartAttempt& start);
  // A hint: a sequence that uses this adapter may come. True if it is being loaded from now on: it
  // was not there, free pages that nobody has been promised suffice, and no more than one other
  // that nobody uses is under way.
  bool LoadAhead(AdapterId id, int64_t pages, TimePoint now);
  // Gives up a sequence at once. Unknown: no effect.
  void Remove(SequenceId sequence);

  // A step that begins now: plans it and takes its pages; nullopt if nothing can run now (adapters
  // may be loading: then `next_ready` says when the first of them is there).
  std::optional<Duration> BeginStep(TimePoint now);
  std::optional<TimePoint> next_ready() const;
  // Its tokens; sequences that end are gone afterwards.
  std::vector<wire::TokenEvent> EndStep(TimePoint now);

  // Number and info are for the caller to add.
  wire::RunnerReport Report() const;
  bool Has(SequenceId sequence) const { return sequences_.contains(sequence); }
  size_t num_sequences() const { return sequences_.size(); }
  int64_t num_running() const { return num_running_; }
  int64_t last_batch() const { return last_batch_; }  // sequences in the last step
  int64_t num_evictions() const { return num_evictions_; }
  // Tokens of prompts that were not computed, so far; not what is computed again.
  int64_t num_cached() const { return num_cached_; }
  // Loads take so many times as long: a slow store.
  void SetLoadSlowness(int64_t factor) { load_slowness_ = factor; }

  // The first of the model's invariants that does not hold, or "": pages are conserved and counted
  // once, adapters in use are resident, the evicted are the newest.
  std::string Audit() const;

 private:
  struct Sequence {
    delivery::StartAttempt start;
    std::pair<TimePoint, SequenceId> place;
    int64_t num_tokens = 0;    // prompt and output so far
    int64_t num_computed = 0;  // of them
    int64_t num_pages = 0;
    // Of the prompt's pages: what each and those before it hold. The first `num_shared` are in the
    // cache.
    std::vector<uint64_t> marks;
    size_t num_shared = 0;
    int32_t num_generated = 0;  // in this attempt
    bool is_running = false;
    bool was_evicted = false;
    int64_t rows = 0;  // in the step under way

    // The model's sequences use one adapter at most.
    AdapterId adapter() const {
      const AdapterMix& adapters = start.request.adapters;
      return adapters.empty() ? kBaseModel : adapters.front().id;
    }
  };
  struct Adapter {
    int64_t pages = 0;
    int32_t num_users = 0;
    TimePoint ready_at;
    int64_t last_used = 0;
  };
  struct CachedPage {
    int32_t num_users = 0;
    int64_t last_used = 0;
  };
  using ByPlace = std::map<std::pair<TimePoint, SequenceId>, Sequence*>;

  int64_t PagesFor(int64_t tokens) const;
  int64_t Promised() const;
  bool IsReady(const Sequence& sequence, TimePoint now) const;
  void Admit(int64_t rows, TimePoint now);
  Adapter& Load(AdapterId id, int64_t pages, TimePoint now);
  void Use(AdapterId id, int64_t pages, TimePoint now);
  void Unuse(AdapterId id);
  bool Take(int64_t pages);
  bool TakePages(Sequence& sequence, int64_t pages);
  std::vector<uint64_t> MarkPages(const wire::SequenceRequest& request) const;
  size_t CountCached(const Sequence& sequence) const;
  int64_t CountInUse(const Sequence& sequence, size_t num_cached) const;
  void UseCached(uint64_t mark);
  void TakeCached(Sequence& sequence, size_t num_cached);
  void Share(Sequence& sequence);
  void Unshare(Sequence& sequence);
  void Evict(Sequence& sequence);
  Sequence& Victim();
  void Stop(Sequence& sequence);
  void DropIdle(int64_t pages);
  bool DropIdleAdapter(int64_t before);

  const RunnerModelOptions options_;
  std::unordered_map<SequenceId, Sequence> sequences_;
  ByPlace running_, waiting_;
  std::map<AdapterId, Adapter> adapters_;  // resident or being loaded
  std::unordered_map<uint64_t, CachedPage> cached_;
  std::map<int64_t, uint64_t> idle_cached_;  // those without users, by their last use
  int64_t free_pages_;
  int64_t idle_pages_ = 0;
  int64_t num_running_ = 0;
  int64_t last_batch_ = 0;
  int64_t num_evictions_ = 0;
  int64_t num_uses_ = 0;
  int64_t num_cached_ = 0;
  int64_t load_slowness_ = 1;
  TimePoint planned_at_;
  std::string violation_;
};

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_RUNNER_MODEL_H_
