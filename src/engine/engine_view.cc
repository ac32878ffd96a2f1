// What the planner is shown of the engine's sequences.

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "engine/engine.h"

namespace aril {
namespace {

// Adapters that are being loaded at a time, so that what a sequence needs now does not stand behind
// what others will need.
constexpr int64_t kMaxLoads = 4;
// Waiting sequences, behind those that could start, whose adapters are loaded ahead.
constexpr size_t kMaxLookahead = 16;

std::vector<PageId> IdsOf(const std::vector<PageRef>& pages) {
  std::vector<PageId> ids;
  ids.reserve(pages.size());
  for (const PageRef& page : pages) ids.push_back(page.id());
  return ids;
}

}  // namespace

// Counts each page for the first sequence that has it.
class Engine::PageTally {
 public:
  explicit PageTally(int64_t num_pages) : seen_(static_cast<size_t>(num_pages)) {}

  // How many of the pages have not been seen before.
  int64_t CountNew(std::span<const PageId> pages) {
    int64_t count = 0;
    for (const PageId id : pages) {
      auto seen = seen_[static_cast<size_t>(id.value())];
      count += seen ? 0 : 1;
      seen = true;
    }
    return count;
  }

 private:
  std::vector<bool> seen_;
};

// Those that share the rows of a step, each in one line: tenants, or all of them together.
class Engine::Lines {
 public:
  // And what is left for who waits in it, as if there were no other line.
  struct Line {
    int32_t number = 0;
    double weight = 1;
    int64_t seats = 0;
    int64_t rows = 0;
    int64_t pages = 0;

    void Describe(PlanSequence& plan) const {
      plan.tenant = number;
      plan.tenant_weight = weight;
    }
    bool StartsAnother() const { return seats > 0 && rows > 0 && pages >= 0; }
  };

  Lines(const EngineOptions& options, const Line& whole) : options_(options), whole_(whole) {}

  Line& Get(const Sequence& s) {
    const std::string_view name = options_.shares_rows ? s.request.tenant : std::string_view();
    const auto [line, is_new] = lines_.try_emplace(name, whole_);
    if (is_new && options_.shares_rows) {
      line->second.number = static_cast<int32_t>(lines_.size() - 1);
      const auto weight = options_.tenant_weights.find(s.request.tenant);
      if (weight != options_.tenant_weights.end()) line->second.weight = weight->second;
    }
    return line->second;
  }

 private:
  const EngineOptions& options_;
  const Line whole_;
  std::map<std::string_view, Line> lines_;
};

PlanView Engine::View() {
  PlanView view{.available_pages = pool_.available(),
                .available_adapter_pages = residency_.available_pages(),
                .available_kv_pages = options_.max_kv_pages - num_kv_pages(),
                .promised_pages = standing_pins_.pages_waited_for(),
                .max_prefetches = kMaxLoads - residency_.num_loading()};
  std::set<AdapterId> adapters;
  PageTally tally(pool_.total());
  const std::vector<const Sequence*> running = Running();
  const int64_t num_seated =
      std::ranges::count_if(running, [](const Sequence* s) { return s->WantsRowsNext(); });
  Lines lines(options_, {.seats = options_.max_num_seqs - num_seated,
                         .rows = limits_.max_rows,
                         .pages = std::min(pool_.available(), view.available_kv_pages)});
  std::vector<AdapterId> next_adapters;  // of waiting sequences, in order
  // Of those that will have ended when what is under way has been run: theirs until then.
  std::set<AdapterId> last_used;
  for (const Sequence* const s : running) {
    if (s->WantsRowsNext()) continue;
    for (const AdapterUse& use : s->request.adapters) last_used.insert(use.id);
  }
  const auto add_adapters = [&](const Sequence& s) {
    for (const Sequence::Adapter& adapter : s.adapters) {
      const AdapterId id = adapter.ref.id;
      if (!s.running) next_adapters.push_back(id);
      if (!adapters.insert(id).second) continue;
      using State = PlanAdapter::State;
      const State resident = residency_.IsReady(id) ? State::kReady : State::kLoading;
      view.adapters.push_back({id, adapter.num_pages,
                               residency_.IsResident(id) ? resident : State::kAbsent,
                               standing_pins_.IsHeld(id) || last_used.contains(id)});
    }
  };
  for (const Sequence* const s : running) {
    if (!s->WantsRowsNext()) continue;
    view.sequences.push_back(Describe(*s, tally));
    lines.Get(*s).Describe(view.sequences.back());
    add_adapters(*s);
  }
  // No more waiting sequences than could start, by seats, rows and pages: the queue may be long,
  // and so may the prompts that are looked up.
  for (const auto& [arrival, sequence] : sequences_) {
    const Sequence& s = *sequence;
    if (s.running) continue;
    Lines::Line& line = lines.Get(s);
    if (!line.StartsAnother()) {
      if (view.upcoming.size() < kMaxLookahead) {
        view.upcoming.push_back({s.id(), s.request.adapters});
        add_adapters(s);
      } else if (!options_.shares_rows) {
        break;
      }
      continue;
    }
    PlanSequence& plan = view.sequences.emplace_back(Describe(s, tally));
    line.Describe(plan);
    add_adapters(s);
    --line.seats;
    line.rows -= std::min(plan.max_rows, plan.num_tokens - plan.num_computed);
    line.pages -= plan.num_own_pages + limits_.pages.For(plan.num_tokens) - plan.num_pages;
  }
  // What is wanted first goes last.
  for (auto id = next_adapters.rbegin(); id != next_adapters.rend(); ++id) residency_.Touch(*id);
  return view;
}

PlanSequence Engine::Describe(const Sequence& s, PageTally& tally) const {
  PlanSequence plan = {.id = s.id(),
                       .adapters = s.request.adapters,
                       .running = s.running,
                       .num_tokens = s.next_num_tokens(),
                       .num_drafted = s.draft.size()};
  int64_t stop = s.stop;
  if (s.running) {
    plan.num_computed = s.next_num_computed();
    plan.num_pages = s.num_pages();
    plan.num_own_pages = tally.CountNew(IdsOf(s.pages)) + std::ssize(s.state_pages);
  } else {
    const PrefixCache::Beginning found = prefix_cache_.Find(s.prefix_source, ReusableTokens(s));
    const int64_t num_pages = std::ssize(found.pages);
    // Each has a copy of its own, or the last one what is copied.
    const int64_t num_state_pages = num_pages > 0 ? limits_.pages.state_pages : 0;
    plan.num_computed = num_pages * limits_.pages.page_tokens;
    plan.num_pages = num_pages + num_state_pages;
    plan.num_own_pages = tally.CountNew(found.pages) + num_state_pages;
    stop = StopOf(plan.num_computed, found.num_alike);
  }
  if (stop > plan.num_computed) plan.max_rows = stop - plan.num_computed;
  return plan;
}

std::vector<const Sequence*> Engine::Running() const {
  std::vector<const Sequence*> running;
  for (const auto& [arrival, sequence] : sequences_) {
    if (sequence->running) {
      running.push_back(sequence.get());
    } else if (!options_.shares_rows) {
      break;  // the queue may be long
    }
  }
  return running;
}

}  // namespace aril
