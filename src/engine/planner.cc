#include "engine/planner.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/checked.h"

namespace aril {
namespace {

// More than any pool has, and far from where sums overflow.
constexpr int64_t kManyPages = int64_t{1} << 40;

class Planner {
 public:
  Planner(const PlanView& view, const PlanLimits& limits)
      : limits_(limits),
        upcoming_(view.upcoming),
        max_prefetches_(view.max_prefetches),
        promised_(view.promised_pages),
        available_(view.available_pages),
        available_to_adapters_(std::min(view.available_adapter_pages, kManyPages) -
                               view.promised_pages),
        available_to_kv_(std::min(view.available_kv_pages, kManyPages)),
        rows_left_(limits.max_rows) {
    CHECK_GE(limits.max_rows, limits.max_running);
    for (const PlanAdapter& adapter : view.adapters) {
      adapters_[adapter.id] = {
          .pages = adapter.num_pages, .state = adapter.state, .users = adapter.is_pinned ? 1 : 0};
    }
    for (const PlanSequence& sequence : view.sequences) {
      if (sequence.running) {
        CHECK(waiting_.empty());
        running_.push_back({&sequence, 0});
        for (const AdapterUse& use : sequence.adapters) ++adapters_[use.id].users;
      } else {
        waiting_.push_back(&sequence);
      }
    }
  }

  Plan Make() {
    ShareRows();
    GivePages();
    // Who has just been evicted would only come back to be evicted again.
    if (plan_.evict.empty() && !oldest_waits_ && Admit()) Prefetch();
    OrderItems();
    return std::move(plan_);
  }

 private:
  struct Running {
    const PlanSequence* sequence;
    int64_t rows;
  };
  struct AdapterState {
    int64_t pages = 0;
    PlanAdapter::State state = PlanAdapter::State::kReady;
    // Running sequences, and a pin; without any, the pages of a ready one are available.
    int64_t users = 0;

    bool loading() const { return state == PlanAdapter::State::kLoading; }
  };

  bool IsLoading(const PlanSequence& s) const {
    return std::ranges::any_of(
        s.adapters, [this](const AdapterUse& use) { return adapters_.at(use.id).loading(); });
  }

  int64_t PagesFor(int64_t tokens) const { return CeilDiv(tokens, limits_.page_tokens); }

  int64_t MissingPages(const PlanSequence& s, int64_t tokens) const {
    return std::max<int64_t>(0, PagesFor(tokens) - s.num_pages);
  }

  // A row for each decode, then the rest of the budget to prefills, oldest first.
  void ShareRows() {
    for (const bool prefills : {false, true}) {
      for (Running& r : running_) {
        const int64_t remaining = r.sequence->num_tokens - r.sequence->num_computed;
        CHECK_GE(remaining, 1);
        if (IsLoading(*r.sequence) || (remaining > 1) != prefills) continue;
        r.rows = std::min(remaining, rows_left_);
        rows_left_ -= r.rows;
      }
    }
  }

  void GivePages() {
    for (size_t i = 0; i < running_.size(); ++i) {
      const PlanSequence& s = *running_[i].sequence;
      if (IsLoading(s)) continue;
      const int64_t need = MissingPages(s, s.num_computed + running_[i].rows);
      while (i < running_.size() && running_.size() > 1 && AvailableToKv() < need) EvictNewest();
      if (i >= running_.size()) break;
      if (AvailableToKv() < need) {
        // An adapter that is being loaded has them: without its users it gives way when it is
        // there.
        oldest_waits_ = true;
        running_[i].rows = 0;
      } else {
        TakeForKv(need);
      }
    }
    // Promised, as far as there is room: nobody is evicted for who cannot run yet.
    for (const Running& r : running_) {
      if (!IsLoading(*r.sequence)) continue;
      TakeForKv(std::min(AvailableToKv(), MissingPages(*r.sequence, r.sequence->num_tokens)));
    }
  }

  int64_t AvailableToKv() const { return std::min(available_, available_to_kv_); }

  void TakeForKv(int64_t pages) {
    available_ -= pages;
    available_to_kv_ -= pages;
  }

  void EvictNewest() {
    const Running victim = running_.back();
    running_.pop_back();
    plan_.evict.push_back(victim.sequence->id);
    TakeForKv(-victim.sequence->num_own_pages);
    for (const AdapterUse& use : victim.sequence->adapters) {
      AdapterState& adapter = adapters_[use.id];
      if (--adapter.users > 0 || adapter.loading()) continue;
      available_ += adapter.pages;
      available_to_adapters_ += adapter.pages;
    }
  }

  // While rows are left, each running sequence gets all its rows in this step, and with them the
  // pages of all its tokens: what is available then has been promised to nobody.
  // False if the next one lacks pages.
  bool Admit() {
    while (!waiting_.empty() && rows_left_ > 0 &&
           static_cast<int64_t>(running_.size()) < limits_.max_running) {
      const PlanSequence& s = *waiting_.front();
      // With all its tokens.
      const int64_t need = s.num_own_pages + MissingPages(s, s.num_tokens);
      const int64_t need_of_adapter = NewlyUsedAdapterPages(s);
      if (available_ < need + need_of_adapter + Headroom() ||
          available_to_kv_ < need + HeadroomOfRunning() || !AdaptersMayTake(need_of_adapter)) {
        return false;
      }
      waiting_.pop_front();
      TakeForKv(need);
      available_ -= need_of_adapter;
      available_to_adapters_ -= need_of_adapter;
      Start(s);
    }
    return true;
  }

  // Negative while a standing pin waits for more than the adapters' share has left: then nobody
  // joins.
  bool AdaptersMayTake(int64_t pages) const { return pages <= available_to_adapters_; }

  int64_t Headroom() const { return promised_ + HeadroomOfRunning(); }
  int64_t HeadroomOfRunning() const {
    return static_cast<int64_t>(running_.size()) * PagesFor(limits_.headroom_tokens);
  }

  // In the order in which they will be wanted: what is in the pool is to stay there, what is not is
  // to come.
  void Prefetch() {
    std::vector<PlanUpcoming> next;
    for (const PlanSequence* s : waiting_) next.push_back({s->id, s->adapters});
    next.insert(next.end(), upcoming_.begin(), upcoming_.end());
    // Prefills that go on in later steps have been promised the rest of their pages.
    for (const Running& r : running_) {
      const PlanSequence& s = *r.sequence;
      if (!s.running || IsLoading(s)) continue;
      TakeForKv(MissingPages(s, s.num_tokens) - MissingPages(s, s.num_computed + r.rows));
    }
    std::set<AdapterId> seen;
    for (const PlanUpcoming& s : next) {
      for (const AdapterUse& use : s.adapters) {
        const AdapterState& adapter = adapters_[use.id];
        if (adapter.users > 0 || adapter.loading() || !seen.insert(use.id).second) continue;
        if (available_ < adapter.pages + Headroom() || !AdaptersMayTake(adapter.pages)) return;
        available_ -= adapter.pages;
        available_to_adapters_ -= adapter.pages;
        if (adapter.state == PlanAdapter::State::kReady) continue;
        if (static_cast<int64_t>(plan_.prefetch.size()) >= max_prefetches_) return;
        plan_.prefetch.push_back({s.id, use.id});
      }
    }
  }

  // By a sequence that joins.
  int64_t NewlyUsedAdapterPages(const PlanSequence& s) {
    int64_t pages = 0;
    for (const AdapterUse& use : s.adapters) {
      const AdapterState& adapter = adapters_[use.id];
      if (adapter.users == 0 && !adapter.loading()) pages += adapter.pages;
    }
    return pages;
  }

  void Start(const PlanSequence& s) {
    const int64_t rows = std::min(s.num_tokens - s.num_computed, rows_left_);
    rows_left_ -= rows;
    running_.push_back({&s, rows});
    for (const AdapterUse& use : s.adapters) {
      AdapterState& adapter = adapters_[use.id];
      // It will be loaded first.
      if (adapter.users++ == 0 && adapter.state == PlanAdapter::State::kAbsent) --max_prefetches_;
    }
    plan_.admit.push_back(s.id);
  }

  // Prefills, mixes without decodes first; then decodes, beginning with the mix that the prefills
  // ended with.
  void OrderItems() {
    std::vector<Plan::Item> prefills;
    std::vector<Plan::Item> decodes;
    std::set<AdapterMix> decoding;
    for (const Running& r : running_) {
      if (r.rows == 0) continue;
      const PlanSequence& s = *r.sequence;
      const bool prefill = s.num_tokens - s.num_computed > 1;
      const Plan::Item item{s.id, s.adapters, r.rows, MissingPages(s, s.num_computed + r.rows),
                            prefill};
      (prefill ? prefills : decodes).push_back(item);
      if (!prefill) decoding.insert(s.adapters);
    }
    std::stable_sort(prefills.begin(), prefills.end(),
                     [&](const Plan::Item& a, const Plan::Item& b) {
                       return std::forward_as_tuple(decoding.contains(a.adapters), a.adapters) <
                              std::forward_as_tuple(decoding.contains(b.adapters), b.adapters);
                     });
    const AdapterMix border = prefills.empty() ? AdapterMix() : prefills.back().adapters;
    std::stable_sort(decodes.begin(), decodes.end(), [&](const Plan::Item& a, const Plan::Item& b) {
      return std::forward_as_tuple(a.adapters != border, a.adapters) <
             std::forward_as_tuple(b.adapters != border, b.adapters);
    });
    plan_.items = std::move(prefills);
    plan_.items.insert(plan_.items.end(), decodes.begin(), decodes.end());
  }

  const PlanLimits& limits_;
  const std::vector<PlanUpcoming>& upcoming_;
  int64_t max_prefetches_;
  const int64_t promised_;
  int64_t available_;
  int64_t available_to_adapters_;
  int64_t available_to_kv_;
  int64_t rows_left_;
  bool oldest_waits_ = false;     // for pages
  std::vector<Running> running_;  // oldest first
  std::deque<const PlanSequence*> waiting_;
  std::map<AdapterId, AdapterState> adapters_;
  Plan plan_;
};

}  // namespace

Plan MakePlan(const PlanView& view, const PlanLimits& limits) {
  return Planner(view, limits).Make();
}

}  // namespace aril
