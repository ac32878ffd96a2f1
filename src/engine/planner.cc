#include "engine/planner.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/checked.h"
#include "engine/row_shares.h"

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
        available_to_kv_(std::min(view.available_kv_pages, kManyPages)) {
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
    GiveRows();
    GivePages();
    PromisePages();
    // Who has just been evicted would only come back to be evicted again.
    const bool is_calm = plan_.evict.empty() && !oldest_waits_;
    const bool all_have_pages = is_calm && Admit();
    if (all_have_pages) Prefetch();
    // Others may have fewer rows now, or more. They have the pages for that: whoever joins leaves
    // everybody those of all tokens, and nobody joins while somebody has been given none.
    if (!plan_.admit.empty()) GiveRows();
    if (is_calm) GiveDraftRows(all_have_pages);
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

  int64_t MissingPages(const PlanSequence& s, int64_t tokens) const {
    return std::max<int64_t>(0, limits_.pages.For(tokens) - s.num_pages);
  }

  // Those that its rows are written to: a state has none without rows.
  int64_t PagesForRows(const Running& r) const {
    const PlanSequence& s = *r.sequence;
    return r.rows == 0 ? 0 : MissingPages(s, s.num_computed + r.rows);
  }

  static int64_t Remaining(const PlanSequence& s) { return s.num_tokens - s.num_computed; }
  // Of the next step.
  static int64_t Wanted(const PlanSequence& s) { return std::min(Remaining(s), s.max_rows); }
  // Whoever joins does not yet.
  static bool Decodes(const PlanSequence& s) { return s.running && Remaining(s) == 1; }
  // Those that join do, whatever they are loading.
  bool WantsRows(const PlanSequence& s) const { return !s.running || !IsLoading(s); }

  // A row for each decode, then the rest of the budget to prefills: each tenant's share to its
  // oldest.
  void GiveRows() {
    rows_for_prefills_ = limits_.max_rows;
    demands_.clear();
    for (Running& r : running_) {
      const PlanSequence& s = *r.sequence;
      CHECK_GE(Remaining(s), 1);
      r.rows = Decodes(s) && WantsRows(s) ? 1 : 0;
      rows_for_prefills_ -= r.rows;
      if (!Decodes(s) && WantsRows(s)) Demand(demands_, s);
    }
    std::map<int32_t, int64_t> shares = Shares(demands_);
    for (Running& r : running_) {
      const PlanSequence& s = *r.sequence;
      if (Decodes(s) || !WantsRows(s)) continue;
      int64_t& share = shares.at(s.tenant);
      r.rows = std::min(Wanted(s), share);
      share -= r.rows;
    }
  }

  using Demands = std::map<int32_t, RowDemand>;  // for prefills, by tenant
  static void Demand(Demands& demands, const PlanSequence& s) {
    RowDemand& demand = demands[s.tenant];
    demand.rows += Wanted(s);
    demand.weight = s.tenant_weight;
  }

  std::map<int32_t, int64_t> Shares(const Demands& demands) const {
    std::vector<RowDemand> wanted;
    for (const auto& [tenant, demand] : demands) wanted.push_back(demand);
    const std::vector<int64_t> given = ShareRows(rows_for_prefills_, wanted);
    std::map<int32_t, int64_t> shares;
    auto share = given.begin();
    for (const auto& [tenant, demand] : demands) shares[tenant] = *share++;
    return shares;
  }

  // Of its tenant's share, were it to join.
  bool WouldGetRows(const PlanSequence& s) const {
    Demands demands = demands_;
    const int64_t wanted_before = demands[s.tenant].rows;
    Demand(demands, s);
    return Shares(demands).at(s.tenant) > wanted_before;
  }

  void GivePages() {
    for (size_t i = 0; i < running_.size(); ++i) {
      const PlanSequence& s = *running_[i].sequence;
      if (IsLoading(s)) continue;
      const int64_t need = PagesForRows(running_[i]);
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

  // Prefills that go on in later steps have been promised the rest of their pages.
  void PromisePages() {
    for (const Running& r : running_) {
      const PlanSequence& s = *r.sequence;
      if (IsLoading(s)) continue;
      TakeForKv(MissingPages(s, s.num_tokens) - PagesForRows(r));
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

  // What is available now has been promised to nobody.
  // False if the next one lacks pages.
  bool Admit() {
    std::set<int32_t> without_rows;  // tenants
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (static_cast<int64_t>(running_.size()) >= limits_.max_running) break;
      const PlanSequence& s = **it;
      if (without_rows.contains(s.tenant) || !WouldGetRows(s)) {
        without_rows.insert(s.tenant);
        ++it;
        continue;
      }
      // With all its tokens.
      const int64_t need = s.num_own_pages + MissingPages(s, s.num_tokens);
      const int64_t need_of_adapter = NewlyUsedAdapterPages(s);
      if (available_ < need + need_of_adapter + Headroom() ||
          available_to_kv_ < need + HeadroomOfRunning() || !AdaptersMayTake(need_of_adapter)) {
        return false;
      }
      it = waiting_.erase(it);
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

  // Beside what others have been promised, and what whoever joins leaves the running ones.
  bool HasRoomToSpare(int64_t pages) const {
    return available_ >= pages + Headroom() && available_to_kv_ >= pages + HeadroomOfRunning();
  }
  int64_t Headroom() const { return promised_ + HeadroomOfRunning(); }
  int64_t HeadroomOfRunning() const {
    return static_cast<int64_t>(running_.size()) *
           CeilDiv(limits_.headroom_tokens, limits_.pages.page_tokens);
  }

  // In the order in which they will be wanted: what is in the pool is to stay there, what is not is
  // to come.
  void Prefetch() {
    std::vector<PlanUpcoming> next;
    for (const PlanSequence* s : waiting_) next.push_back({s->id, s->adapters});
    next.insert(next.end(), upcoming_.begin(), upcoming_.end());
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

  // One after the other, a row in each round.
  void GiveDraftRows(bool may_take_pages) {
    int64_t left = std::min(limits_.max_rows, limits_.max_draft_rows);
    for (const Running& r : running_) left -= r.rows;
    for (bool gives = true; gives;) {
      gives = false;
      for (Running& r : running_) {
        const PlanSequence& s = *r.sequence;
        if (left <= 0) return;
        if (!Decodes(s) || r.rows == 0 || r.rows > s.num_drafted) continue;
        const int64_t need =
            MissingPages(s, s.num_computed + r.rows + 1) - MissingPages(s, s.num_computed + r.rows);
        if (need > 0 && !(may_take_pages && HasRoomToSpare(need))) continue;
        TakeForKv(need);
        ++r.rows;
        --left;
        gives = true;
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
    running_.push_back({&s, 0});
    Demand(demands_, s);
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
      const bool prefill = Remaining(s) > 1;
      const Plan::Item item{s.id, s.adapters, r.rows, PagesForRows(r), prefill};
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
  int64_t rows_for_prefills_ = 0;
  Demands demands_;               // of those that run
  bool oldest_waits_ = false;     // for pages
  std::vector<Running> running_;  // oldest first
  std::vector<const PlanSequence*> waiting_;
  std::map<AdapterId, AdapterState> adapters_;
  Plan plan_;
};

}  // namespace

Plan MakePlan(const PlanView& view, const PlanLimits& limits) {
  return Planner(view, limits).Make();
}

}  // namespace aril
