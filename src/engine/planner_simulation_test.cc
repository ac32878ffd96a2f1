// The planner, the pool and the prefix cache in a toy world: sequences arrive, grow, are cancelled
// and finish, adapters come and go. What planner.h promises is asserted at every step; and of every
// row, that its page still holds what was computed from the same tokens, tenant and adapter; and of
// every state, that it is the one behind the row before.

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "engine/planner.h"
#include "gtest/gtest.h"
#include "memory/page_pool.h"
#include "memory/prefix_cache.h"

namespace aril {
namespace {

struct ToySequence {
  PlanSequence plan;  // num_own_pages is that of the last view
  uint64_t arrival = 0;
  PrefixSource source;
  std::vector<int32_t> tokens;
  std::vector<uint64_t> history;  // of each token: a hash of what its K and V depend on
  int64_t num_wanted = 0;         // tokens at its end
  std::vector<int32_t> draft;     // of the last view
  int64_t stop = 0;               // where it has to end a step, if that is ahead
  PrefixCache::Pin prefix;
  std::vector<PageRef> pages, state_pages;  // while running

  int64_t num_pages() const { return std::ssize(pages) + std::ssize(state_pages); }
};

struct ToyAdapter {
  std::vector<PageRef> pages;  // while resident
  bool ready = false;          // its load has ended
  PageOffer offer;             // while it is ready and no running sequence uses it
};

class ToyWorld {
 public:
  explicit ToyWorld(uint64_t seed)
      : random_(seed),
        limits_(DrawLimits()),
        adapter_pages_(DrawAdapters()),
        pool_(static_cast<int32_t>(DrawPages())),
        cache_(pool_, limits_.pages),
        adapters_(adapter_pages_.size()),
        slowness_(DrawSlowness()),
        max_kv_pages_(DrawMaxKvPages()),
        shares_rows_(Draw(0, 1) == 0),
        weight_of_a_(shares_rows_ ? static_cast<double>(Draw(1, 5)) : 1),
        rows_(static_cast<size_t>(pool_.total() * limits_.pages.page_tokens)) {
    for (std::vector<int32_t>& opening : openings_) opening = RandomTokens(Draw(0, kMaxTokens / 2));
  }

  bool Empty() const { return sequences_.empty(); }
  size_t NumWaiting() const {
    size_t waiting = 0;
    for (const auto& [arrival, sequence] : sequences_) waiting += sequence.plan.running ? 0 : 1;
    return waiting;
  }
  int64_t num_evictions() const { return num_evictions_; }
  int64_t num_drops() const { return num_drops_; }
  int64_t num_cached() const { return num_cached_; }
  int64_t num_cached_states() const { return num_cached_states_; }
  int64_t num_prefetches() const { return num_prefetches_; }
  int64_t num_overtaken() const { return num_overtaken_; }
  int64_t num_drafted() const { return num_drafted_; }

  void Arrive() {
    const uint64_t arrival = next_arrival_++;
    ToySequence& s = sequences_[arrival];
    s.arrival = arrival;
    s.plan.id = SequenceId(static_cast<int64_t>(arrival));
    s.plan.adapters = DrawMix();
    const bool is_of_a = Draw(0, 3) == 0;
    s.source.tenant = is_of_a ? "a" : "b";
    // Some apply from a later token on.
    for (const AdapterUse& use : s.plan.adapters) {
      s.source.adapters.push_back({use, Draw(0, 1) * Draw(0, kMaxTokens / 2)});
    }
    if (shares_rows_ && is_of_a) {
      s.plan.tenant = 1;
      s.plan.tenant_weight = weight_of_a_;
    }
    for (const int32_t token : openings_[static_cast<size_t>(Draw(0, 2))]) Append(s, token);
    for (const int32_t token : RandomTokens(Draw(1, kMaxTokens / 2 - 1))) Append(s, token);
    s.num_wanted = Draw(s.plan.num_tokens + 1, kMaxTokens);
  }

  void CancelOne() {
    auto victim = sequences_.begin();
    std::advance(victim, Draw(0, static_cast<int64_t>(sequences_.size()) - 1));
    Remove(victim);
  }

  // One step: plan, check, carry out.
  void Step() {
    EndLoads();
    const PlanView view = View();
    const Plan plan = MakePlan(view, limits_);
    ExpectSame(plan, MakePlan(view, limits_));
    Evict(plan);
    Admit(plan);
    Prefetch(plan);
    RunItems(plan);
    pool_.CheckConservation();
    ExpectPagesAccountedFor();
  }

 private:
  static constexpr int64_t kMaxTokens = 70;
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

  int64_t Draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  PlanLimits DrawLimits() {
    PlanLimits limits;
    limits.pages.page_tokens = int64_t{1} << Draw(0, 4);
    if (Draw(0, 2) == 0) limits.pages.state_pages = Draw(1, 8);
    limits.max_running = Draw(1, 12);
    limits.max_rows = limits.max_running + Draw(0, 40);
    limits.max_draft_rows = Draw(0, 24);
    return limits;
  }
  std::vector<int64_t> DrawAdapters() {
    std::vector<int64_t> pages(static_cast<size_t>(Draw(1, 8)));
    for (int64_t& count : pages) count = Draw(1, 12);
    return pages;
  }
  // None, one or two.
  AdapterMix DrawMix() {
    AdapterMix mix;
    for (int64_t i = Draw(0, 2); i > 0; --i) {
      const AdapterId id(static_cast<int32_t>(Draw(0, static_cast<int64_t>(adapters_.size()) - 1)));
      if (!Uses(mix, id)) mix.push_back({id, Draw(0, 1) == 0 ? 1.0f : 0.5f});
    }
    return mix;
  }
  // Enough for each sequence alone.
  int64_t DrawPages() {
    return 2 * *std::max_element(adapter_pages_.begin(), adapter_pages_.end()) + Pages(kMaxTokens) +
           Draw(0, 30);
  }
  int64_t DrawSlowness() {
    const int64_t longest[] = {1, 6, 40};
    return Draw(1, longest[Draw(0, 2)]);
  }
  // Often all, as a runner does.
  int64_t DrawMaxKvPages() {
    switch (Draw(0, 3)) {
      case 0:
        return Pages(kMaxTokens) + Draw(0, 15);
      case 1:
        return kUnbounded;
      default:
        return pool_.total();
    }
  }
  // Of an alphabet of two, so that sequences meet.
  std::vector<int32_t> RandomTokens(int64_t count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    for (int32_t& token : tokens) token = static_cast<int32_t>(Draw(0, 1));
    return tokens;
  }
  int64_t Pages(int64_t tokens) const {
    return limits_.pages.state_pages +
           (tokens + limits_.pages.page_tokens - 1) / limits_.pages.page_tokens;
  }
  // By the token at a position.
  static uint64_t Extended(uint64_t history, const ToySequence& s, int64_t position,
                           int32_t token) {
    for (const auto& [use, first_token] : s.source.adapters) {
      if (position < first_token) continue;
      history = history * 31 + std::hash<AdapterId>()(use.id) + (use.weight == 1 ? 0 : 1000);
    }
    return (history + static_cast<uint64_t>(token) + 1) * 6364136223846793005u;
  }
  static void Append(ToySequence& s, int32_t token) {
    const uint64_t before =
        s.history.empty() ? std::hash<std::string>()(s.source.tenant) : s.history.back();
    s.history.push_back(Extended(before, s, s.plan.num_tokens, token));
    s.tokens.push_back(token);
    ++s.plan.num_tokens;
  }
  ToyAdapter& Get(AdapterId id) { return adapters_[static_cast<size_t>(id.value())]; }
  int64_t PagesFor(AdapterId id) const { return adapter_pages_[static_cast<size_t>(id.value())]; }
  int64_t num_kv_pages() const { return pool_.used(PageUse::kKv) - cache_.num_idle_pages(); }

  ToySequence& Get(SequenceId id) { return sequences_.at(static_cast<uint64_t>(id.value())); }

  bool IsPinned(AdapterId id) const {
    return std::any_of(sequences_.begin(), sequences_.end(), [&](const auto& entry) {
      return entry.second.plan.running && Uses(entry.second.plan.adapters, id);
    });
  }

  // All but the last token.
  std::span<const int32_t> Reusable(const ToySequence& s) const {
    return std::span(s.tokens).first(s.tokens.size() - 1);
  }

  PlanView View() {
    PlanView view{.available_pages = pool_.available(),
                  .available_kv_pages = max_kv_pages_ - num_kv_pages()};
    std::vector<ToySequence*> sequences;
    for (auto& [arrival, s] : sequences_) sequences.push_back(&s);
    std::stable_partition(sequences.begin(), sequences.end(),
                          [](const ToySequence* s) { return s->plan.running; });
    std::set<PageId> seen;
    for (ToySequence* const sequence : sequences) {
      ToySequence& s = *sequence;
      std::vector<PageId> pages;
      int64_t num_alike = 0, num_state_pages = 0;
      const auto add = [&](PageId id) { pages.push_back(id); };
      if (s.plan.running) {
        for (const PageRef& page : s.pages) add(page.id());
        for (const PageRef& page : s.state_pages) add(page.id());
      } else {
        const PrefixCache::Beginning found = cache_.Find(s.source, Reusable(s));
        std::ranges::for_each(found.pages, add);
        num_alike = found.num_alike;
        s.plan.num_computed = std::ssize(found.pages) * limits_.pages.page_tokens;
        if (!found.pages.empty()) num_state_pages = limits_.pages.state_pages;
      }
      DrawStop(s, num_alike);
      const bool decodes = s.plan.running && s.plan.num_tokens - s.plan.num_computed == 1;
      s.draft = RandomTokens(
          decodes && !has_state() ? std::min(Draw(0, 4), s.num_wanted - s.plan.num_tokens - 1) : 0);
      s.plan.num_drafted = std::ssize(s.draft);
      s.plan.num_pages = std::ssize(pages) + num_state_pages;
      s.plan.num_own_pages = num_state_pages;
      for (const PageId id : pages) s.plan.num_own_pages += seen.insert(id).second ? 1 : 0;
      view.sequences.push_back(s.plan);
    }
    for (size_t i = 0; i < adapters_.size(); ++i) {
      const AdapterId id(static_cast<int32_t>(i));
      using State = PlanAdapter::State;
      const State resident = adapters_[i].ready ? State::kReady : State::kLoading;
      view.adapters.push_back(
          {id, PagesFor(id), adapters_[i].pages.empty() ? State::kAbsent : resident});
    }
    view.max_prefetches = Draw(0, 2);
    return view;
  }

  // Often ahead, and then at the end of a full page: often where others went on in another way.
  void DrawStop(ToySequence& s, int64_t num_alike_pages) {
    const int64_t page_tokens = limits_.pages.page_tokens;
    if (s.stop <= s.plan.num_computed) {
      const int64_t any_page = Draw(0, (s.plan.num_tokens - 1) / page_tokens);
      s.stop = (Draw(0, 2) == 0 ? any_page : num_alike_pages) * page_tokens;
    }
    const bool is_ahead = s.stop > s.plan.num_computed;
    s.plan.max_rows = is_ahead ? s.stop - s.plan.num_computed : kUnbounded;
  }

  static void ExpectSame(const Plan& a, const Plan& b) {
    EXPECT_EQ(a.evict, b.evict);
    EXPECT_EQ(a.admit, b.admit);
    ASSERT_EQ(a.items.size(), b.items.size());
    for (size_t i = 0; i < a.items.size(); ++i) {
      EXPECT_EQ(a.items[i].id, b.items[i].id);
      EXPECT_EQ(a.items[i].num_rows, b.items[i].num_rows);
    }
  }

  void Release(ToySequence& s) {
    s.pages.clear();
    s.state_pages.clear();
    s.prefix.Reset();
    s.plan.num_computed = 0;
    const bool was_running = std::exchange(s.plan.running, false);
    if (!was_running) return;
    for (const AdapterUse& use : s.plan.adapters) {
      if (!IsPinned(use.id)) OfferAdapter(Get(use.id));
    }
  }

  bool AreReady(const AdapterMix& mix) {
    return std::ranges::all_of(mix, [this](const AdapterUse& use) { return Get(use.id).ready; });
  }

  // Each with a probability that the world has.
  void EndLoads() {
    for (size_t i = 0; i < adapters_.size(); ++i) {
      ToyAdapter& adapter = adapters_[i];
      if (adapter.pages.empty() || adapter.ready || Draw(1, slowness_) > 1) continue;
      adapter.ready = true;
      if (!IsPinned(AdapterId(static_cast<int32_t>(i)))) OfferAdapter(adapter);
    }
  }

  // Fast worlds load at once.
  void Load(AdapterId id) {
    ToyAdapter& adapter = Get(id);
    ASSERT_TRUE(pool_.Allocate(PagesFor(id), PageUse::kAdapter, adapter.pages));
    adapter.ready = slowness_ == 1;
    if (adapter.ready && !IsPinned(id)) OfferAdapter(adapter);
  }

  void OfferAdapter(ToyAdapter& adapter) {
    if (!adapter.ready) return;
    adapter.offer = pool_.Offer(static_cast<int64_t>(adapter.pages.size()), [this, &adapter] {
      adapter.pages.clear();
      adapter.ready = false;
      adapter.offer.Withdraw();
      ++num_drops_;
    });
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
        EXPECT_FALSE(other.plan.running && arrival > victim.arrival)
            << arrival << " is newer than " << id;
      }
      const int64_t available = pool_.available();
      Release(victim);
      int64_t freed = victim.plan.num_own_pages;
      for (const AdapterUse& use : victim.plan.adapters) {
        if (!IsPinned(use.id) && Get(use.id).ready) freed += PagesFor(use.id);
      }
      EXPECT_EQ(pool_.available(), available + freed);
      ++num_evictions_;
    }
    EXPECT_TRUE(plan.evict.empty() || plan.admit.empty());
  }

  void Admit(const Plan& plan) {
    for (const SequenceId id : plan.admit) {
      ToySequence& s = Get(id);
      ASSERT_FALSE(s.plan.running);
      for (const auto& [arrival, other] : sequences_) {
        if (other.plan.running || arrival >= s.arrival) continue;
        EXPECT_NE(other.plan.tenant, s.plan.tenant) << id << " overtakes " << arrival;
        ++num_overtaken_;
      }
      s.plan.running = true;
      s.prefix = cache_.Take(s.source, Reusable(s), s.pages);
      ASSERT_EQ(s.prefix.num_pages() * limits_.pages.page_tokens, s.plan.num_computed)
          << "not what was planned with";
      num_cached_ += s.prefix.num_pages();
      for (const AdapterUse& use : s.plan.adapters) Get(use.id).offer.Withdraw();
    }
    for (const SequenceId id : plan.admit) {
      ToySequence& s = Get(id);
      s.state_pages = cache_.TakeState(s.prefix, CopyPages());
      ASSERT_EQ(std::ssize(s.state_pages), s.plan.num_computed > 0 ? limits_.pages.state_pages : 0);
      num_cached_states_ += s.state_pages.empty() ? 0 : 1;
    }
    for (const SequenceId id : plan.admit) {
      for (const AdapterUse& use : Get(id).plan.adapters) {
        if (Get(use.id).pages.empty()) Load(use.id);
      }
    }
  }

  void Prefetch(const Plan& plan) {
    std::set<AdapterId> adapters;
    for (const auto& [id, adapter] : plan.prefetch) {
      EXPECT_FALSE(Get(id).plan.running);
      EXPECT_TRUE(Uses(Get(id).plan.adapters, adapter));
      ASSERT_TRUE(Get(adapter).pages.empty());
      EXPECT_TRUE(adapters.insert(adapter).second);
      Load(adapter);
      ++num_prefetches_;
    }
  }

  void RunItems(const Plan& plan) {
    std::set<SequenceId> ran;
    int64_t rows = 0;
    int64_t drafted = 0;
    for (const Plan::Item& item : plan.items) {
      ToySequence& s = Get(item.id);
      ASSERT_TRUE(s.plan.running);
      if (!AreReady(item.adapters)) continue;
      ASSERT_TRUE(ran.insert(item.id).second);
      ASSERT_GE(item.num_rows, 1);
      const int64_t remaining = s.plan.num_tokens - s.plan.num_computed;
      ASSERT_LE(item.num_rows, remaining + s.plan.num_drafted);
      ASSERT_LE(item.num_rows, s.plan.max_rows);
      EXPECT_EQ(item.prefill, remaining > 1);
      rows += item.num_rows;
      drafted += std::max<int64_t>(0, item.num_rows - remaining);
      const int64_t of_state = limits_.pages.state_pages - std::ssize(s.state_pages);
      ASSERT_TRUE(pool_.Allocate(of_state, PageUse::kKv, s.state_pages) &&
                  pool_.Allocate(item.new_pages - of_state, PageUse::kKv, s.pages))
          << "more pages were promised than are available";
      ASSERT_EQ(s.num_pages(), Pages(s.plan.num_computed + item.num_rows));
    }
    EXPECT_LE(rows, limits_.max_rows);
    EXPECT_TRUE(drafted == 0 || rows <= limits_.max_draft_rows);
    num_drafted_ += drafted;
    ExpectProgress(ran);
    ExpectMixesAdjacent(plan);
    for (const Plan::Item& item : plan.items) {
      if (ran.contains(item.id)) Compute(Get(item.id), item.num_rows);
    }
    for (const Plan::Item& item : plan.items) {
      if (ran.contains(item.id)) Advance(item);
    }
  }

  uint64_t& Row(const ToySequence& s, int64_t position) {
    const PageId page = s.pages[static_cast<size_t>(position / limits_.pages.page_tokens)].id();
    return rows_[static_cast<size_t>(page.value() * limits_.pages.page_tokens +
                                     position % limits_.pages.page_tokens)];
  }

  void Compute(ToySequence& s, int64_t num_rows) {
    const int64_t end = s.plan.num_computed + num_rows;
    uint64_t guessed = s.history.back();
    for (int64_t i = s.plan.num_tokens; i < end; ++i) {
      guessed = Extended(guessed, s, i, s.draft[static_cast<size_t>(i - s.plan.num_tokens)]);
      Row(s, i) = guessed;
    }
    for (int64_t i = 0; i < std::min(end, s.plan.num_tokens); ++i) {
      const uint64_t expected = s.history[static_cast<size_t>(i)];
      if (i >= s.plan.num_computed) Row(s, i) = expected;
      ASSERT_EQ(Row(s, i), expected) << "sequence " << s.plan.id << ", token " << i;
    }
    for (const PageRef& page : s.state_pages) {
      uint64_t& state = FirstRow(page);
      if (s.plan.num_computed > 0) {
        ASSERT_EQ(state, s.history[static_cast<size_t>(s.plan.num_computed - 1)])
            << "sequence " << s.plan.id << ", state";
      }
      state = s.history[static_cast<size_t>(end - 1)];
    }
  }

  // What a page of a state holds, as one thing.
  uint64_t& FirstRow(const PageRef& page) {
    return rows_[static_cast<size_t>(page.id().value() * limits_.pages.page_tokens)];
  }
  PrefixCache::Copy CopyPages() {
    return [this](std::span<const PageRef> from, std::span<const PageRef> to) {
      ASSERT_EQ(from.size(), to.size());
      for (size_t i = 0; i < from.size(); ++i) FirstRow(to[i]) = FirstRow(from[i]);
    };
  }

  // Nobody starves: the oldest sequence gets ahead in every step but those in which an adapter
  // of its own is being loaded, or one that has the pages it needs, so that each becomes the oldest
  // within a bounded number of steps; or in which it waits for the end of some of another tenant
  // that joined while its own tenant had no rows left. Every running decode gets its row.
  void ExpectProgress(const std::set<SequenceId>& ran) {
    const int64_t running = std::ranges::count_if(
        sequences_, [](const auto& entry) { return entry.second.plan.running; });
    for (const auto& [arrival, sequence] : sequences_) {
      const PlanSequence& s = sequence.plan;
      if (s.running && !AreReady(s.adapters)) continue;
      const bool decodes = s.running && s.num_tokens - s.num_computed == 1;
      const bool was_overtaken = shares_rows_ && !s.running && running > 0;
      if (decodes || (arrival == sequences_.begin()->first && !was_overtaken)) {
        EXPECT_TRUE(ran.contains(s.id) || WaitsForALoad(sequence)) << "sequence " << s.id;
      }
    }
    EXPECT_LE(running, limits_.max_running);
  }

  // Nobody else runs, and an adapter that is being loaded for others has the pages it needs.
  bool WaitsForALoad(const ToySequence& s) const {
    int64_t others = 0;
    for (const auto& [arrival, sequence] : sequences_) {
      others += sequence.plan.running && sequence.plan.id != s.plan.id ? 1 : 0;
    }
    int64_t pages = Pages(s.plan.num_tokens) - s.num_pages();
    if (!s.plan.running) {
      for (const AdapterUse& use : s.plan.adapters) pages += PagesFor(use.id);
    }
    return others == 0 && pool_.available() < pages &&
           std::ranges::any_of(adapters_,
                               [](const ToyAdapter& a) { return !a.pages.empty() && !a.ready; });
  }

  // One segment per mix among the prefills and one among the decodes; one for both where a mix of
  // the prefills decodes as well (the border can join one only).
  static void ExpectMixesAdjacent(const Plan& plan) {
    std::set<AdapterMix> prefilling;
    std::set<AdapterMix> decoding;
    int64_t segments = 0;
    for (size_t i = 0; i < plan.items.size(); ++i) {
      const Plan::Item& item = plan.items[i];
      if (i > 0) {
        EXPECT_FALSE(item.prefill && !plan.items[i - 1].prefill);
      }
      segments += i == 0 || item.adapters != plan.items[i - 1].adapters ? 1 : 0;
      (item.prefill ? prefilling : decoding).insert(item.adapters);
    }
    const bool joined = std::any_of(prefilling.begin(), prefilling.end(),
                                    [&](const AdapterMix& mix) { return decoding.contains(mix); });
    EXPECT_EQ(segments, static_cast<int64_t>(prefilling.size() + decoding.size()) - joined);
  }

  void Advance(const Plan::Item& item) {
    ToySequence& s = Get(item.id);
    const int64_t remaining = s.plan.num_tokens - s.plan.num_computed;
    s.plan.num_computed += std::min(remaining, item.num_rows);
    const int64_t num_choices = item.num_rows - remaining + 1;
    for (int64_t i = 0; i < num_choices; ++i) {
      Append(s, static_cast<int32_t>(Draw(0, 1)));
      if (i == num_choices - 1 || s.tokens.back() != s.draft[static_cast<size_t>(i)]) break;
      ++s.plan.num_computed;
    }
    CachePages(s);
    if (has_state() && s.plan.num_computed == s.stop) {
      cache_.KeepState(s.prefix, s.state_pages, CopyPages());
    }
    while (s.num_pages() > Pages(s.plan.num_computed)) s.pages.pop_back();
    if (s.plan.num_tokens == s.num_wanted) Remove(sequences_.find(s.arrival));
  }

  bool has_state() const { return limits_.pages.state_pages > 0; }

  void CachePages(ToySequence& s) {
    const int64_t page_tokens = limits_.pages.page_tokens;
    while ((s.prefix.num_pages() + 1) * page_tokens <= s.plan.num_computed) {
      const auto page = static_cast<size_t>(s.prefix.num_pages());
      cache_.Extend(s.prefix,
                    std::span(s.tokens).subspan(page * static_cast<size_t>(page_tokens),
                                                static_cast<size_t>(page_tokens)),
                    s.pages[page]);
    }
  }

  // Every page is free, or somebody's, or cached.
  void ExpectPagesAccountedFor() {
    std::set<PageId> used;
    for (const auto& [arrival, s] : sequences_) {
      for (const PageRef& page : s.pages) used.insert(page.id());
      for (const PageRef& page : s.state_pages) used.insert(page.id());
    }
    int64_t adapter_pages = 0;
    int64_t pinned_pages = 0;
    for (size_t i = 0; i < adapters_.size(); ++i) {
      const auto num_pages = static_cast<int64_t>(adapters_[i].pages.size());
      adapter_pages += num_pages;
      if (!adapters_[i].ready || IsPinned(AdapterId(static_cast<int32_t>(i)))) {
        pinned_pages += num_pages;
      }
    }
    const auto num_used = static_cast<int64_t>(used.size());
    EXPECT_EQ(pool_.used(PageUse::kAdapter), adapter_pages);
    EXPECT_EQ(num_kv_pages(), num_used);
    EXPECT_EQ(pool_.available(), pool_.total() - num_used - pinned_pages);
    EXPECT_LE(num_used, max_kv_pages_);
  }

  std::mt19937_64 random_;
  const PlanLimits limits_;
  const std::vector<int64_t> adapter_pages_;
  PagePool pool_;
  PrefixCache cache_;
  std::vector<ToyAdapter> adapters_;
  const int64_t slowness_;  // steps that a load takes on average
  const int64_t max_kv_pages_;
  const bool shares_rows_;  // by tenants
  const double weight_of_a_;
  std::vector<uint64_t> rows_;  // of every page: the history that each was computed from
  std::vector<int32_t> openings_[3];
  std::map<uint64_t, ToySequence> sequences_;
  uint64_t next_arrival_ = 0;
  int64_t num_evictions_ = 0;
  int64_t num_drops_ = 0;
  int64_t num_cached_ = 0;
  int64_t num_cached_states_ = 0;
  int64_t num_prefetches_ = 0;
  int64_t num_overtaken_ = 0;
  int64_t num_drafted_ = 0;
};

TEST(PlannerSimulation, KeepsItsPromisesInRandomWorlds) {
  int64_t evictions = 0;
  int64_t drops = 0;
  int64_t cached = 0;
  int64_t cached_states = 0;
  int64_t prefetches = 0;
  int64_t overtaken = 0;
  int64_t drafted = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ToyWorld world(seed);
    std::mt19937_64 random(seed + 1'000'000);
    for (int step = 0; step < 300 && !HasFailure(); ++step) {
      while (world.NumWaiting() < 10 && random() % 4 == 0) world.Arrive();
      if (random() % 20 == 0 && !world.Empty()) world.CancelOne();
      world.Step();
    }
    // At most 22 sequences are left; each ends within 70 steps of being the oldest, and a load.
    for (int step = 0; step < 22 * (70 + 100) && !world.Empty() && !HasFailure(); ++step)
      world.Step();
    ASSERT_TRUE(world.Empty());
    ASSERT_FALSE(HasFailure());
    evictions += world.num_evictions();
    drops += world.num_drops();
    cached += world.num_cached();
    cached_states += world.num_cached_states();
    prefetches += world.num_prefetches();
    overtaken += world.num_overtaken();
    drafted += world.num_drafted();
  }
  EXPECT_GT(prefetches, 500);
  EXPECT_GT(overtaken, 300);
  EXPECT_GT(drafted, 5000);
  EXPECT_GT(evictions, 150);
  EXPECT_GT(drops, 500);
  EXPECT_GT(cached, 1000);
  EXPECT_GT(cached_states, 50);
}

}  // namespace
}  // namespace aril
