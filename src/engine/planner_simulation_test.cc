// The planner in a toy world: sequences arrive, grow, are cancelled and finish, adapters come and
// go, pages are numbers. What planner.h promises is asserted at every step.

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>

#include "engine/planner.h"
#include "gtest/gtest.h"

namespace aril {
namespace {

struct ToySequence {
  PlanSequence plan;
  int64_t num_wanted = 0;  // tokens at its end
};

struct ToyAdapter {
  int64_t num_pages = 0;
  bool resident = false;
};

class ToyWorld {
 public:
  explicit ToyWorld(uint64_t seed) : random_(seed) {
    limits_.page_tokens = int64_t{1} << Draw(0, 4);
    limits_.max_running = Draw(1, 12);
    limits_.max_rows = limits_.max_running + Draw(0, 40);
    adapters_.resize(static_cast<size_t>(Draw(1, 8)));
    int64_t largest = 0;
    for (ToyAdapter& adapter : adapters_) {
      adapter.num_pages = Draw(1, 12);
      largest = std::max(largest, adapter.num_pages);
    }
    total_ = free_ = largest + Pages(kMaxTokens) + Draw(0, 30);
  }

  bool Empty() const { return sequences_.empty(); }
  size_t NumWaiting() const {
    size_t waiting = 0;
    for (const auto& [arrival, sequence] : sequences_) waiting += sequence.plan.running ? 0 : 1;
    return waiting;
  }
  int64_t num_evictions() const { return num_evictions_; }
  int64_t num_drops() const { return num_drops_; }

  void Arrive() {
    const auto arrival = next_arrival_++;
    ToySequence sequence;
    sequence.plan.id = SequenceId(static_cast<int64_t>(arrival));
    sequence.plan.arrival = arrival;
    sequence.plan.adapter =
        AdapterId(static_cast<int32_t>(Draw(-1, static_cast<int64_t>(adapters_.size()) - 1)));
    sequence.plan.num_tokens = Draw(1, kMaxTokens - 1);
    sequence.num_wanted = Draw(sequence.plan.num_tokens + 1, kMaxTokens);
    sequences_.emplace(arrival, sequence);
  }

  void CancelOne() {
    auto victim = sequences_.begin();
    std::advance(victim, Draw(0, static_cast<int64_t>(sequences_.size()) - 1));
    Remove(victim);
  }

  // One step: plan, check, carry out.
  void Step() {
    const PlanView view = View();
    const Plan plan = MakePlan(view, limits_);
    ExpectSame(plan, MakePlan(view, limits_));
    Evict(plan);
    DropAdapters(plan);
    Admit(plan);
    RunItems(plan);
    EXPECT_EQ(free_ + UsedPages(), total_);
  }

 private:
  static constexpr int64_t kMaxTokens = 70;

  int64_t Draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  int64_t Pages(int64_t tokens) const {
    return (tokens + limits_.page_tokens - 1) / limits_.page_tokens;
  }
  ToyAdapter& Get(AdapterId id) { return adapters_[static_cast<size_t>(id.value())]; }
  ToySequence& Get(SequenceId id) { return sequences_.at(static_cast<uint64_t>(id.value())); }

  bool IsPinned(AdapterId id) const {
    return std::any_of(sequences_.begin(), sequences_.end(), [&](const auto& entry) {
      return entry.second.plan.running && entry.second.plan.adapter == id;
    });
  }

  int64_t UsedPages() const {
    int64_t used = 0;
    for (const ToyAdapter& adapter : adapters_) used += adapter.resident ? adapter.num_pages : 0;
    for (const auto& [arrival, sequence] : sequences_) used += sequence.plan.num_pages;
    return used;
  }

  PlanView View() const {
    PlanView view{.free_pages = free_};
    for (const auto& [arrival, sequence] : sequences_) view.sequences.push_back(sequence.plan);
    const auto add = [&](AdapterId id) {
      const ToyAdapter& adapter = adapters_[static_cast<size_t>(id.value())];
      view.adapters.push_back({id, adapter.num_pages, adapter.resident});
    };
    for (const AdapterId id : idle_) add(id);
    for (size_t i = 0; i < adapters_.size(); ++i) {
      const AdapterId id(static_cast<int32_t>(i));
      if (std::find(idle_.begin(), idle_.end(), id) == idle_.end()) add(id);
    }
    return view;
  }

  static void ExpectSame(const Plan& a, const Plan& b) {
    EXPECT_EQ(a.evict, b.evict);
    EXPECT_EQ(a.drop, b.drop);
    EXPECT_EQ(a.admit, b.admit);
    ASSERT_EQ(a.items.size(), b.items.size());
    for (size_t i = 0; i < a.items.size(); ++i) {
      EXPECT_EQ(a.items[i].id, b.items[i].id);
      EXPECT_EQ(a.items[i].num_rows, b.items[i].num_rows);
    }
  }

  void Release(ToySequence& sequence) {
    PlanSequence& plan = sequence.plan;
    free_ += plan.num_pages;
    plan.num_pages = plan.num_computed = 0;
    const bool was_running = std::exchange(plan.running, false);
    if (was_running && plan.adapter != kBaseModel && !IsPinned(plan.adapter))
      idle_.push_back(plan.adapter);
  }

  void Remove(std::map<uint64_t, ToySequence>::iterator sequence) {
    Release(sequence->second);
    sequences_.erase(sequence);
  }

  void Evict(const Plan& plan) {
    for (const SequenceId id : plan.evict) {
      ToySequence& victim = Get(id);
      ASSERT_TRUE(victim.plan.running);
      for (const auto& [arrival, other] : sequences_) {
        EXPECT_FALSE(other.plan.running && arrival > victim.plan.arrival)
            << arrival << " is newer than " << id;
      }
      Release(victim);
      ++num_evictions_;
    }
    EXPECT_TRUE(plan.evict.empty() || plan.admit.empty());
  }

  void DropAdapters(const Plan& plan) {
    for (const AdapterId id : plan.drop) {
      ASSERT_TRUE(Get(id).resident);
      ASSERT_FALSE(IsPinned(id)) << "a running sequence uses adapter " << id;
      Get(id).resident = false;
      free_ += Get(id).num_pages;
      idle_.remove(id);
      ++num_drops_;
    }
  }

  void Admit(const Plan& plan) {
    for (const SequenceId id : plan.admit) {
      PlanSequence& sequence = Get(id).plan;
      ASSERT_FALSE(sequence.running);
      for (const auto& [arrival, other] : sequences_) {
        EXPECT_TRUE(other.plan.running || arrival >= sequence.arrival)
            << id << " overtakes " << arrival;
      }
      sequence.running = true;
      if (sequence.adapter == kBaseModel) continue;
      idle_.remove(sequence.adapter);
      if (std::exchange(Get(sequence.adapter).resident, true)) continue;
      free_ -= Get(sequence.adapter).num_pages;
      ASSERT_GE(free_, 0);
    }
  }

  void RunItems(const Plan& plan) {
    std::set<SequenceId> ran;
    int64_t rows = 0;
    for (const Plan::Item& item : plan.items) {
      ToySequence& sequence = Get(item.id);
      ASSERT_TRUE(sequence.plan.running);
      ASSERT_TRUE(ran.insert(item.id).second);
      ASSERT_GE(item.num_rows, 1);
      ASSERT_LE(sequence.plan.num_computed + item.num_rows, sequence.plan.num_tokens);
      EXPECT_EQ(item.prefill, sequence.plan.num_tokens - sequence.plan.num_computed > 1);
      rows += item.num_rows;
      free_ -= item.new_pages;
      ASSERT_GE(free_, 0) << "more pages were promised than are free";
      sequence.plan.num_pages += item.new_pages;
      ASSERT_EQ(sequence.plan.num_pages, Pages(sequence.plan.num_computed + item.num_rows));
    }
    EXPECT_LE(rows, limits_.max_rows);
    ExpectProgress(ran);
    ExpectAdaptersAdjacent(plan);
    for (const Plan::Item& item : plan.items) Advance(item);
  }

  // Nobody starves: the oldest sequence gets ahead in every step, so that each becomes the oldest
  // within a bounded number of steps. Every running decode gets its row.
  void ExpectProgress(const std::set<SequenceId>& ran) const {
    int64_t running = 0;
    for (const auto& [arrival, sequence] : sequences_) {
      const PlanSequence& s = sequence.plan;
      running += s.running ? 1 : 0;
      const bool decodes = s.running && s.num_tokens - s.num_computed == 1;
      if (decodes || arrival == sequences_.begin()->first) {
        EXPECT_TRUE(ran.contains(s.id)) << "sequence " << s.id;
      }
    }
    EXPECT_LE(running, limits_.max_running);
  }

  // One segment per adapter among the prefills and one among the decodes; one for both where an
  // adapter of the prefills decodes as well (the border can join one only).
  static void ExpectAdaptersAdjacent(const Plan& plan) {
    std::set<AdapterId> prefilling;
    std::set<AdapterId> decoding;
    int64_t segments = 0;
    for (size_t i = 0; i < plan.items.size(); ++i) {
      const Plan::Item& item = plan.items[i];
      if (i > 0) {
        EXPECT_FALSE(item.prefill && !plan.items[i - 1].prefill);
      }
      segments += i == 0 || item.adapter != plan.items[i - 1].adapter ? 1 : 0;
      (item.prefill ? prefilling : decoding).insert(item.adapter);
    }
    const bool joined = std::any_of(prefilling.begin(), prefilling.end(),
                                    [&](AdapterId id) { return decoding.contains(id); });
    EXPECT_EQ(segments, static_cast<int64_t>(prefilling.size() + decoding.size()) - joined);
  }

  void Advance(const Plan::Item& item) {
    ToySequence& sequence = Get(item.id);
    sequence.plan.num_computed += item.num_rows;
    if (sequence.plan.num_computed < sequence.plan.num_tokens) return;
    if (++sequence.plan.num_tokens == sequence.num_wanted)
      Remove(sequences_.find(sequence.plan.arrival));
  }

  std::mt19937_64 random_;
  PlanLimits limits_;
  int64_t total_ = 0;
  int64_t free_ = 0;
  std::vector<ToyAdapter> adapters_;
  std::list<AdapterId> idle_;  // least recently used first
  std::map<uint64_t, ToySequence> sequences_;
  uint64_t next_arrival_ = 0;
  int64_t num_evictions_ = 0;
  int64_t num_drops_ = 0;
};

TEST(PlannerSimulation, KeepsItsPromisesInRandomWorlds) {
  int64_t evictions = 0;
  int64_t drops = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ToyWorld world(seed);
    std::mt19937_64 random(seed + 1'000'000);
    for (int step = 0; step < 300 && !HasFailure(); ++step) {
      while (world.NumWaiting() < 10 && random() % 4 == 0) world.Arrive();
      if (random() % 20 == 0 && !world.Empty()) world.CancelOne();
      world.Step();
    }
    // At most 22 sequences are left; each ends within 70 steps of being the oldest.
    for (int step = 0; step < 22 * 70 && !world.Empty() && !HasFailure(); ++step) world.Step();
    ASSERT_TRUE(world.Empty());
    ASSERT_FALSE(HasFailure());
    evictions += world.num_evictions();
    drops += world.num_drops();
  }
  EXPECT_GT(evictions, 300);
  EXPECT_GT(drops, 1000);
}

}  // namespace
}  // namespace aril
