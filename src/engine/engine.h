// The engine: owns the pool and the sequences, and runs steps.

#ifndef ARIL_ENGINE_ENGINE_H_
#define ARIL_ENGINE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adapters/adapter_set.h"
#include "adapters/residency.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/drafts.h"
#include "engine/executor.h"
#include "engine/format_turns.h"
#include "engine/planner.h"
#include "engine/sequence.h"
#include "engine/standing_pins.h"
#include "grammar/format_cache.h"
#include "memory/arena.h"
#include "memory/page_pool.h"
#include "memory/prefix_cache.h"
#include "model/model.h"
#include "wire/messages.h"

namespace aril {

struct EngineOptions {
  int64_t max_num_seqs = 32;
  int64_t max_num_batched_tokens = 512;
  int64_t max_model_len = 2048;
  int32_t num_pages = 0;
  // That adapters may take, used or idle.
  int64_t max_adapter_pages = Residency::kUnbounded;
  // That sequences may take. Cached ones that none of them uses do not count.
  int64_t max_kv_pages = std::numeric_limits<int64_t>::max();
  // That adapters which one owner has pinned may take, and all that are pinned.
  int64_t max_owner_pinned_pages = Residency::kUnbounded;
  int64_t max_pinned_pages = Residency::kUnbounded;
  bool enable_prefix_caching = true;
  // Of models with a state, which takes many pages: it is cached behind no fewer tokens than these,
  // or than these behind another one.
  int64_t min_cached_state_tokens = 128;
  DraftOptions drafts;  // of models without
  // Tenants share the rows that a step has for prompts (engine/planner.h), rather than stand in one
  // line; by weight: 1 for those that are not here.
  bool shares_rows = false;
  std::map<std::string, double> tenant_weights;
  bool lists_sequences = false;  // in Stats(), for a scheduler
  // Of requests with a format; null: they are refused.
  std::shared_ptr<grammar::FormatCache> formats = nullptr;
  // What each thread may do for them in a step (engine/format_turns.h).
  int64_t format_work = FormatTurns::kWork;
  // Where adapters are copied into the pool (adapters/residency.h).
  Residency::RunAside run_aside = Residency::AtOnce;
};

// A sequence that can run here, with the adapters that it will use whatever becomes of the set.
struct AcceptedSequence {
  wire::SequenceRequest request;
  std::vector<Sequence::Adapter> adapters;  // of request.adapters, in that order
  StandingPins::Room room;
  std::shared_ptr<grammar::TokenAutomaton> format;  // null: any text
};

// Used by one thread, except where stated. Model, adapters, context and clock must outlive it.
class Engine {
 public:
  // The arena has options.num_pages pages of the model's layout, where its backend finds them.
  Engine(const EngineOptions& options, Model& model, std::unique_ptr<Arena> arena,
         const AdapterSet& adapters, kernels::CpuContext& context, const Clock& clock);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // InvalidArgument says why a sequence cannot run here at all; Unavailable that it cannot while
  // other tenants' adapters are pinned, or others' formats take the memory for formats.
  // Thread-safe.
  StatusOr<AcceptedSequence> Accept(wire::SequenceRequest request);

  // Keeps an adapter of the set in the pool while what this returns exists, which the engine must
  // outlive (engine/standing_pins.h). FailedPrecondition says for what no room would be left;
  // NotFound or InvalidArgument what is wrong with the adapter. Thread-safe.
  // `owner`: whose pin it is, and who has a share for that.
  StatusOr<std::shared_ptr<const void>> Pin(AdapterId adapter, const std::string& owner = "");
  // What each owner's pinned adapters take. Thread-safe.
  std::map<std::string, int64_t> PinnedPagesByOwner() const {
    return standing_pins_.PagesByOwner();
  }

  // Queues a sequence whose id is not in use.
  void Add(AcceptedSequence accepted);

  // Ends a sequence; the next Step reports it (kCancelled). Unknown ids have no effect.
  void Cancel(SequenceId id);

  bool HasSequences() const { return !sequences_.empty(); }
  // Sequences, a step under way, pins that begin or end, or loads that have ended: their pages are
  // others' again if nobody wants them any more.
  bool HasWork() const {
    return HasSequences() || under_way_.has_value() || standing_pins_.HasWork() ||
           residency_.HasLoaded();
  }
  // The last step did nothing, and neither would another: whoever is left waits for adapters that
  // are being loaded. Ends with one of them, with Pin and its end, with Add and with Cancel.
  bool IsStalled() const {
    return stalled_ && !residency_.HasLoaded() && !standing_pins_.HasChanged();
  }
  // Called when HasWork may have begun, or IsStalled may have ended, by a pin or a load, on another
  // thread; null: nobody. Thread-safe; the former one is not called any more when this returns.
  void SetListener(const std::function<void()>& listener);

  // Runs one step and returns what it did: of a sequence one event, or several, in their order,
  // where drafts were right, or the step before was waited for first. Where the device runs by
  // itself, it is given the step, and what this returns is of the one before, if there was one: a
  // sequence that ends before it has max_tokens has one row too many then, which nobody sees. But
  // where there may be drafts, or the step before ends where a state is to be cached, that is
  // waited for first.
  std::vector<wire::TokenEvent> Step();

  // The state after the last step.
  wire::StepStats Stats() const;

  const Arena& arena() const { return *arena_; }
  const kernels::KvLayout& layout() const { return model_.layout(); }
  bool caches_prefixes() const { return options_.enable_prefix_caching; }
  // Of an adapter of the set; 0 for the base model.
  int64_t PagesFor(AdapterId adapter) const;
  // Whether sequences may use an adapter at once. Thread-safe.
  bool IsInPool(AdapterId adapter) const { return residency_.IsInPool(adapter); }
  Executor& executor() { return executor_; }

 private:
  class PageTally;
  class Lines;
  // Null for any text.
  StatusOr<std::shared_ptr<grammar::TokenAutomaton>> FindFormat(const wire::OutputFormat& format);
  StatusOr<std::vector<Sequence::Adapter>> FindAdapters(const wire::SequenceRequest& request) const;
  PlanView View();
  std::vector<const Sequence*> Running() const;  // by arrival
  bool IsReady(const Sequence& sequence) const;  // its adapters are in the pool
  PlanSequence Describe(const Sequence& sequence, PageTally& tally) const;
  // Pages that the running sequences lack for all their tokens.
  int64_t PagesToCome() const;
  // Sequence::stop, of one that begins with so much from the cache.
  int64_t StopOf(int64_t num_computed, int64_t num_alike_pages) const;
  // The tokens whose pages, if they are cached, need not be computed.
  std::vector<int32_t> ReusableTokens(const Sequence& sequence) const;
  struct StepRows {
    std::vector<StepItem> items;
    // Sit out until they have found what their formats allow.
    std::vector<Sequence*> waiting;
  };
  // A step that the device may be running.
  struct StepUnderWay {
    std::vector<StepItem> items;
    // What it may use although nobody else does any more.
    std::vector<std::unique_ptr<Sequence>> ended;
    std::vector<PageRef> pages;  // given up for equal ones

    // What it leaves has to be seen before another step: which guesses were right, or a state.
    bool MustBeLast() const {
      return std::ranges::any_of(items, [](const StepItem& item) {
        return item.draft.size() > 0 || item.sequence->StopsAt(item.first_token + item.num_rows);
      });
    }
  };
  // Whether a plan can be carried out while a step is under way: it takes nothing from that, and
  // the device can run it by itself.
  bool CanFollow(const Plan& plan);
  // Of a sequence's draft in the next step, if its last token is known by then.
  DraftLengths DraftLengthsOf(const Sequence& sequence, int64_t num_running) const;
  // Whether there may be drafts in the next step: somebody is to have one, and there are rows
  // beside those of the sequences that run.
  bool MayHaveDrafts() const;
  void MakeDrafts();
  // Whether there were any.
  bool Submit(StepRows rows);
  static StepItem MakeItem(Sequence& sequence, int64_t num_rows);
  // Has the newest sequence take the places of those of its tenant that have not started and that
  // it goes before by its priority; each of them takes the next one's.
  void GoAhead(uint64_t arrival);
  // Out of the engine: it lives on for what is under way.
  void End(Sequence& sequence);
  // Carries a plan out up to the model run: evictions, adapters, pages.
  StepRows Apply(const Plan& plan);
  void TakePages(int64_t count, Sequence& sequence);
  void Admit(std::span<const SequenceId> ids);
  void Start(Sequence& sequence);
  void ClearStepStats();
  // Adapters whose loads have ended are ready from now on, or have an error.
  void TakeLoaded();
  // Ends the running sequences that use one with an error.
  void ReportUnusable(std::vector<wire::TokenEvent>& events);
  // Caches the pages that have become full, and the state where it stops.
  void CachePages(Sequence& sequence);
  void CacheState(const Sequence& sequence);
  // Behind what is computed. Nothing of the sequence may be under way.
  void GiveBackPages(Sequence& sequence);
  // Takes the results in; full pages are cached, finished sequences release their pages.
  void Advance(const StepUnderWay& step, std::vector<ItemResult> results,
               std::vector<wire::TokenEvent>& events);
  // Whether the sequence has ended.
  bool Advance(const StepItem& item, ItemResult result, std::vector<wire::TokenEvent>& events);
  // Of an item whose rows reach the sequence's last token.
  void TakeResult(const StepItem& item, ItemResult result, std::vector<wire::TokenEvent>& events);
  void CountDraft(Sequence& sequence, const Draft& draft, int64_t num_right, bool one_was_wrong);
  void AppendToken(Sequence& sequence, kernels::SampleResult sampled, wire::TokenEvent& event);
  void ReportCancelled(std::vector<wire::TokenEvent>& events);

  // What a row has done to a state cannot be undone.
  bool has_state() const { return limits_.pages.state_pages > 0; }
  Sequence& Get(SequenceId id) { return *by_id_.at(id); }
  // Pages that sequences have.
  int64_t num_kv_pages() const { return pool_.used(PageUse::kKv) - prefix_cache_.num_idle_pages(); }

  const EngineOptions options_;
  Model& model_;
  const AdapterSet& adapters_;
  const Clock& clock_;
  const PlanLimits limits_;
  std::unique_ptr<Arena> arena_;
  PagePool pool_;
  Residency residency_;
  StandingPins standing_pins_;
  PrefixCache prefix_cache_;
  const PrefixCache::Copy copy_pages_;
  const std::shared_ptr<grammar::FormatCache> formats_;
  Executor executor_;

  // By arrival: running ones, then waiting ones; where tenants share rows, of each tenant only.
  // Their pages and pins are given back before what
  // they belong to goes.
  std::map<uint64_t, std::unique_ptr<Sequence>> sequences_;
  std::unordered_map<SequenceId, Sequence*> by_id_;
  std::optional<StepUnderWay> under_way_;  // the last one submitted
  std::vector<SequenceId> cancelled_;
  uint64_t next_arrival_ = 0;
  bool has_priorities_ = false;  // another than 0, of any there is
  bool stalled_ = false;
  wire::StepStats stats_;
};

}  // namespace aril

#endif  // ARIL_ENGINE_ENGINE_H_
