#include "engine/planner.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "base/check.h"
#include "base/checked.h"

namespace aril {
namespace {

class Planner {
 public:
  Planner(const PlanView& view, const PlanLimits& limits)
      : limits_(limits), free_(view.free_pages), rows_left_(limits.max_rows) {
    CHECK_GE(limits.max_rows, limits.max_running);
    for (const PlanAdapter& adapter : view.adapters)
      adapters_[adapter.id] = {adapter.num_pages, adapter.resident, 0};
    for (const PlanSequence& sequence : view.sequences) {
      if (sequence.running) {
        running_.push_back({&sequence, 0});
        ++UsersOf(sequence.adapter);
      } else {
        waiting_.push_back(&sequence);
      }
    }
    for (const PlanAdapter& adapter : view.adapters) {
      if (adapter.resident && UsersOf(adapter.id) == 0) idle_.push_back(adapter.id);
    }
  }

  Plan Make() {
    ShareRows();
    GivePages();
    // Who has just been evicted would only come back to be evicted again.
    if (plan_.evict.empty()) Admit();
    OrderItems();
    return std::move(plan_);
  }

 private:
  struct Running {
    const PlanSequence* sequence;
    int64_t rows;
  };
  struct AdapterState {
    int64_t pages;
    bool resident;
    int64_t users;  // running sequences
  };

  int64_t& UsersOf(AdapterId id) { return adapters_[id].users; }

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
        if ((remaining > 1) != prefills) continue;
        r.rows = std::min(remaining, rows_left_);
        rows_left_ -= r.rows;
      }
    }
  }

  // Drops idle adapters until `count` pages are free; or, if they have not enough, none of them and
  // returns false: an adapter must not go for somebody who stays out all the same.
  bool MakeFree(int64_t count) {
    if (free_ >= count) return true;
    int64_t reclaimable = free_;
    for (const AdapterId id : idle_) reclaimable += adapters_[id].pages;
    if (reclaimable < count) return false;
    while (free_ < count) {
      const AdapterId id = idle_.front();
      idle_.pop_front();
      free_ += adapters_[id].pages;
      adapters_[id].resident = false;
      plan_.drop.push_back(id);
    }
    return true;
  }

  void GivePages() {
    for (size_t i = 0; i < running_.size(); ++i) {
      const PlanSequence& s = *running_[i].sequence;
      const int64_t need = MissingPages(s, s.num_computed + running_[i].rows);
      while (i < running_.size() && !MakeFree(need)) EvictNewest();
      if (i < running_.size()) free_ -= need;
    }
  }

  void EvictNewest() {
    const Running victim = running_.back();
    running_.pop_back();
    plan_.evict.push_back(victim.sequence->id);
    free_ += victim.sequence->num_pages;
    if (victim.sequence->adapter != kBaseModel && --UsersOf(victim.sequence->adapter) == 0) {
      idle_.push_back(victim.sequence->adapter);
    }
  }

  // While rows are left, each running sequence gets all its rows in this step, and with them the
  // pages of all its tokens: what is free then has been promised to nobody.
  void Admit() {
    while (!waiting_.empty() && rows_left_ > 0 &&
           static_cast<int64_t>(running_.size()) < limits_.max_running) {
      const PlanSequence& s = *waiting_.front();
      const int64_t adapter_pages = AbsentPages(s.adapter);
      const int64_t tokens_pages = PagesFor(s.num_tokens);
      // Its own adapter must not be among those that make room for it.
      if (s.adapter != kBaseModel) std::erase(idle_, s.adapter);
      const int64_t headroom =
          static_cast<int64_t>(running_.size()) * PagesFor(limits_.headroom_tokens);
      if (!MakeFree(adapter_pages + tokens_pages + headroom)) return;
      waiting_.pop_front();
      Start(s);
      free_ -= adapter_pages + tokens_pages;
    }
  }

  int64_t AbsentPages(AdapterId id) {
    return id == kBaseModel || adapters_[id].resident ? 0 : adapters_[id].pages;
  }

  void Start(const PlanSequence& s) {
    const int64_t rows = std::min(s.num_tokens, rows_left_);
    rows_left_ -= rows;
    running_.push_back({&s, rows});
    if (s.adapter != kBaseModel) {
      adapters_[s.adapter].resident = true;
      ++UsersOf(s.adapter);
    }
    plan_.admit.push_back(s.id);
  }

  // Prefills, adapters without decodes first; then decodes, beginning with the adapter that the
  // prefills ended with.
  void OrderItems() {
    std::vector<Plan::Item> prefills;
    std::vector<Plan::Item> decodes;
    std::set<AdapterId> decoding;
    for (const Running& r : running_) {
      if (r.rows == 0) continue;
      const PlanSequence& s = *r.sequence;
      const bool prefill = s.num_tokens - s.num_computed > 1;
      const Plan::Item item{s.id, s.adapter, r.rows, MissingPages(s, s.num_computed + r.rows),
                            prefill};
      (prefill ? prefills : decodes).push_back(item);
      if (!prefill) decoding.insert(s.adapter);
    }
    std::stable_sort(prefills.begin(), prefills.end(),
                     [&](const Plan::Item& a, const Plan::Item& b) {
                       return std::pair(decoding.contains(a.adapter), a.adapter) <
                              std::pair(decoding.contains(b.adapter), b.adapter);
                     });
    const AdapterId border = prefills.empty() ? kBaseModel : prefills.back().adapter;
    std::stable_sort(decodes.begin(), decodes.end(), [&](const Plan::Item& a, const Plan::Item& b) {
      return std::pair(a.adapter != border, a.adapter) < std::pair(b.adapter != border, b.adapter);
    });
    plan_.items = std::move(prefills);
    plan_.items.insert(plan_.items.end(), decodes.begin(), decodes.end());
  }

  const PlanLimits& limits_;
  int64_t free_;
  int64_t rows_left_;
  std::vector<Running> running_;  // oldest first
  std::deque<const PlanSequence*> waiting_;
  std::map<AdapterId, AdapterState> adapters_;
  std::deque<AdapterId> idle_;  // least recently used first
  Plan plan_;
};

}  // namespace

Plan MakePlan(const PlanView& view, const PlanLimits& limits) {
  return Planner(view, limits).Make();
}

}  // namespace aril
