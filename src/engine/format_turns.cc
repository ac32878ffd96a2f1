#include "engine/format_turns.h"

#include <algorithm>
#include <compare>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

namespace aril {
namespace {

// Hands sequences out in their order, of each automaton one at a time. Thread-safe.
class Jobs {
 public:
  explicit Jobs(std::vector<Sequence*> sequences) : left_(std::move(sequences)) {}

  // Null: there is none now. Whoever has one goes on with what is left.
  Sequence* Take() {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(
        left_, [&](const Sequence* s) { return !busy_.contains(&s->matcher->automaton()); });
    if (found == left_.end()) return nullptr;
    Sequence* const sequence = *found;
    left_.erase(found);
    busy_.insert(&sequence->matcher->automaton());
    return sequence;
  }
  void GiveBack(const Sequence& sequence) {
    const std::lock_guard lock(mutex_);
    busy_.erase(&sequence.matcher->automaton());
  }

  // Once nobody has one.
  bool IsLeft(const Sequence* sequence) const { return std::ranges::count(left_, sequence) > 0; }

 private:
  std::mutex mutex_;
  std::vector<Sequence*> left_;
  std::set<const grammar::TokenAutomaton*> busy_;
};

}  // namespace

void FormatTurns::Run(std::span<Sequence* const> sequences, ThreadPool& threads) {
  // Nobody is between Find and Accept but those that sit out.
  for (Sequence* const s : sequences) s->matcher->automaton().Bound();
  std::vector<Sequence*> order;
  std::vector<Sequence*> others;
  for (Sequence* const s : sequences) {
    (s->matcher->FindsAtOnce() ? order : others).push_back(s);
  }
  others = InTurns(std::move(others));
  order.insert(order.end(), others.begin(), others.end());
  Jobs jobs(order);
  const int64_t num_chunks = std::min<int64_t>(threads.num_threads(), std::ssize(order));
  threads.ParallelFor(num_chunks, [&](int64_t) {
    for (int64_t left = work_; left > 0;) {
      Sequence* const sequence = jobs.Take();
      if (sequence == nullptr) return;
      sequence->matcher->Find(&left);
      jobs.GiveBack(*sequence);
    }
  });
  std::map<std::string, uint64_t> turns;
  for (const Sequence* const s : others) {
    const std::string& tenant = s->request.tenant;
    const auto before = last_turns_.find(tenant);
    uint64_t& turn =
        turns.try_emplace(tenant, before != last_turns_.end() ? before->second : 0).first->second;
    if (!jobs.IsLeft(s)) turn = ++turn_;
  }
  // Of tenants that wanted none nothing is kept: they come first the next time.
  last_turns_ = std::move(turns);
}

std::vector<Sequence*> FormatTurns::InTurns(std::vector<Sequence*> sequences) const {
  struct Place {
    int64_t number = 0;  // of a sequence among its tenant's
    uint64_t last_turn = 0;
    uint64_t arrival = 0;
    Sequence* sequence = nullptr;
    auto operator<=>(const Place&) const = default;
  };
  std::ranges::sort(sequences, {}, [](const Sequence* s) { return s->arrival; });
  std::map<std::string_view, int64_t> num_before;
  std::vector<Place> places;
  for (Sequence* const s : sequences) {
    const auto last = last_turns_.find(s->request.tenant);
    places.push_back({.number = num_before[s->request.tenant]++,
                      .last_turn = last != last_turns_.end() ? last->second : 0,
                      .arrival = s->arrival,
                      .sequence = s});
  }
  std::ranges::sort(places);
  for (size_t i = 0; i < places.size(); ++i) sequences[i] = places[i].sequence;
  return sequences;
}

}  // namespace aril
